"""What a run on another machine left: its result file, and the commits of its Airflow task. Reads only.

INVARIANT: a result is plain JSON, whose keys are those of `--result-file`. Anything else in its place is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ..errors import InvalidInput
from ..secret_names import check_no_secrets
from ..store import open_store
from ..store.contract import ObjectMissing

_OF_TRY = re.compile(r"([0-9]{1,9})\.json")


def read_result(uri: str, options: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Return the object in a result file, or None if there is no such file. `options` are for S3.

    Raises `InvalidInput` if the file is no result, and `StoreUnavailable`.
    """
    check_no_secrets(uri, "the result of a run")
    folder, _, name = _as_uri(uri).rpartition("/")
    try:
        data = open_store(folder, _options(folder, options)).get(name)
    except ObjectMissing:
        return None
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("event") not in ("result", "error"):
        raise InvalidInput(
            f"`{uri}` is no result of a run: expected the JSON object that `--result-file` writes",
            hint="give each job a result file of its own",
        )
    return found


def results_in(folder: str, options: Mapping[str, Any] | None = None) -> list[int]:
    """Return the tries that have left a result file `NUMBER.json` in a folder, ascending."""
    check_no_secrets(folder, "the results of runs")
    place = _as_uri(folder).rstrip("/")
    store = open_store(place, _options(place, options))
    return sorted(int(found[1]) for entry in store.list("") if (found := _OF_TRY.fullmatch(entry.name)) is not None)


def _as_uri(place: str) -> str:
    return place if "://" in place else f"file://{quote(place)}"


def _options(uri: str, options: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return options if uri.startswith(("s3://", "s3a://")) else None

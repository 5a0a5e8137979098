"""The initial state of operators, for `init`: what the code or the call gives, read, checked and stored.

INVARIANT: an operator that has had a batch never gets another initial state.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Collection, Iterable, Mapping
from os import PathLike, fspath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .. import names
from ..driver.context import Context
from ..errors import InvalidInput
from ..protocol.records import Commit, Segment
from ..spelling import unknown
from ..state.seeds import Runs, seed_runs, store_seeds
from ..store import ObjectMissing, folder_store


def initial_runs(context: Context, head: Commit | None, given: Mapping[str, Any]) -> dict[str, Runs]:
    """The initial state, by operator: of `given`, else, where it has had no batch yet, of its code."""
    for name in given:
        if name not in context.job.operators:
            raise unknown("operator to give an initial state", name, context.job.operators)
    found: dict[str, Runs] = {}
    for name, placed in context.job.operators.items():
        initial = placed.operator.initial
        if initial is None:
            if name in given:
                raise InvalidInput(
                    f"init: operator `{name}` is a `{placed.operator.kind}`, which takes no initial state"
                )
            continue
        begun = head is not None and name in head.state
        data = given.get(name, None if begun else initial.data)
        if data is not None:
            rows = initial.table(_read(context, data, name), name, context.job.time_zone)
            found[name] = seed_runs(placed.operator.maps, placed.operator.seed(rows))
    return found


def check_seeds(head: Commit | None, seeded: Collection[str], described_again: Iterable[str]) -> None:
    """`InvalidInput` for an initial state that comes too late, or that is lost because its operator has changed."""
    for name in seeded:
        if head is not None and name in head.state:
            raise InvalidInput(
                f"init: operator `{name}` has had a batch (version {head.version} has state of it), "
                "so it takes no other initial state",
                hint="give the operator a new name, or leave the initial state out",
            )
    for name in described_again:
        if name not in seeded:
            raise InvalidInput(
                f"init: operator `{name}` has changed, and its initial state was written for what it was",
                hint=f"give it again: r.init(initial_state={{{name!r}: …}}) or tidemill init --initial-state {name}=…",
            )


def store_initial_state(context: Context, runs: Mapping[str, Runs]) -> dict[str, dict[str, list[Segment]]]:
    """The runs as segments, by operator and map. CRASH: segments that no entry names are garbage."""
    stem = names.seed_stem(uuid.uuid4().hex)
    return {
        name: store_seeds(context.store, context.cache, name, of_operator, context.branch, stem)
        for name, of_operator in runs.items()
    }


def _read(context: Context, data: Any, operator: str) -> Any:
    """`data`; where it is the path of a Parquet file, or of a folder of them, their rows."""
    if not isinstance(data, str | PathLike):
        return data
    path = fspath(data)
    folder, _, name = path.rstrip("/").rpartition("/")
    options = context.storage_options.get("source")
    try:
        files = [folder_store(folder or ("/" if path.startswith("/") else "."), options).get(name)]
    except (ObjectMissing, IsADirectoryError):
        store = folder_store(path, options)
        entries = [one.name for one in store.list() if one.name.endswith(".parquet") and one.name[0] not in "._"]
        files = [store.get(one) for one in entries]
    if not files:
        raise InvalidInput(f"the initial state of operator `{operator}`: there is no Parquet file at {path}")
    try:
        return pa.concat_tables([pq.read_table(io.BytesIO(file), use_threads=False) for file in files])
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"the initial state of operator `{operator}`: {path} is not Parquet: {error}") from error

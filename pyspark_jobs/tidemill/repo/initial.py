"""The initial state of operators, for `init`: read from the code or the call, checked and stored.

INVARIANT: an operator that has run in a batch never gets another initial state.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Mapping
from os import PathLike, fspath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InvalidInput
from ..protocol.records import Commit, Segment
from ..spelling import unknown
from ..state.seeds import Runs, seed_runs, store_seeds
from ..store import ObjectMissing, folder_store
from .opened import Context


def initial_runs(context: Context, head: Commit | None, given: Mapping[str, Any]) -> dict[str, Runs]:
    """Return the initial state by operator, from `given` or from the operator's code.

    The state in the code counts only for an operator that has not run in a batch yet.
    """
    for name in given:
        if name not in context.job.operators:
            raise unknown("operator to give an initial state", name, context.job.operators)
    found: dict[str, Runs] = {}
    for name, placed in context.job.operators.items():
        initial = placed.operator.initial
        if initial is None:
            if name in given:
                raise InvalidInput(
                    f"init: operator `{name}` is a `{placed.operator.kind}`, which cannot have an initial state"
                )
            continue
        begun = head is not None and name in head.state
        data = given.get(name, None if begun else initial.data)
        if data is not None:
            rows = initial.table(_read(context, data, name), name, context.job.time_zone)
            found[name] = seed_runs(placed.operator.maps, placed.operator.seed(rows))
    return found


def check_seeds(head: Commit | None, seeded: Collection[str], described_again: Iterable[str]) -> None:
    """Raise `InvalidInput` for an initial state that comes too late, or that no longer fits its changed operator."""
    for name in seeded:
        if head is not None and name in head.state:
            raise InvalidInput(
                f"init: operator `{name}` already has state in version {head.version}, so its initial state cannot "
                "change",
                hint="give the operator a new name, or omit the initial state",
            )
    for name in described_again:
        if name not in seeded:
            raise InvalidInput(
                f"init: operator `{name}` has changed since its initial state was written",
                hint="give the initial state again with "
                f"r.init(initial_state={{{name!r}: …}}) or tidemill init --initial-state {name}=…",
            )


def store_initial_state(context: Context, runs: Mapping[str, Runs], stem: str) -> dict[str, dict[str, list[Segment]]]:
    """Store the runs as segments, and return them by operator and map. `stem` is part of their names.

    CRASH: a segment that no entry of `refs/` names is garbage. Nothing reads it.
    """
    return {
        name: store_seeds(context.store, context.cache, name, of_operator, context.branch, stem)
        for name, of_operator in runs.items()
    }


def _read(context: Context, data: Any, operator: str) -> Any:
    """Return `data`. If it is the path of a Parquet file or of a folder with Parquet files, return their rows."""
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
        raise InvalidInput(f"read the initial state of operator `{operator}`: found no Parquet file at `{path}`")
    try:
        return pa.concat_tables([pq.read_table(io.BytesIO(file), use_threads=False) for file in files])
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"read the initial state of operator `{operator}`: `{path}` is not a Parquet file: {error}"
        ) from error

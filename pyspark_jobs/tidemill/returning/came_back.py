"""Which quarantined rows of a version were requeued before, so that none comes back twice.

INVARIANT: if that cannot be known, because an object with requeued rows was deleted with its version, the call is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..errors import CorruptState, InvalidInput
from ..names import REQUEUED, number_of_file, requeued_version
from ..protocol.kinds import rules_of
from ..protocol.records import Commit
from ..protocol.retained import At, at, is_kept
from ..repo.opened import Context
from ..sources.ledger import requeued_objects
from ..sources.requeued import fetch
from .export import ROW_ID
from .quarantined_by import RowOf

Row = Mapping[str, Any]
"""A row of quarantine without its content."""


@dataclass(frozen=True)
class _Object:
    """An object with requeued rows: where it is from, and the version that stored it."""

    source: str
    path: str
    checksum: str

    @property
    def branch(self) -> str:
        """The branch that stored the object."""
        return _branch_of(self.path)

    @property
    def version(self) -> int:
        """The version that had quarantined the rows."""
        return requeued_version(self.path)

    @property
    def by(self) -> int:
        """The version that requeued the rows."""
        return number_of_file(self.path) or 0


def came_back(
    context: Context, head: Commit | None, commit: Commit, by: Sequence[RowOf], rows: Sequence[Row]
) -> dict[int, int]:
    """Return which of `rows` were requeued, and by which version. `by` has the batches of all rows of `commit`.

    Rows of a promotion may have been requeued on its branch. A version that repeats another may have rows that were
    requeued of that one. Nothing says which of them it has quarantined itself, so all rows of the same files count.
    """
    numbered = {(of.commit.branch, of.commit.version, of.number): row for row, of in enumerate(by)}
    own = {(branch, version) for branch, version, _ in numbered}
    first = min((version for _, version in own), default=0)
    is_promotion = rules_of(commit).of_branch
    itself, refs = (commit.branch, commit.version), context.initialised()
    repeated = None if commit.replays is None else (commit.replays.branch, commit.replays.version)
    found: dict[int, int] = {}
    for one in [_Object(*of) for of in requeued_objects(context.ledger(head).map)]:
        made_by = at(refs, one.branch, one.version)
        of = (made_by.branch, made_by.version)
        if of not in (itself, repeated) and (not is_promotion or one.version < first):
            continue  # a version that is repeated has no lower number than the one that repeats it
        held = _held(context, commit, one)
        ids = held.column("id").to_pylist()
        if is_promotion and of in own:
            places = [(*of, number) for number in ids]
            found |= {numbered[place]: one.by for place in places if place in numbered}
        elif of == itself:
            found |= dict.fromkeys(ids, one.by)
        else:
            files = set(held.column("file").to_pylist())
            same = (row for row in rows if row["source"] == one.source and row["file"] in files)
            found |= {row[ROW_ID]: one.by for row in same}
    return found


def _held(context: Context, commit: Commit, one: _Object) -> pa.Table:
    held = requeued_rows(context, one.path, one.checksum)
    if held is None:
        raise InvalidInput(
            f"requeue version {commit.version}: version {one.by} requeued rows of it and is no longer kept, so nothing "
            "says which rows came back",
            hint="write the corrected rows to a new file of the source",
        )
    return held


def requeued_rows(context: Context, path: str, checksum: str) -> pa.Table | None:
    """Return an object with requeued rows, or None if it was deleted with the version that stored it."""
    try:
        return fetch(context.store, path.removeprefix("/"), checksum)
    except CorruptState:
        refs, number = context.refresh(), number_of_file(path)
        if number is not None and not is_kept(refs, At(_branch_of(path), number)):
            return None
        raise


def _branch_of(path: str) -> str:
    """Return the id of the branch that stored requeued rows."""
    return path.removeprefix(f"/{REQUEUED}").partition("/")[0]

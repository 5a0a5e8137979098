"""Which quarantined rows of a version were requeued before, so that none comes back twice. Which batch each row is of.

INVARIANT: a row of a promotion is found by the name of its file, which one batch has stored. If it cannot be known
whether a row came back, because an object with requeued rows was deleted with its version, the call is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from ..names import number_of_file, requeued_branch, requeued_version
from ..protocol.history import effective
from ..protocol.kinds import rules_of
from ..protocol.records import Commit, QuarantineFile
from ..protocol.retained import version_of
from ..reading.first_read import requeued_rows
from ..repo.opened import Opened
from ..repo.steps import first_own
from ..sources.ledger import requeued_objects
from ..values import dataclass
from .export import ROW_ID


@dataclass(frozen=True)
class RowOf:
    """A quarantined row: the commit of the batch that quarantined it, and its number among the rows of that batch."""

    commit: Commit
    number: int


def quarantined_by(repo: Opened, commit: Commit) -> list[RowOf]:
    """Return which batch quarantined each row of a version, in the order of the rows."""
    firsts = {file.name: of for one in _batches(repo, commit) for file, of in _firsts(one)}
    found = []
    for file in commit.quarantine:
        first = firsts[file.name]
        found += [RowOf(first.commit, first.number + place) for place in range(file.rows)]
    return found


def _batches(repo: Opened, commit: Commit) -> list[Commit]:
    """Return the commits whose rows a version has: its own, or of a promotion those that its history has taken over."""
    if not rules_of(commit).of_branch or commit.promoted is None:
        return [commit]
    log = repo.own_log(commit.promoted.branch)
    theirs = log.commit(commit.promoted.version)
    own = effective(theirs, first_own(repo, theirs.branch, theirs.version))
    return [batch for version in own for batch in _batches(repo, log.commit(version))]


def _firsts(commit: Commit) -> list[tuple[QuarantineFile, RowOf]]:
    """Return the quarantine files of a batch, each with its first row."""
    found, number = [], 0
    for file in commit.quarantine:
        found.append((file, RowOf(commit, number)))
        number += file.rows
    return found


RejectRow = Mapping[str, Any]
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
        return requeued_branch(self.path)

    @property
    def version(self) -> int:
        """The version that had quarantined the rows."""
        return requeued_version(self.path)

    @property
    def by(self) -> int:
        """The version that requeued the rows."""
        return number_of_file(self.path) or 0


def came_back(
    repo: Opened, head: Commit | None, commit: Commit, by: Sequence[RowOf], rows: Sequence[RejectRow]
) -> dict[int, int]:
    """Return which of `rows` were requeued, and by which version. `by` has the batches of all rows of `commit`.

    Rows of a promotion may have been requeued on its branch. A version that repeats another may have rows that were
    requeued of that one. Nothing says which of them it has quarantined itself, so all rows of the same files count.
    """
    numbered = {(of.commit.branch, of.commit.version, of.number): row for row, of in enumerate(by)}
    own = {(branch, version) for branch, version, _ in numbered}
    first = min((version for _, version in own), default=0)
    is_promotion = rules_of(commit).of_branch
    itself, refs = (commit.branch, commit.version), repo.initialised()
    repeated = None if commit.replays is None else (commit.replays.branch, commit.replays.version)
    found: dict[int, int] = {}
    for one in [_Object(*of) for of in requeued_objects(repo.ledger(head).map)]:
        made_by = version_of(refs, one.branch, one.version)
        of = (made_by.branch, made_by.version)
        if of not in (itself, repeated) and (not is_promotion or one.version < first):
            continue  # a version that is repeated has no lower number than the one that repeats it
        held = _held(repo, commit, one)
        ids = held.column("id").to_pylist()
        if is_promotion and of in own:
            places = [(*of, number) for number in ids]
            found |= {numbered[place]: one.by for place in places if place in numbered}
        elif of == itself:
            found |= dict.fromkeys(ids, one.by)
        else:
            files = set(held.column("file").to_pylist())
            same = (row for row in rows if row["source"] in (one.source, None) and row["file"] in files)
            found |= {row[ROW_ID]: one.by for row in same}
    return found


def _held(repo: Opened, commit: Commit, one: _Object) -> pa.Table:
    held = requeued_rows(repo, one.path, one.checksum)
    if held is None:
        raise InvalidInput(
            f"requeue version {commit.version}: version {one.by} requeued rows of it and is no longer kept, so nothing "
            "says which rows came back",
            hint="write the corrected rows to a new file of the source",
        )
    return held

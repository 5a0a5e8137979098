"""Which batch quarantined each row of a version. The rows of a promotion come from the versions of its branch.

INVARIANT: a row of a promotion is found by the name of its file, which one batch has stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.history import effective
from ..protocol.kinds import rules_of
from ..protocol.log import Log
from ..protocol.records import Commit, QuarantineFile
from ..repo.opened import Context
from ..repo.steps import first_own


@dataclass(frozen=True)
class RowOf:
    """A quarantined row: the commit of the batch that quarantined it, and its number among the rows of that batch."""

    commit: Commit
    number: int


def quarantined_by(context: Context, commit: Commit) -> list[RowOf]:
    """Return which batch quarantined each row of a version, in the order of the rows."""
    firsts = {file.name: of for one in _batches(context, commit) for file, of in _firsts(one)}
    found = []
    for file in commit.quarantine:
        first = firsts[file.name]
        found += [RowOf(first.commit, first.number + place) for place in range(file.rows)]
    return found


def _batches(context: Context, commit: Commit) -> list[Commit]:
    """Return the commits whose rows a version has: its own, or of a promotion those that its history has taken over."""
    if not rules_of(commit).of_branch or commit.promoted is None:
        return [commit]
    log = Log(context.store, commit.promoted.branch)
    theirs = log.commit(commit.promoted.version)
    own = effective(theirs, first_own(context, theirs.branch, theirs.version))
    return [batch for version in own for batch in _batches(context, log.commit(version))]


def _firsts(commit: Commit) -> list[tuple[QuarantineFile, RowOf]]:
    """Return the quarantine files of a batch, each with its first row."""
    found, number = [], 0
    for file in commit.quarantine:
        found.append((file, RowOf(commit, number)))
        number += file.rows
    return found

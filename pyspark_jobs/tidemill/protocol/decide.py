"""The decisions of the protocol: which commit counts, which files a batch reads, and what its batch time is.

Pure functions over what was observed: no store, no clock. `tiling` decides which segments make a version.
INVARIANT: a decision depends only on records and arguments, so two drivers that see the same decide the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeVar

from ..units import iso
from ..values import dataclass
from .kinds import rules_of
from .records import Commit
from .tiling import check_receipts, coalesce, merge_state, segments_within

__all__ = [
    "BatchTime",
    "ObservedTimes",
    "batch_time",
    "check_receipts",
    "choose_files",
    "coalesce",
    "commit_outcome",
    "fenced_hint",
    "fenced_reason",
    "merge_state",
    "segments_within",
    "sweep_time",
]

CommitOutcome = Literal["ours", "already", "fenced"]
TimeRule = Literal["arrival", "plan"]


class Sized(Protocol):
    """The part of a file that choosing needs."""

    @property
    def size(self) -> int:
        """Bytes."""


_File = TypeVar("_File", bound=Sized)


def commit_outcome(ours: Commit, theirs: Commit) -> CommitOutcome:
    """Decide what it means that `theirs` is stored under the name that we tried to create with `ours`.

    `ours`: it is our own commit, whose answer was lost. `already`: another attempt committed the same plan, so ours is
    discarded. `fenced`: another run committed something else.
    """
    if theirs.attempt == ours.attempt:
        return "ours"
    same = rules_of(theirs).is_of_plan and (theirs.plan_id, theirs.kind) == (ours.plan_id, ours.kind)
    return "already" if same else "fenced"


def fenced_reason(ours: Commit, theirs: Commit) -> str:
    """Return the message for `fenced`: which attempt committed what, and what ours was."""
    return (
        f"commit version {ours.version} of branch `{ours.branch}`: another run is committing to this pipeline; "
        f"its attempt `{theirs.attempt}` committed a {theirs.kind} of plan `{theirs.plan_id}`, ours is attempt "
        f"`{ours.attempt}`, a {ours.kind} of plan `{ours.plan_id}`; nothing of this run is committed"
    )


def fenced_hint(theirs: Commit) -> str:
    """Return the advice for `fenced`. A void commit means that the plan was abandoned while this run executed it."""
    if rules_of(theirs).abandons:
        return "the plan of this run was abandoned with `replan`; run again to plan the files that wait now"
    if not rules_of(theirs).is_of_plan:
        return f"a `{theirs.kind}` took the number of this version meanwhile; run again"
    return "find the other run, and let only one of them continue"


def choose_files(files: Sequence[_File], max_files: int | None = None, max_bytes: int | None = None) -> Sequence[_File]:
    """Return the files of the next batch: a prefix of `files`, with at least one file unless `files` is empty.

    `max_bytes` is a soft limit, like Spark's `maxBytesPerTrigger`: the first file is chosen whatever its size.
    """
    taken, total = 0, 0
    for file in files if max_files is None else files[: max(max_files, 1)]:
        total += file.size
        if taken and max_bytes is not None and total > max_bytes:
            break
        taken += 1
    return files[:taken]


@dataclass(frozen=True)
class ObservedTimes:
    """The times that decide the time of a batch or a sweep, all in ms since the epoch.

    `planned_ms`: the clock, read before listing files. `newest_ms`: arrival of the newest file of the batch.
    `oldest_waiting_ms`: arrival of the oldest file that waits for a later batch. `previous_ms`: batch time of the last
    commit.
    """

    planned_ms: int
    newest_ms: int | None = None
    oldest_waiting_ms: int | None = None
    previous_ms: int | None = None


@dataclass(frozen=True)
class BatchTime:
    """A batch time. `raised_from_ms` is the time that the rule gave, if it was raised to that of the last commit."""

    ms: int
    raised_from_ms: int | None = None

    @property
    def note(self) -> str | None:
        """The note for the user if the batch time was raised; otherwise None."""
        if self.raised_from_ms is None:
            return None
        return (
            f"batch time {iso(self.raised_from_ms)} is before that of the last commit and was raised to "
            f"{iso(self.ms)}, because batch time never goes back"
        )


def batch_time(rule: TimeRule | int, observed: ObservedTimes) -> BatchTime:
    """Return the batch time by the pipeline's rule. An integer is a time that the user gave.

    `arrival`: the time of planning, unless files wait for a later batch. Then it is the arrival of the newest file of
    this batch, but never after the time of planning, because the clock of a file may be ahead, and never before 1970,
    where times of files may be. `plan`: the time of planning. The batch time is never before that of the last commit.
    """
    found = observed.planned_ms
    if isinstance(rule, int):
        found = rule
    elif rule == "arrival" and observed.oldest_waiting_ms is not None and observed.newest_ms is not None:
        found = max(0, min(observed.newest_ms, observed.planned_ms))
    return _at_least_previous(found, observed)


def sweep_time(rule: TimeRule | int, observed: ObservedTimes) -> BatchTime:
    """Return the batch time of a sweep: the time of planning, but never after the arrival of a waiting file.

    An integer is a time that the user gave, which replaces that rule. The batch time is never before that of the last
    commit. If the pipeline computes batch times with a function of the plan, the caller gives the time of the last
    commit here, unless the user gave a time.
    """
    if isinstance(rule, int):
        return _at_least_previous(rule, observed)
    waiting = observed.oldest_waiting_ms
    return _at_least_previous(observed.planned_ms if waiting is None else min(observed.planned_ms, waiting), observed)


def _at_least_previous(found: int, observed: ObservedTimes) -> BatchTime:
    previous = observed.previous_ms
    return BatchTime(found) if previous is None or found >= previous else BatchTime(previous, raised_from_ms=found)

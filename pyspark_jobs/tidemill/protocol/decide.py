"""The decisions of the protocol: whose commit counts, what a batch takes, what time it is.

Pure functions over what was observed: no store, no clock. Which segments make a version is decided in `tiling`.
INVARIANT: what is decided depends on records and arguments alone, so two drivers that see the same decide the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from .progress import iso
from .records import Commit
from .tiling import check_receipts, coalesce, merge_state, visible

__all__ = [
    "BatchTime",
    "Observed",
    "Outcome",
    "batch_time",
    "check_receipts",
    "choose",
    "coalesce",
    "commit_outcome",
    "fenced_reason",
    "merge_state",
    "sweep_time",
    "visible",
]

Outcome = Literal["ours", "already", "fenced"]
TimeRule = Literal["arrival", "plan"]


class Sized(Protocol):
    """A file, as far as choosing goes."""

    @property
    def size(self) -> int:
        """Bytes."""


File = TypeVar("File", bound=Sized)


def commit_outcome(ours: Commit, theirs: Commit) -> Outcome:
    """What it means that `theirs` stands under the name that we tried to create with `ours`.

    `ours`: it is the one we sent, and the answer was lost. `already`: the same plan was committed by another attempt,
    so ours is to be discarded. `fenced`: somebody committed something else.
    """
    if theirs.attempt == ours.attempt:
        return "ours"
    same = (theirs.plan_id, theirs.kind) == (ours.plan_id, ours.kind)
    return "already" if same else "fenced"


def fenced_reason(ours: Commit, theirs: Commit) -> str:
    """The message for `fenced`: who committed what, and what to do."""
    return (
        f"commit version {ours.version} of branch `{ours.branch}`: attempt `{theirs.attempt}` committed a "
        f"{theirs.kind} of plan `{theirs.plan_id}` there, ours is attempt `{ours.attempt}`, a {ours.kind} of plan "
        f"`{ours.plan_id}`; nothing of ours counts. Find the other driver, and let only one of them go on"
    )


def choose(files: Sequence[File], max_files: int | None = None, max_bytes: int | None = None) -> Sequence[File]:
    """The files of the next batch: a prefix of `files`, at least one if there is one.

    `max_bytes` is soft, as Spark's `maxBytesPerTrigger`: the first file is taken whatever its size.
    """
    taken, total = 0, 0
    for file in files if max_files is None else files[: max(max_files, 1)]:
        total += file.size
        if taken and max_bytes is not None and total > max_bytes:
            break
        taken += 1
    return files[:taken]


@dataclass(frozen=True)
class Observed:
    """What the time of a batch or a sweep is decided by; all ms since the epoch.

    `planned_ms`: the clock, read before listing. `newest_ms`: the arrival of the newest file of the batch.
    `oldest_waiting_ms`: of the oldest file that waits behind it. `previous_ms`: the batch time of the last commit.
    """

    planned_ms: int
    newest_ms: int | None = None
    oldest_waiting_ms: int | None = None
    previous_ms: int | None = None


@dataclass(frozen=True)
class BatchTime:
    """A batch time, and the lower one that the rule gave if it had to be raised to the last commit's."""

    ms: int
    raised_from_ms: int | None = None

    @property
    def note(self) -> str | None:
        """What to tell people, if it was raised."""
        if self.raised_from_ms is None:
            return None
        return (
            f"batch time {iso(self.raised_from_ms)} lies before the last commit's and was raised to {iso(self.ms)}, "
            "because batch time never goes back"
        )


def batch_time(rule: TimeRule | int, observed: Observed) -> BatchTime:
    """The batch time by the pipeline's rule; an integer is a time that the user gave.

    `arrival`: while files wait behind the batch, the time at which its newest file arrived (at most the time of
    planning, should a file's clock be ahead), else the time of planning. `plan`: the time of planning. Never below
    the last commit's.
    """
    found = observed.planned_ms
    if isinstance(rule, int):
        found = rule
    elif rule == "arrival" and observed.oldest_waiting_ms is not None and observed.newest_ms is not None:
        found = min(observed.newest_ms, observed.planned_ms)
    return _at_least_previous(found, observed)


def sweep_time(rule: TimeRule | int, observed: Observed) -> BatchTime:
    """The batch time of a sweep: the time of planning, but never past the arrival of a file that waits.

    An integer is a time that the user gave, and is taken as it is. Never below the last commit's. A pipeline whose
    batch time is a function of the plan passes the last commit's time, unless told.
    """
    if isinstance(rule, int):
        return _at_least_previous(rule, observed)
    waiting = observed.oldest_waiting_ms
    return _at_least_previous(observed.planned_ms if waiting is None else min(observed.planned_ms, waiting), observed)


def _at_least_previous(found: int, observed: Observed) -> BatchTime:
    previous = observed.previous_ms
    return BatchTime(found) if previous is None or found >= previous else BatchTime(previous, raised_from_ms=found)

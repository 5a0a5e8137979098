"""Which deadlines of a key fired in a version, as far as the commit says, without the pipeline's code.

INVARIANT: a deadline counts as fired only if it must have fired. Whatever the commit leaves open is in `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..operators.recorded import clock_of
from ..protocol.records import Commit


@dataclass(frozen=True)
class Fired:
    """The deadlines that fired, in ms, and why others may be missing."""

    due: list[int]
    unknown: list[str] = field(default_factory=list)


def fired_as_recorded(commit: Commit, recorded: Mapping[str, Any], ended: Sequence[int], has_input: bool) -> Fired:
    """Return which of the deadlines that a key has no longer fired. `has_input`: the batch read files.

    Under batch time, a row of the key replaces a deadline before it fires, and only the code tells the key of a row. An
    operator's watermark is the least of some of the pipeline's, and only the code says of which.
    """
    clock = clock_of(recorded)
    if clock == "batch":
        due = [one for one in ended if one <= commit.batch_time_ms]
        if due and has_input:
            return Fired(
                [], [f"{_deadlines(len(due))} fired, or were replaced by rows of the key; only code tells which"]
            )
        return Fired(due)
    if clock is None or not commit.watermarks:
        return Fired([])
    low, high = min(commit.watermarks.values()), max(commit.watermarks.values())
    open_ = [one for one in ended if low < one <= high]
    said = f"{_deadlines(len(open_))} may have fired; only code tells which watermarks count for the operator"
    return Fired([one for one in ended if one <= low], [said] if open_ else [])


def _deadlines(count: int) -> str:
    return "1 deadline" if count == 1 else f"{count:,} deadlines"

"""Checks what a commit says against itself: ranges, sequences, totals. Pure.

INVARIANT: every rule here holds for each commit that a batch or a correction makes, whatever the pipeline.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from .. import names
from ..errors import InternalError
from ..protocol.records import Commit, Segment
from ..protocol.tiling import coalesce


def faults(commit: Commit) -> Iterator[str]:
    """Yield what contradicts itself in a commit, in words."""
    for operator, maps in commit.state.items():
        for name, segments in maps.items():
            yield from (f"map `{name}` of operator `{operator}`: {fault}" for fault in _of_segments(segments))
    yield from (f"ledger: {fault}" for fault in _of_segments(commit.ledger))
    yield from _of_totals(commit)


def _of_segments(segments: Sequence[Segment]) -> Iterator[str]:
    try:
        if coalesce(segments) != list(segments):
            yield "segments are not sorted by range and sequence"
    except InternalError as error:
        yield error.message
    by_sequence: defaultdict[int, list[Segment]] = defaultdict(list)
    for segment in segments:
        if segment.lo > segment.hi:
            yield f"`{segment.name}` shows the empty range {segment.lo:016x}..{segment.hi:016x}"
        by_sequence[segment.sequence].append(segment)
    for sequence, equal in by_sequence.items():
        ordered = sorted(equal, key=lambda one: one.lo)
        for one, other in itertools.pairwise(ordered):
            if other.lo <= one.hi:
                yield f"`{one.name}` and `{other.name}` both have sequence {sequence} and show {other.lo:016x}"


def _of_totals(commit: Commit) -> Iterator[str]:
    counts = commit.counts
    parts = counts.applied_rows + counts.late_rows + counts.quarantined_rows
    if parts != counts.input_rows:
        yield f"counted {counts.input_rows} input rows, but {parts} applied, late and quarantined ones"
    for operator, rows in commit.rows.items():
        known = commit.operators.get(operator)
        if operator == names.LEDGER or known is None or not rows:
            continue
        first = next(iter(rows.values()))
        if known.rows_total != first:
            yield f"operator `{operator}`: counted {known.rows_total} rows of state, but {first} in its first map"

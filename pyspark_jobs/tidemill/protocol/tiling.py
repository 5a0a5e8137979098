"""Key ranges that tile the hash space: checks of receipts, and the segments that make a version of a state map.

Pure functions. INVARIANT: each key hash is covered by exactly one receipt of a level, and of the segments that show a
hash, the one with the highest sequence is the newest. So a version neither misses a key nor shows it twice.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..errors import InternalError
from .records import HASH_END, Plan, Receipt, Segment

State = dict[str, dict[str, list[Segment]]]
"""Live segments by operator and map, sorted by (lo, sequence)."""

DuePlace = tuple[int, int]
"""A position in the order of deadlines: the deadline in ms, then the hash of the key."""
NEVER: DuePlace = (2**63 - 1, HASH_END)
"""A position after all deadlines."""


def check_receipts(receipts: Sequence[Receipt], plan: Plan, levels: int) -> None:
    """Raise `InternalError` unless the receipts of each level cover each hash once and count each split of `plan` once.

    Every range of level 0 names every split, with the same number of rows. Ranges of higher levels read rows that the
    level below made, so they may name no splits.
    """
    what = f"check the receipts of plan {plan.number}"
    for receipt in receipts:
        if not 0 <= receipt.level < levels:
            raise InternalError(f"{what}: found a receipt of level {receipt.level}, expected 0 to {levels - 1}")
    for level in range(levels):
        of_level = sorted((r for r in receipts if r.level == level), key=lambda r: (r.lo, r.hi))
        _check_tiles(f"{what}, level {level}", of_level)
        _check_splits(f"{what}, level {level}", [r for r in of_level if level == 0 or r.splits], len(plan.splits))


def _check_tiles(what: str, receipts: Sequence[Receipt]) -> None:
    free = 0
    for receipt in receipts:
        if receipt.lo != free or receipt.hi < receipt.lo or receipt.hi > HASH_END:
            raise InternalError(
                f"{what}: found the range {_range(receipt.lo, receipt.hi)}, expected one that begins at {free:016x}"
            )
        free = receipt.hi + 1
    if free != HASH_END + 1:
        raise InternalError(f"{what}: no receipt covers {_range(free, HASH_END)}")


def _check_splits(what: str, receipts: Sequence[Receipt], count: int) -> None:
    expected = {str(number) for number in range(count)}
    for receipt in receipts:
        where = f"{what}: the range {_range(receipt.lo, receipt.hi)}"
        missing, unknown = expected - receipt.splits.keys(), receipt.splits.keys() - expected
        if missing:
            raise InternalError(f"{where} did not receive the splits {', '.join(sorted(missing, key=int))}")
        if unknown:
            raise InternalError(f"{where} received splits that are not in the plan: {', '.join(sorted(unknown))}")
        for number, rows in receipt.splits.items():
            first = receipts[0].splits[number]
            if rows != first or rows < 0:
                raise InternalError(f"{where} counted {rows} rows in split {number}, but the first range {first}")


def merge_state(receipts: Iterable[Receipt]) -> State:
    """Return the live segments of all maps after a batch, from the receipts of its ranges, in operator order."""
    found: defaultdict[str, defaultdict[str, list[Segment]]] = defaultdict(lambda: defaultdict(list))
    for receipt in sorted(receipts, key=lambda r: (r.level, r.lo)):
        for operator, maps in receipt.state.items():
            for name, segments in maps.items():
                _check_inside(receipt, operator, segments)
                found[operator][name].extend(segments)
    return {operator: {name: coalesce(found[operator][name]) for name in found[operator]} for operator in found}


def _check_inside(receipt: Receipt, operator: str, segments: Iterable[Segment]) -> None:
    for segment in segments:
        if segment.lo < receipt.lo or segment.hi > receipt.hi:
            raise InternalError(
                f"merge the state of `{operator}`: the range {_range(receipt.lo, receipt.hi)} returned "
                f"`{segment.name}` for {_range(segment.lo, segment.hi)}"
            )


def coalesce(segments: Iterable[Segment]) -> list[Segment]:
    """Return the segments sorted by (lo, sequence), with adjacent ranges of one object joined.

    Ranges are joined only if their deadlines begin at the same position. Otherwise the joined segment would have to
    begin at the lower position, and each batch would search again for deadlines of hidden rows. `InternalError` if an
    object shows a hash twice, or is described in two ways.
    """
    joined: list[Segment] = []
    for segment in sorted(segments, key=lambda s: (s.name, s.lo)):
        if not joined or joined[-1].name != segment.name:
            joined.append(segment)
            continue
        last = joined[-1]
        if segment.lo <= last.hi or _description(segment) != _description(last):
            raise InternalError(
                f"join the ranges of `{segment.name}`: {_range(last.lo, last.hi)} and "
                f"{_range(segment.lo, segment.hi)} overlap, or differ in sequence, size or checksum"
            )
        if segment.lo == last.hi + 1 and due_from(segment) == due_from(last):
            joined[-1] = dataclasses.replace(last, hi=segment.hi)
        else:
            joined.append(segment)
    return sorted(joined, key=lambda s: (s.lo, s.sequence, s.name))


def segments_within(segments: Iterable[Segment], lo: int, hi: int) -> list[Segment]:
    """Return the segments that show hashes in `lo..hi`, clipped to that range, oldest first."""
    found = [
        dataclasses.replace(segment, lo=max(segment.lo, lo), hi=min(segment.hi, hi))
        for segment in segments
        if segment.lo <= hi and segment.hi >= lo
    ]
    return sorted(found, key=lambda s: (s.sequence, s.lo, s.name))


def neighbours(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Group segments in the order of `segments_within`: those of one object whose ranges touch form a group."""
    found: list[list[Segment]] = []
    for segment in segments:
        if found and found[-1][-1].name == segment.name and found[-1][-1].hi + 1 == segment.lo:
            found[-1].append(segment)
        else:
            found.append([segment])
    return found


def due_from(segment: Segment) -> DuePlace:
    """Return the position at which the deadlines of the live rows begin."""
    return NEVER if segment.min_deadline_ms is None else (segment.min_deadline_ms, segment.min_deadline_hash)


def with_due_from(segment: Segment, place: DuePlace) -> Segment:
    """Return the segment with deadlines that begin at `place`."""
    deadline, key_hash = (None, 0) if place == NEVER else place
    return dataclasses.replace(segment, min_deadline_ms=deadline, min_deadline_hash=key_hash)


def _description(segment: Segment) -> tuple[object, ...]:
    return segment.checksum, segment.size, segment.rows, segment.sequence


def _range(lo: int, hi: int) -> str:
    return f"{lo:016x}..{hi:016x}"

"""The segments in which two versions of a state map differ, and those that one key sees. Pure.

A segment is known by its content and its sequence, so objects that a replay made again with the same bytes are shared
too. INVARIANT: a key that no differing segment holds has the same row in both versions, because both show the same
segments for its hash, in the same order.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from .records import Segment

ContentId = tuple[str, int]


def _content_of(segment: Segment) -> ContentId:
    """Return what identifies the rows of a segment and their age."""
    return segment.checksum, segment.sequence


def differing(before: Sequence[Segment], after: Sequence[Segment]) -> tuple[list[Segment], list[Segment]]:
    """Return the segments that only one version shows, cut to the ranges in which the other does not show them."""
    return _without(before, after), _without(after, before)


def at_hashes(segments: Iterable[Segment], hashes: Sequence[int]) -> list[Segment]:
    """Return the segments that show at least one of the key hashes, which are sorted."""
    return [one for one in segments if _has_within(hashes, one.lo, one.hi)]


def contents_at(segments: Iterable[Segment], key_hash: int) -> frozenset[ContentId]:
    """Return what a key hash sees. If it sees the same in two versions, all its keys have the same rows in both."""
    return frozenset(_content_of(one) for one in segments if one.lo <= key_hash <= one.hi)


def _has_within(hashes: Sequence[int], lo: int, hi: int) -> bool:
    first = bisect_left(hashes, lo)
    return first < len(hashes) and hashes[first] <= hi


def _without(segments: Iterable[Segment], others: Iterable[Segment]) -> list[Segment]:
    ranges: dict[ContentId, list[Segment]] = {}
    for one in others:
        ranges.setdefault(_content_of(one), []).append(one)
    found: list[Segment] = []
    for segment in segments:
        found += _rest(segment, sorted(ranges.get(_content_of(segment), ()), key=lambda one: one.lo))
    return found


def _rest(segment: Segment, shared: Iterable[Segment]) -> list[Segment]:
    """Return the parts of a segment's range that none of `shared`, sorted by range, covers."""
    found, free = [], segment.lo
    for one in shared:
        if one.lo > free and free <= segment.hi:
            found.append(dataclasses.replace(segment, lo=free, hi=min(one.lo - 1, segment.hi)))
        free = max(free, one.hi + 1)
    if free <= segment.hi:
        found.append(dataclasses.replace(segment, lo=free))
    return found

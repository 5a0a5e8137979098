"""`lay`: put merged segments in the place of their inputs in a version that still has them.

Pure. INVARIANT: merged segments take the place of their inputs only if all inputs are live over their whole ranges, and
nothing else in the range is as old. Otherwise deleted keys would come back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .records import Segment
from .refs import BaseOf
from .tiling import State

_Schemas = Mapping[str, Mapping[str, Any]]
"""The descriptions of operators, as a commit records them."""


def lay(state: State, bases: Iterable[BaseOf], schemas: _Schemas) -> State:
    """Return the live segments of all maps, with merged segments in the place of their inputs where that is valid.

    `schemas` are those of the version.
    """
    return _laid(state, bases, schemas)[0]


def idle(state: State, bases: Iterable[BaseOf], schemas: _Schemas) -> list[BaseOf]:
    """Return the bases that have no place in a version. They are no longer needed if the version is a head."""
    bases = list(bases)
    laid = _laid(state, bases, schemas)[1]
    return [base for base in bases if base.number not in laid]


def _laid(state: State, bases: Iterable[BaseOf], schemas: _Schemas) -> tuple[State, set[int]]:
    found, numbers = {operator: dict(maps) for operator, maps in state.items()}, set()
    for base in bases:
        live = found.get(base.operator, {}).get(base.map)
        if live is not None and fits(base, schemas) and applies(live, base):
            found[base.operator][base.map] = _replaced(live, base)
            numbers.add(base.number)
    return found, numbers


def fits(base: BaseOf, schemas: _Schemas) -> bool:
    """Whether a version with these schemas has the columns that the merged segments have."""
    return not base.columns or schemas.get(base.operator, {}).get("maps", {}).get(base.map) == base.columns


def applies(live: Sequence[Segment], base: BaseOf) -> bool:
    """Whether `base` may take the place of its inputs among the live segments of its map.

    A segment that is no input must be newer than all inputs. If the merged segments kept the tombstones, it may also be
    older than all inputs that it overlaps.
    """
    known = {one.name for one in live}
    if not base.inputs or any(one.name not in known for one in base.inputs):
        return False
    lo, hi = _hull(base)
    within = [one for one in live if one.lo <= hi and one.hi >= lo]
    if not all(_covers(within, one.name, one.lo, one.hi) for one in base.inputs):
        return False
    newest = max(one.sequence for one in base.inputs)
    rest = (one for one in _without(within, base.inputs) if one.lo <= hi and one.hi >= lo)
    return all(one.sequence > newest or (one.sequence < newest and _is_below(one, base)) for one in rest)


def _hull(base: BaseOf) -> tuple[int, int]:
    """Return the least range that contains all inputs and outputs."""
    both = [*base.inputs, *base.outputs]
    return min(one.lo for one in both), max(one.hi for one in both)


def _is_below(segment: Segment, base: BaseOf) -> bool:
    """Whether the merged segments may be laid above a segment that is no input."""
    over = [one for one in base.inputs if segment.lo <= one.hi and segment.hi >= one.lo]
    return not over or (not base.is_oldest and segment.sequence < min(one.sequence for one in over))


def _replaced(live: Iterable[Segment], base: BaseOf) -> list[Segment]:
    return sorted([*_without(live, base.inputs), *base.outputs], key=lambda s: (s.lo, s.sequence, s.name))


def _covers(live: Sequence[Segment], name: str, lo: int, hi: int) -> bool:
    """Whether the entries of an object show all hashes in `lo..hi`."""
    free = lo
    for one in sorted((one for one in live if one.name == name), key=lambda s: s.lo):
        if one.lo > free:
            return False
        free = max(free, one.hi + 1)
    return free > hi


def _without(live: Iterable[Segment], inputs: Iterable[Segment]) -> list[Segment]:
    """Return the segments, cut to the parts of their ranges that they do not show as one of `inputs`."""
    gone: dict[str, list[Segment]] = {}
    for one in inputs:
        gone.setdefault(one.name, []).append(one)
    left: list[Segment] = []
    for segment in live:
        parts = [segment]
        for one in gone.get(segment.name, ()):
            parts = [part for known in parts for part in _cut(known, one.lo, one.hi)]
        left += parts
    return left


def _cut(segment: Segment, lo: int, hi: int) -> list[Segment]:
    """Return the parts of a segment's range that are outside of `lo..hi`."""
    if segment.hi < lo or segment.lo > hi:
        return [segment]
    below = [dataclasses.replace(segment, hi=lo - 1)] if segment.lo < lo else []
    above = [dataclasses.replace(segment, lo=hi + 1)] if segment.hi > hi else []
    return below + above

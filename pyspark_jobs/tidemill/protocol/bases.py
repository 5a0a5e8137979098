"""`lay`: put merged segments in the place of their inputs in a version that still has them.

Pure. INVARIANT: merged segments take the place of their inputs only if all inputs are live over their whole ranges, and
nothing else in the range is as old. Otherwise deleted keys would come back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from .records import Segment
from .refs import BaseOf
from .tiling import State


def lay(state: State, bases: Iterable[BaseOf]) -> State:
    """Return the live segments of all maps, with merged segments in the place of their inputs where that is valid."""
    found = {operator: dict(maps) for operator, maps in state.items()}
    for base in bases:
        live = found.get(base.operator, {}).get(base.map)
        if live is not None:
            found[base.operator][base.map] = lay_one(live, base)
    return found


def lay_one(live: list[Segment], base: BaseOf) -> list[Segment]:
    """Return the live segments of one map, with `base` in the place of its inputs if that is valid."""
    inputs = {(one.name, one.lo, one.hi) for one in base.inputs}
    if not all(_covers(live, name, lo, hi) for name, lo, hi in inputs):
        return live
    newest = max(one.sequence for one in base.inputs)
    rest = [left for one in live for left in _without(one, base.inputs)]
    if any(one.sequence <= newest and _overlaps(one, base.inputs) for one in rest):
        return live
    return sorted([*rest, *base.outputs], key=lambda s: (s.lo, s.sequence, s.name))


def _covers(live: Sequence[Segment], name: str, lo: int, hi: int) -> bool:
    """Whether the entries of an object show all hashes in `lo..hi`."""
    free = lo
    for one in sorted((one for one in live if one.name == name), key=lambda s: s.lo):
        if one.lo > free:
            return False
        free = max(free, one.hi + 1)
    return free > hi


def _without(segment: Segment, inputs: Sequence[Segment]) -> list[Segment]:
    """Return the parts of a segment's range that it does not show as one of `inputs`."""
    parts = [segment]
    for gone in (one for one in inputs if one.name == segment.name):
        parts = [left for part in parts for left in _cut(part, gone.lo, gone.hi)]
    return parts


def _cut(segment: Segment, lo: int, hi: int) -> list[Segment]:
    """Return the parts of a segment's range that are outside of `lo..hi`."""
    if segment.hi < lo or segment.lo > hi:
        return [segment]
    below = [dataclasses.replace(segment, hi=lo - 1)] if segment.lo < lo else []
    above = [dataclasses.replace(segment, lo=hi + 1)] if segment.hi > hi else []
    return below + above


def _overlaps(segment: Segment, inputs: Iterable[Segment]) -> bool:
    return any(segment.lo <= one.hi and segment.hi >= one.lo for one in inputs)

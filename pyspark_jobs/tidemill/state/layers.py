"""Which segments of a key range are merged with what a batch changed: a pure function of their ranges and rows.

What a look-up pays for is depth: in how many segments a key may lie. So segments are laid in layers, disjoint ones in
one, and the tier rule of the engine decides over layers: a batch of eight tasks leaves one layer, not eight runs.
INVARIANT: of two segments that show one hash the older is merged only together with the newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .._native import merge_count

SMALL_ROWS = 1024
"""A segment of fewer rows costs more to open than to write again."""
MAX_SMALL = 32
"""How many small segments a range may keep that nothing larger lies on. Each is paid for once, by `SMALL_ROWS` rows."""


@dataclass(frozen=True)
class Span:
    """What a segment shows of a key range: the hashes `lo..hi` (inclusive), `rows` of them."""

    lo: int
    hi: int
    rows: int


def to_merge(spans: Sequence[Span], changed_rows: int) -> list[int]:
    """The numbers of the `spans` (oldest first) to merge with a delta of `changed_rows` that lies on all of them.

    What is kept and the merged run have at most as many layers as the tier rule allows runs.
    """
    layers = layered(spans)
    rows = [sum(spans[number].rows for number in layer) for layer in layers]
    kept_layers = len(layers) + 1 - merge_count([*rows, changed_rows])
    merged = {number for layer in layers[kept_layers:] for number in layer}
    small = _small_on_top(spans, merged)
    return sorted(merged.union(small) if len(small) > MAX_SMALL else merged)


def layered(spans: Sequence[Span]) -> list[list[int]]:
    """The numbers of the `spans` (oldest first) by layer, lowest first: each lies just above all older ones it meets.

    Spans of one layer are disjoint, and what meets a span from above is newer and lies in a higher layer.
    """
    places = _places(spans)
    heights = [0] * (2 * len(spans))
    layers: list[list[int]] = []
    for number, place in enumerate(places):
        below = max(heights[place])
        if below == len(layers):
            layers.append([])
        layers[below].append(number)
        heights[place] = [below + 1] * (place.stop - place.start)
    return layers


def _small_on_top(spans: Sequence[Span], merged: set[int]) -> list[int]:
    """The small spans beside `merged` that no span meets from above, but for merged ones and small ones like them."""
    places = _places(spans)
    covered = [False] * (2 * len(spans))
    small = []
    for number in reversed(range(len(spans))):
        place = places[number]
        if number in merged:
            continue
        if spans[number].rows < SMALL_ROWS and not any(covered[place]):
            small.append(number)
        else:
            covered[place] = [True] * (place.stop - place.start)
    return small


def _places(spans: Sequence[Span]) -> list[slice]:
    """Each span as a slice of the pieces into which the bounds of all of them cut the hash space."""
    cuts = sorted({span.lo for span in spans} | {span.hi + 1 for span in spans})
    at = {cut: piece for piece, cut in enumerate(cuts)}
    return [slice(at[span.lo], at[span.hi + 1]) for span in spans]

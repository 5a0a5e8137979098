"""The choice of segments of a key range to merge with the changes of a batch: a pure function of ranges and rows.

The cost of a look-up grows with depth, the number of segments that may hold a key. So disjoint segments form a layer,
and the engine's tier rule counts layers, not segments. A batch of eight tasks adds one layer.
INVARIANT: of two segments that show the same hash, the older is merged only together with the newer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from .. import _native
from ..values import dataclass

MOST_LAYERS = 16
"""Above this number of layers, a batch may merge segments of any size. Fewer are left to `maintain`."""
CHEAP_ROWS = 1 << 16
"""A batch may always merge this many rows. It takes 5 to 20 ms."""
CHEAP_TIMES = 16
"""A batch may also merge this many times the rows that it changed."""
SMALL_ROWS = 1024
"""Below this number of rows, a segment costs more to open than to write again."""
MAX_SMALL = 32
"""How many small segments a range may have that no larger segment covers. If there are more, they are merged, which
writes at most `SMALL_ROWS` rows for each of them, once."""


@dataclass(frozen=True)
class HashSpan:
    """The part of a key range that a segment shows: hashes `lo..hi` (inclusive) with `rows` rows."""

    lo: int
    hi: int
    rows: int


def to_merge(spans: Sequence[HashSpan], changed_rows: int) -> list[int]:
    """Return the indexes of the `spans` (oldest first) to merge with a delta of `changed_rows` rows that covers all.

    Afterwards, the kept spans and the merged run form at most `MOST_LAYERS` layers.
    """
    layers = layered(spans)
    rows = [sum(spans[number].rows for number in layer) for layer in layers]
    kept_layers = len(layers) + 1 - _layers_to_merge(rows, changed_rows)
    merged = {number for layer in layers[kept_layers:] for number in layer}
    small = _small_on_top(spans, merged)
    return sorted(merged.union(small) if len(small) > MAX_SMALL else merged)


def _layers_to_merge(rows: Sequence[int], changed_rows: int) -> int:
    """Return how many of the newest layers to merge, the changes included, given the rows of each, oldest first.

    The tier rule decides among the newest layers that are cheap to merge. From the first layer on that is too large,
    older ones are left as they are, unless there are too many of them.
    """
    limit = max(CHEAP_ROWS, CHEAP_TIMES * changed_rows) // 2
    cheap = list(itertools.takewhile(lambda one: one < limit, reversed(rows)))
    count: int = _native.merge_count([*reversed(cheap), changed_rows])
    if len(rows) + 2 - count <= MOST_LAYERS:
        return count
    return _native.merge_count([*rows, changed_rows])


def layered(spans: Sequence[HashSpan]) -> list[list[int]]:
    """Return the indexes of the `spans` (oldest first) by layer, lowest layer first.

    A span is in the layer directly above the highest older span that overlaps it. So spans of one layer are disjoint,
    and of two overlapping spans the newer is in a higher layer.
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


def _small_on_top(spans: Sequence[HashSpan], merged: set[int]) -> list[int]:
    """Return the small spans outside `merged` that are overlapped from above only by merged or by such small spans."""
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


def _places(spans: Sequence[HashSpan]) -> list[slice]:
    """Return each span as a slice of the pieces into which the bounds of all spans cut the hash space."""
    cuts = sorted({span.lo for span in spans} | {span.hi + 1 for span in spans})
    at = {cut: piece for piece, cut in enumerate(cuts)}
    return [slice(at[span.lo], at[span.hi + 1]) for span in spans]

"""Which segments of which key ranges `merging` merges: a pure function of the live segments of a version.

INVARIANT: of two segments that show the same hash, the older is merged only together with all newer ones. So the merged
rows are newer than everything that is left in the range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..batch.merging import Merge
from ..batch.ranges import cut
from ..protocol.records import Commit, Segment
from ..protocol.tiling import State, segments_within
from ..state.layers import CHEAP_ROWS, HashSpan, layered
from ..values import dataclass


@dataclass(frozen=True)
class MergeRule:
    """When to merge.

    A layer joins the newer ones if it has less than `ratio` times their rows. Batches merge less than `least_rows` by
    themselves. A range has about `range_rows` rows and `range_bytes` bytes; it is merged as a whole, in memory. It is
    also merged if it has more than `most_segments` segments beside each other.
    """

    ratio: int = 4
    least_rows: int = CHEAP_ROWS
    range_rows: int = 4_000_000
    range_bytes: int = 64 << 20
    most_segments: int = 32


RULE = MergeRule()


def choose_merges(head: Commit, state: State, rule: MergeRule = RULE) -> list[Merge]:
    """Return what to merge in the version of `head`, given its live segments after `bases.lay`.

    First come the ranges in which look-ups pass the most runs, and of these the ones with the fewest rows.
    """
    found = [
        merge
        for operator, maps in state.items()
        for name, segments in maps.items()
        for widths in [_widths(head.state[operator][name], segments)]
        for merge in _of_map(operator, name, _columns(head, operator, name), segments, widths, rule)
    ]
    return sorted(found, key=lambda one: (one.layers_after - one.layers, one.rows))


def _columns(head: Commit, operator: str, name: str) -> dict[str, str]:
    columns: dict[str, str] = head.schemas[operator]["maps"][name]
    return columns


def _of_map(
    operator: str,
    name: str,
    columns: dict[str, str],
    segments: Sequence[Segment],
    widths: Counter[str],
    rule: MergeRule,
) -> list[Merge]:
    found = []
    for lo, hi in cut(_ranges(segments, widths, rule)):
        shown = segments_within(segments, lo, hi)
        spans = [HashSpan(one.lo, one.hi, _share(one.rows, one, widths)) for one in shown]
        layers = layered(spans)
        first = _first_layer([sum(spans[number].rows for number in layer) for layer in layers], rule)
        chosen = sorted(number for layer in layers[first:] for number in layer)
        rows = sum(spans[number].rows for number in chosen)
        is_deep = len(layers) - first > 1
        if rows < rule.least_rows or not (is_deep or len(chosen) > rule.most_segments):
            continue
        inputs = [shown[number] for number in chosen]
        sums = (rows, sum(_share(one.size, one, widths) for one in inputs), len(layers), first + 1)
        found.append(Merge(operator, name, columns, lo, hi, inputs, *sums, is_oldest=first == 0))
    return found


def _ranges(segments: Sequence[Segment], widths: Counter[str], rule: MergeRule) -> int:
    """Return the number of ranges: a power of two, so that most borders stay when the state grows."""
    rows = sum(_share(one.rows, one, widths) for one in segments)
    size = sum(_share(one.size, one, widths) for one in segments)
    wanted = max(rows / rule.range_rows, size / rule.range_bytes)
    ranges = 1
    while ranges < wanted:
        ranges *= 2
    return ranges


def _first_layer(rows: Sequence[int], rule: MergeRule) -> int:
    """Return the oldest layer to merge, given the rows of each, oldest first. All newer layers are merged too."""
    first = len(rows) - 1
    merged = sum(rows[first:])
    while first > 0 and rows[first - 1] < rule.ratio * merged:
        first -= 1
        merged += rows[first]
    return max(first, 0)


def _widths(of_head: Sequence[Segment], laid: Sequence[Segment]) -> Counter[str]:
    """Return how many hashes each object shows in the head, or, if the head does not name it, where it is laid."""
    widths: Counter[str] = Counter()
    known = {one.name for one in of_head}
    for one in (*of_head, *(one for one in laid if one.name not in known)):
        widths[one.name] += one.hi - one.lo + 1
    return widths


def _share(count: int, segment: Segment, widths: Counter[str]) -> int:
    """Return the part of an object's `count` that a segment shows, because hashes are uniform.

    It is too much if the commits have shown only a part of the object since.
    """
    return count * (segment.hi - segment.lo + 1) // widths[segment.name]

"""Which segments are merged: a pure function of ranges and numbers of rows."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocol import valid_records as make
from tidemill.batch.merging import Merge
from tidemill.protocol.bases import applies
from tidemill.protocol.records import HASH_END, Segment
from tidemill.protocol.refs import BaseOf
from tidemill.protocol.tiling import segments_within
from tidemill.state.layers import CHEAP_ROWS, HashSpan, layered
from tidemill.upkeep.merge_choice import RULE, MergeRule, choose_merges

COLUMNS = {"key": "k string", "sub_key": "", "value": "n int"}
SCHEMAS = {name: {"maps": {"m": COLUMNS}} for name in ("op", "other")}
MILLION = 1_000_000


def runs(*rows: int, size: int = 1000) -> list[Segment]:
    """Segments of all hashes, oldest first."""
    return [make.segment(f"s{n}", rows=count, size=size, sequence=n + 1) for n, count in enumerate(rows)]


def chosen(segments: list[Segment], rule: MergeRule = RULE, **others: list[Segment]) -> list[Merge]:
    state = {"op": {"m": segments}} | {name: {"m": of_map} for name, of_map in others.items()}
    return choose_merges(make.commit(state=state, schemas=SCHEMAS), state, rule)


def names(merge: Merge) -> list[str]:
    return [one.name for one in merge.inputs]


def test_layers_join_while_they_have_less_than_four_times_the_newer_rows() -> None:
    assert chosen(runs(MILLION)) == []
    assert chosen(runs(MILLION, 200_000)) == []
    [merge] = chosen(runs(MILLION, 100_000, 100_000))
    assert (names(merge), merge.layers, merge.layers_after, merge.is_oldest) == (["s1", "s2"], 3, 2, False)
    assert (merge.columns, merge.rows, merge.lo, merge.hi) == (COLUMNS, 200_000, 0, HASH_END)
    [merge] = chosen(runs(MILLION, 200_000, 60_000))
    assert (names(merge), merge.is_oldest) == (["s0", "s1", "s2"], True)


def test_few_rows_are_left_to_batches() -> None:
    assert chosen(runs(CHEAP_ROWS // 2, CHEAP_ROWS // 2 - 1)) == []
    assert len(chosen(runs(CHEAP_ROWS // 2, CHEAP_ROWS // 2))) == 1


def test_many_segments_beside_each_other_are_merged() -> None:
    part = (HASH_END + 1) // 64
    beside = [make.segment(f"s{n}", rows=10_000, lo=n * part, hi=(n + 1) * part - 1, sequence=1) for n in range(64)]
    [merge] = chosen(beside)
    assert (len(merge.inputs), merge.layers, merge.layers_after) == (64, 1, 1)
    assert chosen([dataclasses.replace(one, rows=1) for one in beside]) == []
    assert chosen(beside[:32]) == []


def test_a_large_state_is_merged_in_a_power_of_two_of_ranges() -> None:
    merges = chosen(runs(10 * MILLION, 5 * MILLION))
    assert [(one.lo, one.hi) for one in merges] == [(n << 62, ((n + 1) << 62) - 1) for n in range(4)]
    assert {one.rows for one in merges} == {15 * MILLION // 4}
    assert len(chosen(runs(MILLION, MILLION, size=64 << 20))) == 2


def test_the_deepest_ranges_come_first_and_of_these_the_smallest() -> None:
    other = [dataclasses.replace(one, name=f"o{n}") for n, one in enumerate(runs(80_000, 80_000))]
    found = chosen(runs(90_000, 90_000), other=other)
    assert [one.operator for one in found] == ["other", "op"]
    found = chosen(runs(*[90_000] * 5), other=other)
    assert [one.operator for one in found] == ["op", "other"]


def test_a_part_that_was_merged_does_not_count_for_the_rest() -> None:
    """Two of four ranges are merged. The other two have the rows that they had before."""
    live = runs(10 * MILLION, 5 * MILLION)
    first = chosen(live)
    laid = live
    for number, merge in enumerate(first[:2]):
        done = make.segment(f"b{number}", rows=merge.rows, lo=merge.lo, hi=merge.hi, sequence=2)
        laid = make.laid(laid, BaseOf(number, "op", "m", merge.inputs, [done]))
    found = choose_merges(make.commit(state={"op": {"m": live}}, schemas=SCHEMAS), {"op": {"m": laid}})
    assert [(one.lo, one.rows) for one in found] == [(one.lo, one.rows) for one in first[2:]]


@st.composite
def live_segments(draw: st.DrawFn) -> list[Segment]:
    """Return segments as batches of any ranges leave them."""
    live: list[Segment] = []
    for number in range(draw(st.integers(0, 12))):
        lo = draw(st.integers(0, 15))
        hi = draw(st.integers(lo, 15))
        span = {"lo": lo << 60, "hi": ((hi + 1) << 60) - 1}
        sequence = 1 + max((one.sequence for one in live if one.lo <= span["hi"] and one.hi >= span["lo"]), default=0)
        live.append(make.segment(f"s{number}", rows=draw(st.integers(1, 100)), sequence=sequence, **span))
    return live


@given(live_segments(), st.integers(1, 9), st.integers(1, 300), st.integers(1, 9))
def test_what_is_chosen_can_be_laid_and_leaves_fewer_layers(
    live: list[Segment], ratio: int, range_rows: int, most: int
) -> None:
    laid = live
    for number, merge in enumerate(chosen(live, MergeRule(ratio, 0, range_rows, most_segments=most))):
        outputs = [make.segment(f"b{number}", lo=merge.lo, hi=merge.hi, sequence=max(s.sequence for s in merge.inputs))]
        base = BaseOf(number, "op", "m", merge.inputs, outputs, is_oldest=merge.is_oldest)
        assert applies(laid, base)
        laid = make.laid(laid, base)
        within = segments_within(laid, merge.lo, merge.hi)
        depth = len(layered([HashSpan(one.lo, one.hi, one.rows) for one in within]))
        assert depth <= merge.layers_after
        assert merge.is_oldest == (len(within) == 1)
        for one in within:  # nothing that is left is newer
            assert one.sequence < outputs[0].sequence or one == outputs[0]
    bounds = sorted((one.lo, one.hi) for one in laid if one.name.startswith("b"))
    assert all(one[1] < other[0] for one, other in pairwise(bounds))

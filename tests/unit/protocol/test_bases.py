"""Merged segments take the place of their inputs only where no reader can see a difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocol import valid_records as make
from tidemill.protocol.bases import idle, lay
from tidemill.protocol.records import HASH_END, Segment
from tidemill.protocol.refs import BaseOf
from tidemill.protocol.tiling import segments_within

HASHES = range(16)
Rows = dict[str, dict[int, int | None]]
"""By object: the rows of a segment by key hash. None is a tombstone."""


def newest_rows(live: Iterable[Segment], rows: Rows) -> dict[int, int | None]:
    """Return of each hash the row of the highest sequence, with tombstones."""
    found: dict[int, int | None] = {}
    for segment in sorted(live, key=lambda one: one.sequence):
        found |= {key: value for key, value in rows[segment.name].items() if segment.lo <= key <= segment.hi}
    return found


def seen(live: Iterable[Segment], rows: Rows) -> dict[int, int]:
    """Return what a reader sees."""
    return {key: value for key, value in newest_rows(live, rows).items() if value is not None}


def base_of(inputs: list[Segment], rows: Rows, is_oldest: bool = True) -> BaseOf:
    """Merge segments as maintenance does; tombstones are dropped only if the inputs are the oldest."""
    lo, hi = min(one.lo for one in inputs), max(one.hi for one in inputs)
    rows["merged"] = dict(seen(inputs, rows)) if is_oldest else newest_rows(inputs, rows)
    newest = max(one.sequence for one in inputs)
    merged = make.segment("merged", lo=lo, hi=hi, sequence=newest)
    return BaseOf(1, "op", "m", inputs, [merged], is_oldest=is_oldest)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Segment], Rows, list[list[Segment]]]:
    """Return the segments that were live when a base was made, their rows, and the live segments of later versions."""
    rows: Rows = {}
    live: list[Segment] = []
    versions: list[list[Segment]] = []
    for number in range(draw(st.integers(1, 6))):
        lo = draw(st.integers(0, 15))
        hi = draw(st.integers(lo, 15))
        name = f"s{number}"
        sequence = 1 + max((one.sequence for one in live if one.lo <= hi and one.hi >= lo), default=0)
        value = st.none() if draw(st.booleans()) else st.integers(0, 9)
        rows[name] = draw(st.dictionaries(st.integers(lo, hi), value, max_size=6))
        merged = draw(st.booleans())
        if merged:  # a task merged everything in its range: it shows nothing older there
            rows[name] = {key: known for key, known in seen(live, rows).items() if lo <= key <= hi} | rows[name]
            live = [left for one in live for left in cut(one, lo, hi)]
        live = [*live, make.segment(name, lo=lo, hi=hi, sequence=sequence)]
        versions.append(live)
    return versions[draw(st.integers(0, len(versions) - 1))], rows, versions


def cut(segment: Segment, lo: int, hi: int) -> list[Segment]:
    kept = [key for key in range(segment.lo, segment.hi + 1) if not lo <= key <= hi]
    parts = [[key for key in kept if key < lo], [key for key in kept if key > hi]]
    return [dataclasses.replace(segment, lo=part[0], hi=part[-1]) for part in parts if part]


@given(histories(), st.data())
def test_a_reader_sees_the_same_with_and_without_a_base(
    history: tuple[list[Segment], Rows, list[list[Segment]]], data: st.DataObject
) -> None:
    then, rows, versions = history
    oldest = sorted(then, key=lambda one: one.sequence)
    inputs = oldest[: data.draw(st.integers(1, len(oldest)))]
    base = base_of(inputs, rows)
    for live in versions:
        assert seen(make.laid(live, base), rows) == seen(live, rows)


@given(histories(), st.data())
def test_a_base_of_some_newer_segments_is_never_seen(
    history: tuple[list[Segment], Rows, list[list[Segment]]], data: st.DataObject
) -> None:
    """Parts of any segments are merged, with their tombstones, and laid under any version."""
    then, rows, versions = history
    lo = data.draw(st.integers(0, 15))
    hi = data.draw(st.integers(lo, 15))
    within = segments_within(then, lo, hi)
    if within:
        chosen = data.draw(st.lists(st.sampled_from(within), unique_by=lambda one: (one.name, one.lo), min_size=1))
        base = base_of(sorted(chosen, key=lambda one: one.sequence), rows, is_oldest=False)
        for live in versions:
            assert seen(make.laid(live, base), rows) == seen(live, rows)


def test_a_base_of_the_newest_segments_is_laid_above_older_ones() -> None:
    rows: Rows = {"a": {1: 1, 2: 2}, "b": {1: None}, "c": {2: 5}, "d": {3: 1}}
    live = [make.segment(name, sequence=number) for number, name in enumerate(rows, 1)]
    base = base_of(live[1:3], rows, is_oldest=False)
    assert [one.name for one in make.laid(live, base)] == ["a", "merged", "d"]
    assert seen(make.laid(live, base), rows) == {2: 5, 3: 1}
    with_dropped = base_of(live[1:3], rows, is_oldest=True)
    assert make.laid(live, with_dropped) == live  # key 1 would come back


def test_a_base_is_not_laid_around_a_segment_between_its_inputs() -> None:
    live = [make.segment(name, sequence=number) for number, name in enumerate("abc", 1)]
    base = BaseOf(1, "op", "m", [live[0], live[2]], [make.segment("merged", sequence=3)], is_oldest=False)
    assert make.laid(live, base) == live
    aside = [live[0], dataclasses.replace(live[1], lo=0, hi=4), live[2]]
    parts = [dataclasses.replace(one, lo=5) for one in (live[0], live[2])]
    base = BaseOf(1, "op", "m", parts, [make.segment("merged", sequence=3, lo=5)])
    assert [(one.name, one.lo, one.hi) for one in make.laid(aside, base)] == [
        ("a", 0, 4), ("b", 0, 4), ("c", 0, 4), ("merged", 5, HASH_END),
    ]  # fmt: skip


def test_a_base_with_other_columns_than_the_version_is_not_laid() -> None:
    live = [make.segment("a", sequence=1), make.segment("b", sequence=2)]
    columns = {"key": "k string", "sub_key": "", "value": "n int"}
    base = BaseOf(1, "op", "m", live, [make.segment("merged", sequence=2)], columns)
    with_columns = {"op": {"maps": {"m": columns}}}
    assert lay({"op": {"m": live}}, [base], with_columns)["op"]["m"] == base.outputs
    wider = {"op": {"maps": {"m": columns | {"value": "n bigint"}}}}
    assert lay({"op": {"m": live}}, [base], wider)["op"]["m"] == live
    assert idle({"op": {"m": live}}, [base], with_columns) == []
    assert idle({"op": {"m": live}}, [base], wider) == [base] == idle({}, [base], {})


def test_a_base_replaces_its_inputs() -> None:
    inputs = [make.segment("a", sequence=1), make.segment("b", sequence=2)]
    newer = make.segment("c", sequence=3)
    base = BaseOf(1, "op", "m", inputs, [make.segment("merged", sequence=2)])
    state = {"op": {"m": [*inputs, newer], "other": inputs}, "another": {"m": inputs}}
    assert lay(state, [base], {}) == {
        "op": {"m": [base.outputs[0], newer], "other": inputs},
        "another": {"m": inputs},
    }


def test_a_base_whose_input_is_gone_is_not_laid() -> None:
    inputs = [make.segment("a", sequence=1), make.segment("b", sequence=2)]
    base = BaseOf(1, "op", "m", inputs, [make.segment("merged", sequence=2)])
    assert make.laid(inputs[1:], base) == inputs[1:]
    clipped = [dataclasses.replace(inputs[0], lo=5), inputs[1]]
    assert make.laid(clipped, base) == clipped

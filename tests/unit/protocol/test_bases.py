"""Merged segments take the place of their inputs only where no reader can see a difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocol import valid_records as make
from tidemill.protocol.bases import lay, lay_one
from tidemill.protocol.records import Segment
from tidemill.protocol.refs import BaseOf

HASHES = range(16)
Rows = dict[str, dict[int, int | None]]
"""By object: the rows of a segment by key hash. None is a tombstone."""


def seen(live: Iterable[Segment], rows: Rows) -> dict[int, int]:
    """Return what a reader sees: of each hash the row of the highest sequence, without tombstones."""
    found: dict[int, int] = {}
    for segment in sorted(live, key=lambda one: one.sequence):
        for key, value in rows[segment.name].items():
            if segment.lo <= key <= segment.hi:
                found.pop(key, None)
                if value is not None:
                    found[key] = value
    return found


def base_of(inputs: list[Segment], rows: Rows) -> BaseOf:
    """Merge segments as maintenance does: all rows that a reader of these alone sees, as one segment."""
    lo, hi = min(one.lo for one in inputs), max(one.hi for one in inputs)
    rows["merged"] = dict(seen(inputs, rows))
    newest = max(one.sequence for one in inputs)
    return BaseOf(1, "op", "m", inputs, [make.segment("merged", lo=lo, hi=hi, sequence=newest)])


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Segment], Rows, list[list[Segment]]]:
    """Return the segments that were live when a base was made, their rows, and the live segments of later versions."""
    rows: Rows = {}
    live: list[Segment] = []
    versions: list[list[Segment]] = []
    for sequence in range(draw(st.integers(1, 6))):
        lo = draw(st.integers(0, 15))
        hi = draw(st.integers(lo, 15))
        name = f"s{sequence}"
        value = st.none() if draw(st.booleans()) else st.integers(0, 9)
        rows[name] = draw(st.dictionaries(st.integers(lo, hi), value, max_size=6))
        merged = draw(st.booleans())
        if merged:  # a task merged everything in its range: it shows nothing older there
            rows[name] = {key: known for key, known in seen(live, rows).items() if lo <= key <= hi} | rows[name]
            live = [left for one in live for left in cut(one, lo, hi)]
        live = [*live, make.segment(name, lo=lo, hi=hi, sequence=sequence + 1)]
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
        assert seen(lay_one(live, base), rows) == seen(live, rows)


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
    assert lay_one(inputs[1:], base) == inputs[1:]
    clipped = [dataclasses.replace(inputs[0], lo=5), inputs[1]]
    assert lay_one(clipped, base) == clipped

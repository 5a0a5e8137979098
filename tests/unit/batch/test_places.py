"""The places of rows, attached and detached, beside a plain list of them."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pyarrow as pa
import pytest

from tidemill.batch import places
from tidemill.batch.places import AFTER_ALL, BEFORE_TIMES, MANY_ROWS, Places, attach, detach, of_block
from tidemill.sources.contract import ROW

Pairs = list[tuple[int, int]]


@dataclass
class Prepared:
    rows: pa.RecordBatch
    late: pa.Array | None = None
    made_of: pa.Array | None = None


def plain(found: Places) -> Pairs:
    return list(zip(found.block_of_each().to_pylist(), found.rows.to_pylist(), strict=True))


def values(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"v": list(range(count))})


@pytest.mark.parametrize("how", ["all", "some are late", "made of some", "not known"])
@pytest.mark.parametrize("is_one", [True, False])
@pytest.mark.parametrize("count", [0, 9, MANY_ROWS + 200])
def test_rows_have_the_places_of_those_that_they_were_made_of(how: str, is_one: bool, count: int) -> None:
    chance = random.Random(count)
    blocks = [7 if is_one else chance.randrange(4) for _ in range(count)]
    given = list(zip(blocks, (chance.randrange(count) for _ in range(count)), strict=True))
    rows = pa.array([row for _, row in given], pa.int64())
    at = Places(7 if is_one else pa.array(blocks, pa.int64()), rows)
    late = [chance.random() < (0.3 if count < MANY_ROWS else 0.001) for _ in range(count)]
    assert any(late) or not count
    made_of = [chance.randrange(count) for _ in range(2 * count)]
    prepared, wanted = {
        "all": (Prepared(values(count)), given),
        "some are late": (
            Prepared(values(count - sum(late)), pa.array(late, pa.bool_())),
            [place for place, is_late in zip(given, late, strict=True) if not is_late],
        ),
        "made of some": (
            Prepared(values(2 * count), None, pa.array(made_of, pa.uint32())),
            [given[row] for row in made_of],
        ),
        "not known": (Prepared(values(count + 1)), [(AFTER_ALL, BEFORE_TIMES)] * (count + 1)),
    }[how]
    sent, block = attach(prepared.rows, prepared, at)
    # Few rows are sent together with those of other files, so they say their blocks.
    assert (block is None) == (not is_one or how == "not known" or prepared.rows.num_rows < MANY_ROWS)
    assert sent.num_columns == (3 if block is None else 2)
    back, found = detach(sent, block)
    assert back.equals(prepared.rows)
    assert plain(found) == wanted


def test_a_place_is_the_split_the_block_and_the_row_there() -> None:
    numbered = values(3).append_column(ROW, pa.array([40, 41, 47], pa.int64()))
    assert of_block(5, 2, numbered).of_rows() == [(5, 40), (5, 41), (5, 47)]
    assert of_block(5, 2, values(2)).of_rows() == [(5, None), (5, None)], "a step lost their numbers"
    assert places.after_all(2).of_rows() == [None, None]
    in_order = [of_block(4, 9, numbered), of_block(5, 0, values(3)), of_block(5, 1, values(3)), places.after_all(1)]
    found = plain(Places.joined(in_order))
    assert found == sorted(found)
    assert found == [pair for part in in_order for pair in plain(part)]


def test_places_after_all_are_taken_for_rows_that_are_not_known() -> None:
    at = pa.array([2, None, 0], pa.int64())
    unknown = (AFTER_ALL, BEFORE_TIMES)
    assert plain(Places(3, pa.array([10, 11, 12])).take(at)) == [(3, 12), unknown, (3, 10)]
    assert plain(Places(pa.array([4, 5, 6]), pa.array([10, 11, 12])).take(at)) == [(6, 12), unknown, (4, 10)]

"""`Rows`: rows from a test are read back exactly, like those of any source; misfits are refused."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.sources.reading import rows as rows_of
from tidemill.errors import InvalidInput
from tidemill.sources.contract import ReadContext
from tidemill.sources.rows import Rows


def read(source: Rows) -> list[dict[str, Any]]:
    splits = source.splits(source.look("source"))
    return rows_of([block for split in splits for block in source.read(split, 2, ReadContext())])


def test_dicts_and_tuples_are_read_back_in_order(tmp_path: Path) -> None:
    source = Rows("word string, n bigint, at timestamp, e decimal(10,2)")
    source.bind(str(tmp_path))
    source.put(0, [("a", 1, datetime(2013, 1, 1), Decimal("1.5")), {"word": "b"}], "America/New_York")
    source.put(1, [("c", 2, "2013-01-01T00:00:00Z", None)])
    assert read(source) == [
        {"word": "a", "n": 1, "at": datetime(2013, 1, 1, 5, tzinfo=UTC), "e": Decimal("1.50"), "_row": 0},
        {"word": "b", "n": None, "at": None, "e": None, "_row": 1},
        {"word": "c", "n": 2, "at": datetime(2013, 1, 1, tzinfo=UTC), "e": None, "_row": 0},
    ]
    assert read(pickle.loads(pickle.dumps(source))) == read(source)


def test_scalars_are_rows_of_one_column() -> None:
    source = Rows("n int")
    source.bind("memory://rows-of-one-column")
    source.put(0, [3, 1, 2])
    assert [row["n"] for row in read(source)] == [3, 1, 2]


def test_arrow_tables_are_accepted_as_rows() -> None:
    given = pa.table({"n": pa.array([1, 2], pa.int8()), "s": ["x", None]})
    assert Rows("s string, n int").table(given).to_pylist() == [{"s": "x", "n": 1}, {"s": None, "n": 2}]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a",)], "row 0 is ('a',): 1 values, expected 2 (word, n)"),
        ([("a", 1), {"wrd": 1}], "row 1 has the field `wrd`, expected only word, n"),
        ([("a", "x")], "rows given to the tester: column `n` is int: "),
        ([("a", 2**40)], "rows given to the tester: column `n` is int: "),
        (pa.table({"word": ["a"]}), "rows given to the tester: column `n` is missing"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Rows("word string, n int").table(rows)
    assert message in str(caught.value)


def test_text_that_is_not_a_time_is_refused() -> None:
    with pytest.raises(InvalidInput, match="column `at` is timestamp"):
        Rows("at timestamp").table([("yesterday",)])


def test_rows_outside_of_a_test_are_an_error() -> None:
    with pytest.raises(InvalidInput) as caught:
        Rows("n int").look("source")
    assert caught.value.first_line == "source tm.Rows has no rows: only a test can give it rows"

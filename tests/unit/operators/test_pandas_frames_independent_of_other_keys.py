"""The result of a pandas function for a key does not depend on the other keys of its task."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

import tidemill as tm
from tidemill.testing import Tester


def given(cells: dict[str, Any], kind: str, tasks: int, zone: str = "UTC", **options: Any) -> Tester:
    """A tester over a function that gives for each key one row with its cell, as an object column."""

    def one_row(key: Any, frames: Any, state: Any) -> Any:
        cell = cells[key[0]]
        column = cell if isinstance(cell, pd.Series) else pd.Series([cell], dtype=object)
        yield pd.DataFrame({"k": [key[0]], "made": column})

    p = tm.Pipeline("neighbours", timeZone=zone)
    p.read(tm.Rows("k string")).groupBy("k").applyInPandasWithState(
        one_row, f"k string, made {kind}", "n bigint", "update", "NoTimeout", name="op", **options
    )
    return Tester(p, tasks=tasks)


@pytest.mark.parametrize("tasks", [1, 2, 3])
@pytest.mark.parametrize("swapped", [False, True])
def test_texts_are_read_as_times_key_by_key(tasks: int, swapped: bool) -> None:
    cells = dict(zip("ab", ("13/01/2026", "01/02/2026")[:: -1 if swapped else 1], strict=True))
    found = dict(given(cells, "timestamp", tasks).batch([("a",), ("b",)]).outputs)
    alone = {key: given(cells, "timestamp", 1).batch([(key,)]).outputs[0][1] for key in cells}
    assert found == alone


def test_texts_in_mixed_time_formats_are_read_without_a_warning() -> None:
    texts = pd.Series(["1/2/26", "3/4/26"], dtype=object)

    def two_rows(key: Any, frames: Any, state: Any) -> Any:
        yield pd.DataFrame({"k": ["a", "a"], "made": texts})

    p = tm.Pipeline("texts")
    p.read(tm.Rows("k string")).groupBy("k").applyInPandasWithState(
        two_rows, "k string, made timestamp_ntz", "n bigint", "update", "NoTimeout", name="op"
    )
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        expected = [time.to_pydatetime() for time in pd.to_datetime(texts)]
        assert [str(one.message)[:22] for one in found] == ["Could not infer format"]
        assert [row[1] for row in Tester(p).batch([("a",)]).outputs] == expected
        assert [one for one in found[1:] if "infer" in str(one.message)] == []


@pytest.mark.parametrize("tasks", [1, 2, 3])
@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ({"a": "x", "b": 1}, "string"),
        ({"a": Decimal("1.5"), "b": 2.5}, "decimal(10,2)"),
        ({"a": 1, "b": "2"}, "bigint"),
        ({"a": pd.Series([1], dtype="int32"), "b": pd.Series([2.0])}, "bigint"),
        ({"a": pd.Series([float("nan")]), "b": pd.Timestamp("2026-01-01")}, "timestamp"),
    ],
)
def test_cells_of_several_kinds_are_accepted_or_refused_key_by_key(
    tasks: int, cells: dict[str, Any], kind: str
) -> None:
    def alone(key: str) -> Any:
        try:
            return given(cells, kind, 1).batch([(key,)]).outputs
        except tm.InvalidInput as error:
            return error.first_line.partition(", processing")[0]

    expected = {key: alone(key) for key in cells}
    refused = [one for one in expected.values() if isinstance(one, str)]
    if refused:
        with pytest.raises(tm.InvalidInput) as caught:
            given(cells, kind, tasks).batch([("a",), ("b",)])
        assert caught.value.first_line.partition(", processing")[0] in refused
        aside = given(cells, kind, tasks, on_error="quarantine")
        assert aside.batch([("a",), ("b",)]).outputs == [
            r for one in expected.values() if one not in refused for r in one
        ]
    else:
        assert sorted(given(cells, kind, tasks).batch([("a",), ("b",)]).outputs) == [*expected["a"], *expected["b"]]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (pd.Timestamp("2026-03-29 02:30"), "2026-03-29 02:30:00"),
        (pd.Series([True]), "expected `timestamp`"),
        ("no time", "expected `timestamp`: "),
    ],
)
def test_an_invalid_time_is_reported_with_operator_and_key(cell: Any, said: str) -> None:
    with pytest.raises(tm.InvalidInput) as caught:
        given({"a": cell}, "timestamp", 1, zone="Europe/Berlin").batch([("a",)])
    line = caught.value.first_line
    assert line.startswith(
        "cannot emit the result of function `one_row` of operator `op` for key `('a',)`: column `made`"
    )
    assert said in line
    aside = given({"a": cell}, "timestamp", 1, zone="Europe/Berlin", on_error="quarantine")
    aside.batch([("a",)])
    assert aside.repository.quarantine(0).to_pylist()[0]["reason"] == line.removesuffix(
        ", processing rows of file `0000000000.parquet`, row 1"
    )


def misfits(make: Callable[[], Any]) -> Tester:
    class Late(tm.StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            self.handle.registerTimer(1000)
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
            yield make()

    p = tm.Pipeline("timers")
    grouped = p.read(tm.Rows("k string")).groupBy("k")
    grouped.transformWithStateInPandas(Late(), "n bigint", "append", "ProcessingTime", name="op")
    return Tester(p)


@pytest.mark.parametrize("make", [lambda: 5, lambda: pd.DataFrame({"n": ["x"]})])
def test_errors_of_frames_from_a_timer_name_the_timer_method(make: Callable[[], Any]) -> None:
    tester = misfits(make)
    tester.batch([("a",)], batch_time_ms=0)
    with pytest.raises(tm.InvalidInput, match="the result of method `handleExpiredTimer` of operator `op` for key"):
        tester.sweep(2000)

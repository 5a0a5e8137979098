"""Errors before and after the call of a function: while its rows are read, or while its frames are built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, over
from tidemill.testing import Tester

SCHEMA = "k string, t timestamp"


class FailsAtOnce:
    """Its `__iter__` raises."""

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("my own trouble")


class NoIterator:
    """Its `__iter__` gives no iterator."""

    def __iter__(self) -> Any:
        return 5


class FailsLater:
    """One row, then an error."""

    def __iter__(self) -> Iterator[Any]:
        yield ("a",)
        raise KeyError("later")


class Answering(tm.StatefulProcessor):
    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        return self.answer()


def answering(kind: str, answer: Callable[[], Any]) -> Tester:
    p = tm.Pipeline("p")
    grouped = p.read(tm.Rows(SCHEMA)).groupBy("k")
    if kind == "group":
        grouped.flatMapGroupsWithState(lambda key, rows, state: answer(), "said string", "bigint", name="op")
    else:
        grouped.transformWithState(Answering(answer), "said string", "append", "None", name="op")
    return Tester(p)


@pytest.mark.parametrize("kind", ["group", "processor"])
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (FailsAtOnce, "raised `TypeError: my own trouble` for key"),
        (FailsLater, "raised `KeyError: 'later'` for key"),
        (NoIterator, "raised `TypeError: "),
    ],
)
def test_an_exception_while_rows_are_read_is_raised_with_its_traceback(
    kind: str, answer: Callable[[], Any], said: str
) -> None:
    with pytest.raises(tm.InvalidInput) as caught:
        answering(kind, answer).batch([("a", None)])
    assert said in caught.value.first_line and "of operator `op`" in caught.value.first_line
    assert answer is NoIterator or "in __iter__" in str(caught.value)


@pytest.mark.parametrize("kind", ["group", "processor"])
def test_a_result_that_is_not_iterable_is_named(kind: str) -> None:
    said = {"group": "found a `int`, expected", "processor": "returned `int` for key"}[kind]
    with pytest.raises(tm.InvalidInput, match=said):
        answering(kind, lambda: 5).batch([("a", None)])


def in_frames(key: Any, frames: Any, state: Any) -> Iterator[Any]:
    return iter(frames)


class InFrames(tm.StatefulProcessor):
    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        return rows


@pytest.mark.parametrize("kind", ["group", "processor"])
@pytest.mark.parametrize("year", [1500, 2500])
def test_a_time_that_pandas_cannot_hold_is_named(kind: str, year: int) -> None:
    p = tm.Pipeline("p")
    grouped = p.read(tm.Rows(SCHEMA)).groupBy("k")
    if kind == "group":
        grouped.applyInPandasWithState(in_frames, SCHEMA, "n bigint", "append", "NoTimeout", name="op")
    else:
        grouped.transformWithStateInPandas(InFrames(), SCHEMA, "append", "None", name="op")
    t = Tester(p)
    assert t.batch([("a", datetime(1678, 1, 1, tzinfo=UTC)), ("a", datetime(2262, 1, 1, tzinfo=UTC))]).outputs != []
    with pytest.raises(tm.InvalidInput) as caught:
        t.batch([("a", None), ("a", datetime(year, 1, 2, 3, tzinfo=UTC))])
    assert caught.value.first_line == (
        f"operator `op` cannot convert a row to Python objects: column `t` has the time "
        f"{year}-01-02 03:00:00.000000 (UTC), outside the years 1677 to 2262 that pandas supports"
    )


class Lost(tzinfo):
    """A zone that raises when it is asked."""

    def utcoffset(self, moment: datetime | None) -> Any:
        raise RuntimeError("my zone is lost")


@pytest.mark.parametrize("kind", ["map", "group"])
@pytest.mark.parametrize("on_error", ["fail", "quarantine"])
def test_an_exception_while_a_state_is_read_is_the_users_error(kind: str, on_error: str) -> None:
    def mapped(batch_time: int, key: str, row: Any, state: Any) -> None:
        state.update(datetime(2024, 1, 1, tzinfo=Lost() if key == "bad" else UTC))

    def grouped(key: str, rows: Any, state: Any) -> Iterator[Any]:
        mapped(0, key, None, state)
        yield (key,)

    p = tm.Pipeline("p")
    by_key = p.read(tm.Rows(SCHEMA)).groupBy("k")
    if kind == "map":
        spec = tm.StateSpec.function(mapped)
        by_key.mapWithState(spec, "timestamp", "string", name="op", on_error=on_error)
    else:
        by_key.flatMapGroupsWithState(grouped, "k string", "timestamp", name="op", on_error=on_error)
    tester = Tester(p)
    if on_error == "fail":
        with pytest.raises(tm.InvalidInput, match="my zone is lost") as failed:
            tester.batch([("bad", None)])
        assert "Traceback" in str(failed.value) and "`op`" in str(failed.value)
        return
    result = tester.batch([("bad", None), ("good", None)])
    assert list(result.state) == ["good"]
    assert tester.repository.quarantine(0).num_rows == 1


def test_an_error_behind_another_operator_names_both_rows_and_that_operator(tmp_path) -> None:
    def fails(key, row, state):
        raise ValueError("no")

    def chained(rows: tm.Stream) -> None:
        counts = rows.groupBy("k").agg(n=tm.count(), name="n")
        spec = tm.StateSpec.function(lambda batchTime, key, row, state: fails(key, row, state))
        counts.sql("SELECT * FROM rows WHERE n > 0").groupBy("n").mapWithState(spec, "int", "x int", name="second")

    world = World(tmp_path, over(chained), maxFilesPerTrigger=None)
    world.arrive(*["x,1\n"] * 5)
    with pytest.raises(tm.InvalidInput) as caught:
        world.run()
    assert caught.value.first_line.endswith(
        "processing the row (n=5, k='x') that operator `n` emitted for key `'x'`; "
        "rows of that key in this batch: `0000.csv` row 1, `0001.csv` row 1, `0002.csv` row 1 and 2 more"
    )

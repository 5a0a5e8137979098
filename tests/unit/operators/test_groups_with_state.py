"""`GroupState` and the operators that have one: refused calls, and cases that Spark's recorded outputs lack."""

from __future__ import annotations

import importlib.metadata
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType

import tidemill as tm
from tidemill import _native
from tidemill.operators.contract import Input
from tidemill.protocol.bounds import LAST_MS
from tidemill.testing import Tester

ROWS = "k string, ts timestamp, n int"


def stream(delay: str | None = None) -> tm.Stream:
    made = tm.Pipeline("groups").read(tm.Rows(ROWS))
    return made if delay is None else made.withWatermark("ts", delay)


def once(func: Any, timeout: str = "NoTimeout", *, watermark: bool = False, rows: Any = (("a", None, 1),)) -> list[Any]:
    """Return the output of a function over one batch."""
    p = tm.Pipeline("groups")
    read = p.read(tm.Rows(ROWS))
    if watermark:
        read = read.withWatermark("ts", "1 second")
    read.groupBy("k").flatMapGroupsWithState(func, "string", "bigint", "update", timeout)
    return [value for (value,) in Tester(p, start_ms=5000).batch(list(rows)).outputs]


def refused(act: Any, timeout: str = "NoTimeout", *, watermark: bool = False) -> str:
    """The error that a call on the state raises."""

    def func(key: str, rows: Any, state: Any) -> Any:
        try:
            act(state)
        except (LookupError, ValueError, TypeError, RuntimeError) as error:
            return [f"{type(error).__name__}: {error}"]
        return ["nothing"]

    (said,) = once(func, timeout, watermark=watermark)
    return said


def test_errors_of_the_state_name_the_refused_call() -> None:
    processing, event = "ProcessingTimeTimeout", "EventTimeTimeout"
    assert refused(lambda s: s.get) == "StateNotSet: the state is not set: check `exists` first, or use `getOption`"
    assert refused(lambda s: s.update(None)) == "TypeError: cannot update the state with None: call `remove()` instead"
    assert refused(lambda s: s.update("x")) == (
        "InvalidInput: cannot store the state of key `'a'` of operator `flat-map-groups-with-state`: "
        "found `str` 'x', expected `bigint`"
    )
    assert refused(lambda s: s.setTimeoutDuration(1)) == (
        'RuntimeError: cannot set a timeout duration without timeoutConf="ProcessingTimeTimeout"'
    )
    assert refused(lambda s: s.setTimeoutTimestamp(1), processing) == (
        'RuntimeError: cannot set a timeout timestamp without timeoutConf="EventTimeTimeout"'
    )
    assert refused(lambda s: s.setTimeoutDuration(0), processing) == (
        "ValueError: cannot set a timeout duration of 0 ms, expected more than 0"
    )
    assert refused(lambda s: s.setTimeoutTimestamp(-1), event, watermark=True) == (
        "ValueError: cannot set a timeout timestamp of -1 ms, expected more than 0"
    )
    assert refused(lambda s: s.getCurrentWatermarkMs()) == (
        "RuntimeError: there is no watermark: call .withWatermark(column, delay) before .groupBy"
    )


def test_a_timestamp_before_the_watermark_is_refused() -> None:
    def func(key: str, rows: Any, state: Any) -> Any:
        if state.getCurrentWatermarkMs() == 0:
            return []
        with pytest.raises(ValueError, match="of 8999 ms: it is before the watermark of 9000 ms"):
            state.setTimeoutTimestamp(8999)
        return ["refused"]

    p = tm.Pipeline("groups")
    read = p.read(tm.Rows(ROWS)).withWatermark("ts", "1 second")
    read.groupBy("k").flatMapGroupsWithState(func, "string", "bigint", "update", "EventTimeTimeout")
    t = Tester(p)
    assert t.batch([("a", datetime(1970, 1, 1, 0, 0, 10), 1)]).outputs == []
    assert t.batch([("a", datetime(1970, 1, 1, 0, 0, 10), 1)]).outputs == [("refused",)]


def armed(act: Any, timeout: str, zone: str = "UTC") -> Any:
    """The tester after a batch at 5 s in which `act` armed the state of the only key."""

    def func(key: str, rows: Any, state: Any) -> Any:
        act(state)
        return []

    p = tm.Pipeline("groups", timeZone=zone)
    read = p.read(tm.Rows(ROWS)).withWatermark("ts", "1 second")
    read.groupBy("k").flatMapGroupsWithState(func, "string", "bigint", "update", timeout, name="g")
    t = Tester(p, start_ms=5000)
    t.batch([("a", None, 1)])
    return t


def armed_ms(act: Any, timeout: str, zone: str = "UTC") -> int:
    """Return the timeout in ms. Its deadline is 1 ms later, because Spark fires timeouts strictly before its clock."""
    return int(armed(act, timeout, zone).repository.state("g").column("deadline").cast("int64").to_pylist()[0]) - 1


PROCESSING, EVENT = "ProcessingTimeTimeout", "EventTimeTimeout"


@pytest.mark.parametrize(
    ("duration", "expected"),
    [("10 seconds", 15_000), ("1 day", 86_405_000), (timedelta(seconds=1), 6_000), (np.int64(7), 5_007), (7.9, 5_007)],
)
def test_durations_are_accepted_in_many_forms(duration: Any, expected: int) -> None:
    assert armed_ms(lambda s: s.setTimeoutDuration(durationMs=duration), PROCESSING) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((7000,), 7_000),
        ((7000, "2 seconds"), 9_000),
        ((7000, "1 day"), 86_407_000),
        ((7000, timedelta(milliseconds=1)), 7_001),
        ((np.int64(7000), 1), 7_001),
        ((datetime(1970, 1, 1, 2),), 3_600_000),
        ((datetime(1970, 1, 1, 2), "1 hour"), 7_200_000),
        ((pd.Timestamp("1970-01-01 02:00"),), 3_600_000),
        ((date(1970, 1, 2),), 82_800_000),
        ((date(1970, 1, 2), "1 hour"), 86_400_000),
        ((date(1969, 12, 31), "2 days"), 82_800_000),
    ],
)
def test_timestamps_are_accepted_in_many_forms_in_the_pipelines_zone(given: Any, expected: int) -> None:
    assert armed_ms(lambda s: s.setTimeoutTimestamp(*given), EVENT, "Europe/Berlin") == expected


EAST = timezone(timedelta(hours=5))


@pytest.mark.parametrize(
    "given",
    [
        *(7000, -1, 0, 1500.7, -0.5, np.float64(1500.7), "7000", "1 day", None, timedelta(seconds=5), pd.NaT),
        *(datetime(2020, 1, 1, tzinfo=EAST), datetime(2020, 1, 1, 0, 0, 0, 123_999, tzinfo=EAST)),
        *(datetime(1960, 1, 1, tzinfo=EAST), datetime(1970, 1, 1, 5, 0, 0, 999, tzinfo=EAST)),
        *(pd.Timestamp("2020-01-01", tz="Asia/Tokyo"), np.datetime64("2020-01-01")),
    ],
)
def test_a_timestamp_is_accepted_or_refused_as_by_pysparks_own_state(given: Any) -> None:
    def answer(state: Any) -> Any:
        try:
            state.setTimeoutTimestamp(given)
        except (ValueError, TypeError) as error:
            return ValueError if isinstance(error, ValueError) else TypeError
        return None

    spark = GroupState(None, 5000, 1, EVENT, False, True, False, False, False, -1, b"", StructType())  # type: ignore[arg-type]
    said = answer(spark)
    found: list[Any] = []
    t = armed(lambda s: found.append(answer(s)), EVENT)
    assert found == [said]
    if said is None:
        assert armed_ms(lambda s: s.setTimeoutTimestamp(given), EVENT) == int(spark._timeout_timestamp)
    else:
        assert t.repository.state("g").num_rows == 0


def test_an_invalid_timestamp_is_named() -> None:
    expected = "cannot set a timeout timestamp: found {}, expected ms, a datetime or a date"
    for given, found in (
        ("1 day", "TypeError: `str` '1 day'"),
        (None, "TypeError: None"),
        (Decimal(7), "TypeError: `Decimal` Decimal('7')"),
        (pd.NaT, "ValueError: `NaTType` NaT"),
        (float("nan"), "ValueError: `float` nan"),
        (2**63, "ValueError: `int` 9223372036854775808"),
    ):
        kind, _, shown = found.partition(": ")
        said = refused(lambda s, given=given: s.setTimeoutTimestamp(given), EVENT, watermark=True)
        assert said == f"{kind}: {expected.format(shown)}"
    assert refused(lambda s: s.setTimeoutTimestamp(date(1960, 1, 1)), EVENT, watermark=True) == (
        "ValueError: cannot set a timeout timestamp of -315619200000 ms, expected more than 0"
    )


@pytest.mark.parametrize("never", [datetime.max, sys.maxsize, 1e300])
def test_a_timeout_beyond_the_year_9999_is_shown_as_its_end(never: Any) -> None:
    t = armed(lambda s: (s.update(1), s.setTimeoutTimestamp(never)), EVENT)
    assert t.sweep(LAST_MS).state == {"a": 1}
    (row,) = t.repository.state("g", where="deadline > now()").to_pylist()
    assert row["deadline"].isoformat() == "9999-12-31T23:59:59.999000+00:00"


def test_a_state_or_rows_that_user_code_kept_show_no_other_key() -> None:
    kept: list[Any] = []

    def func(key: str, rows: Any, state: Any) -> Any:
        for other, theirs in kept:
            with pytest.raises(tm.InvalidInput, match="belongs to a call that has returned"):
                _ = other.exists
            assert repr(other) == "<GroupState of a call that has returned>"
            assert {row.k for row in theirs} <= {"a", "b", "c"} - {key}
        kept.append((state, rows))
        state.update(1)
        return [f"{key} {state} {len(list(rows))}"]

    rows = [("a", None, 1), ("b", None, 1), ("c", None, 1), ("a", None, 2)]
    assert sorted(once(func, rows=rows)) == ["a GroupState(1) 2", "b GroupState(1) 1", "c GroupState(1) 1"]


def test_a_misfitting_row_and_a_result_without_rows_are_refused() -> None:
    of = "cannot emit the result of function `<lambda>` of operator `flat-map-groups-with-state` for key `'a'`"
    with pytest.raises(tm.InvalidInput, match=f"^{of}: found a `int`, expected an iterable of rows"):
        once(lambda key, rows, state: 5)
    with pytest.raises(tm.InvalidInput, match=f"^{of}: found `int` 5, expected `string`"):
        once(lambda key, rows, state: [5])
    assert once(lambda key, rows, state: None) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: g.mapGroupsWithState("f", "int", "int"), "mapGroupsWithState takes a function, found 'f'"),
        (
            lambda g: g.flatMapGroupsWithState(print, "int", "int", "complete"),
            "flatMapGroupsWithState has outputMode='complete', expected 'append' or 'update'",
        ),
        (
            lambda g: g.applyInPandasWithState(print, "a int", "b int", "update", "EventTimeTimout"),
            "applyInPandasWithState has timeoutConf='EventTimeTimout', expected 'NoTimeout', 'ProcessingTimeTimeout' "
            "or 'EventTimeTimeout'\nhint: did you mean 'EventTimeTimeout'?",
        ),
        (
            lambda g: g.mapGroupsWithState(print, "int", "int", "EventTimeTimeout"),
            "timeoutConf='EventTimeTimeout' needs a watermark on the stream, found none",
        ),
    ],
)
def test_a_declaration_that_spark_refuses_is_refused(call: Any, message: str) -> None:
    with pytest.raises(tm.InvalidInput) as caught:
        call(stream().groupBy("k"))
    assert message in str(caught.value)


def test_a_missing_or_too_new_pandas_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    def declare() -> None:
        stream().groupBy("k").applyInPandasWithState(print, "a int", "b int", "update", "NoTimeout")

    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.0.1")
    with pytest.raises(tm.InvalidInput, match=r"needs pandas 2, as PySpark does; found pandas 3\.0\.1"):
        declare()
    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(tm.InvalidInput, match="needs pandas, which is not installed"):
        declare()


def in_pandas(make: Any, on_error: str = "fail") -> Tester:
    """A pipeline whose function over frames gives what `make(pandas)` does."""

    def func(key: Any, pdfs: Any, state: Any) -> Any:
        import pandas

        return make(pandas)

    p = tm.Pipeline("frames")
    grouped = p.read(tm.Rows(ROWS)).groupBy("k")
    grouped.applyInPandasWithState(
        func, "a bigint not null, b string", "n bigint", "update", "NoTimeout", name="f", on_error=on_error
    )
    return Tester(p)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda pd: pd.DataFrame({"a": [1]}), "found a `DataFrame`, expected an iterator of pandas.DataFrame"),
        (lambda pd: None, "found a `NoneType`, expected an iterator of pandas.DataFrame"),
        (lambda pd: [5], "found an iterator of `int`, expected an iterator of pandas.DataFrame"),
        (
            lambda pd: [pd.DataFrame({"a": [1], "c": ["x"]})],
            "found a frame with the columns (a int64, c object), expected (a bigint not null, b string)",
        ),
        (lambda pd: [pd.DataFrame({"a": ["x"], "b": ["y"]})], "column `a` is `object`, expected `bigint not null`"),
        (lambda pd: [pd.DataFrame({"a": [None], "b": ["y"]})], "column `a` has nulls, expected `bigint not null`"),
    ],
)
def test_a_frame_that_does_not_fit_is_described_by_names_and_types(make: Any, message: str) -> None:
    with pytest.raises(tm.InvalidInput) as caught:
        in_pandas(make).batch([("a", None, 1)])
    assert message in str(caught.value)
    assert "cannot emit the result of function `func` of operator `f` for key `('a',)`" in str(caught.value)
    aside = in_pandas(make, "quarantine")
    assert aside.batch([("a", None, 1)]).outputs == []
    assert message in aside.repository.quarantine(0).to_pylist()[0]["reason"]


def test_frames_without_column_names_are_read_by_position() -> None:
    t = in_pandas(lambda pd: [pd.DataFrame([[1, "x"]]), pd.DataFrame(), pd.DataFrame({"b": ["y"], "a": [2.0]})])
    assert t.batch([("a", None, 1)]).outputs == [(1, "x"), (2, "y")]


def test_a_timeout_without_a_state_is_kept_and_shown_as_none() -> None:
    def func(key: str, rows: Any, state: Any) -> Any:
        if not state.hasTimedOut:
            state.setTimeoutDuration(1000)
        return [f"{key} {state.hasTimedOut} {state.exists}"]

    p = tm.Pipeline("alone")
    grouped = p.read(tm.Rows(ROWS)).groupBy("k")
    grouped.flatMapGroupsWithState(func, "string", "bigint", "update", "ProcessingTimeTimeout", name="g")
    t = Tester(p, tasks=3)
    result = t.batch([("a", None, 1)])
    assert (result.outputs, result.state) == ([("a False False",)], {})
    assert t.repository.state("g").select(["state", "_exists"]).to_pylist() == [{"state": None, "_exists": False}]
    t.restart()
    assert t.sweep(1001).outputs == [("a True False",)]
    assert t.repository.state("g").num_rows == 0


def test_a_mode_that_the_engine_does_not_know_is_refused() -> None:
    schema = stream().schema
    operator = SimpleNamespace(
        name="g", input=Input(schema, ("k",), None, "drop", "UTC"), state=schema, state_unnamed=False, state_type=None,
        output_schema=schema, output_unnamed=False, on_error="ignore",
    )  # fmt: skip
    with pytest.raises(tm.InvalidInput, match='on_error must be "fail" or "quarantine", found "ignore"'):
        _native.groups_with_state(operator, function=print, emits="one", timeout="NoTimeout")

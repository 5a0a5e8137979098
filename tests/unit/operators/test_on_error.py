"""`on_error="quarantine"`: the rows of a key whose function raises are quarantined and counted; other rows are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidemill as tm
from tidemill.testing import Tester

ROWS = "k string, n int"


def by_row(value: Any, state: Any) -> Any:
    total = (state.getOption or 0) + 10 // value.n
    state.update(total)
    return (f"{value.k}{value.n}", total)


def by_group(key: str, rows: Any, state: Any) -> Any:
    for row in rows:
        total = (state.getOption or 0) + 10 // row.n
        state.update(total)
        yield (f"{row.k}{row.n}", total)


def by_frame(key: tuple[str], pdfs: Any, state: Any) -> Any:
    import pandas

    for pdf in pdfs:
        for n in pdf["n"]:
            total = (state.get[0] if state.exists else 0) + 10 // int(n)
            state.update((total,))
            yield pandas.DataFrame({"k": [f"{key[0]}{n}"], "total": [total]})


class ByCall(tm.StatefulProcessor):
    """The same over the rows of a call."""

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "total bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        for row in rows:
            total = (self.total.get() or (0,))[0] + 10 // row.n
            self.total.update((total,))
            yield f"{key[0]}{row.n}", total


class ByFrames(ByCall):
    """The same over frames."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        import pandas

        for frame in rows:
            for text, total in super().handleInputRows(key, frame.itertuples(), timerValues):
                yield pandas.DataFrame({"k": [text], "total": [total]})


def by_table(rows: pa.Table, state: pa.Table, context: Any) -> tuple[pa.Table, pa.Table]:
    totals = dict(zip(*state.to_pydict().values(), strict=True))
    made = []
    for row in rows.to_pylist():
        totals[row["k"]] = totals.get(row["k"], 0) + 10 // row["n"]
        made.append((row["k"], f"{row['k']}{row['n']}", totals[row["k"]]))
    columns = list(zip(*made, strict=True))
    return (
        pa.table({"k": list(totals), "total": pa.array(totals.values(), pa.int64())}),
        pa.table({"k": columns[0], "text": columns[1], "total": columns[2]}),
    )


def declared(stream: tm.Stream, kind: str, on_error: str) -> tm.Stream:
    grouped, output = stream.groupBy("k"), "k string, total bigint"
    if kind == "rows":
        return grouped.mapWithState(tm.StateSpec.function(by_row), "bigint", output, name="totals", on_error=on_error)
    if kind == "groups":
        return grouped.flatMapGroupsWithState(by_group, output, "bigint", name="totals", on_error=on_error)
    if kind == "tables":
        output = "k string, text string, total bigint"
        return grouped.apply_batch(by_table, "total bigint", output, name="totals", on_error=on_error)
    if kind in ("calls", "frames of calls"):
        method = grouped.transformWithState if kind == "calls" else grouped.transformWithStateInPandas
        processor = ByCall() if kind == "calls" else ByFrames()
        return method(processor, output, "append", "None", name="totals", on_error=on_error)
    return grouped.applyInPandasWithState(
        by_frame, output, "total bigint", "append", "NoTimeout", name="totals", on_error=on_error
    )


WHAT = {
    "rows": "function `by_row` of operator `totals`",
    "groups": "function `by_group` of operator `totals`",
    "frames": "function `by_frame` of operator `totals`",
    "calls": "method `handleInputRows` of operator `totals`",
    "frames of calls": "method `handleInputRows` of operator `totals`",
    "tables": "operator `totals`: the apply_batch function",
}
SCALARS = ("rows", "groups", "tables")


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("kind", WHAT)
def test_all_rows_of_a_failed_key_are_quarantined_and_other_keys_are_applied(kind: str, tasks: int) -> None:
    p = tm.Pipeline("aside")
    declared(p.read(tm.Rows(ROWS)), kind, "quarantine")
    t = Tester(p, tasks=tasks)
    t.batch([("a", 5), ("b", 2)])
    t.restart()
    result = t.batch([("a", 1), ("b", 1), ("a", 0), ("a", 2), ("c", 10)])
    assert sorted(row[-2:] for row in result.outputs) == [("b1", 15), ("c10", 1)]
    state = t.repository.state("totals").to_pydict()
    assert dict(zip(state["k"], state.get("total") or state["state"], strict=True)) == {"a": 2, "b": 15, "c": 1}
    counts = t.repository.head.counts
    assert (counts.input_rows, counts.applied_rows, counts.late_rows, counts.quarantined_rows) == (5, 2, 0, 3)
    assert t.repository.head.operators["totals"].failed == 1
    aside = t.repository.quarantine(1).to_pylist()
    assert [row["text"] for row in aside] == [f'{{"k": "a", "n": {n}}}' for n in (1, 0, 2)]
    assert all(row["source"] == "source" and row["file"] for row in aside)
    assert {row["reason"] for row in aside} == {
        f"{WHAT[kind]} raised `ZeroDivisionError: integer division or modulo by zero` for key `"
        + ("'a'" if kind in SCALARS else "('a',)")
        + "`"
    }
    assert [row[-2:] for row in t.batch([("a", 10)]).outputs] == [("a10", 3)]


@pytest.mark.parametrize("kind", ["rows", "groups", "frames"])
def test_without_quarantine_the_batch_fails_and_names_the_key(kind: str) -> None:
    p = tm.Pipeline("aside")
    declared(p.read(tm.Rows(ROWS)), kind, "fail")
    t = Tester(p)
    with pytest.raises(
        tm.InvalidInput,
        match=r"raised `ZeroDivisionError: .*` for key `.*a.*`, processing (the row \(k='a', n=0\)|rows) of file `",
    ):
        t.batch([("a", 0)])


def test_a_result_that_does_not_fit_quarantines_the_key() -> None:
    p = tm.Pipeline("aside")
    grouped = p.read(tm.Rows(ROWS)).groupBy("k")
    grouped.mapGroupsWithState(lambda key, rows, state: next(rows).k * 2, "bigint", "bigint", on_error="quarantine")
    t = Tester(p)
    assert t.batch([("a", 0)]).outputs == []
    (row,) = t.repository.quarantine(0).to_pylist()
    of = "cannot emit the result of function `<lambda>` of operator `map-groups-with-state` for key `'a'`"
    assert f"{of}: found `str` 'aa', expected `bigint`" in row["reason"]


def failing(key: str, rows: Any, state: Any) -> Any:
    if state.hasTimedOut:
        if state.getCurrentProcessingTimeMs() < 4000:
            raise RuntimeError("not yet")
        state.remove()
        return [f"{key} is gone"]
    state.update(1)
    state.setTimeoutDuration(1000)
    return []


def test_a_failed_timeout_is_reported_and_retried_in_later_batches(caplog: pytest.LogCaptureFixture) -> None:
    p = tm.Pipeline("again")
    grouped = p.read(tm.Rows(ROWS)).groupBy("k")
    grouped.flatMapGroupsWithState(
        failing, "string", "bigint", timeoutConf="ProcessingTimeTimeout", name="again", on_error="quarantine"
    )
    t = Tester(p)
    t.batch([("a", 0)], batch_time_ms=0)
    result = t.sweep(2000)
    assert (result.outputs, result.state) == ([], {"a": 1})
    metrics = t.repository.head.operators["again"]
    assert (metrics.failed, metrics.timed_out) == (1, 0)
    assert metrics.failure.startswith("function `failing` of operator `again` raised `")
    assert result.metrics.stateOperators[0]["failure"] == metrics.failure
    assert f"sweep 1, operator `again`: 1 key failed: {metrics.failure}" in caplog.text
    assert len(t.repository.run(engine="local", batch_time=3000)) == 1  # not for ever
    result = t.batch([("b", 0)], batch_time_ms=4000)
    assert (result.outputs, result.state) == ([("a is gone",)], {"b": 1})


def closing(batch_time: int, key: str, value: Any, state: Any) -> str | None:
    if state.isTimingOut and batch_time < 4000:
        raise RuntimeError("not yet")
    if state.isTimingOut:
        return key
    state.update(1)
    return None


def test_a_key_of_map_with_state_that_fails_while_timing_out_stays() -> None:
    p = tm.Pipeline("again")
    spec = tm.StateSpec.function(closing).timeout("1 second")
    p.read(tm.Rows(ROWS)).groupBy("k").mapWithState(spec, "bigint", "string", on_error="quarantine")
    t = Tester(p)
    t.batch([("a", 0)], batch_time_ms=0)
    assert (t.sweep(2000).outputs, t.sweep(3000).state, t.sweep(4000).outputs) == ([], {"a": 1}, [("a",)])


def test_an_unknown_on_error_is_refused() -> None:
    p = tm.Pipeline("aside")
    with pytest.raises(tm.InvalidInput, match="operator `totals`: on_error='ignore', expected 'fail' or 'quarantine'"):
        declared(p.read(tm.Rows(ROWS)), "rows", "ignore")


class Alarms(tm.StatefulProcessor):
    """Keeps numbers in every kind of variable and arms a timer for each; a timer of 13 raises, and a row of 0."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.one = handle.getValueState("one", "n bigint")
        self.list = handle.getListState("list", "n bigint")
        self.map = handle.getMapState("map", "n bigint", "m bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        for row in rows:
            self.one.update((row.n,))
            self.list.appendValue((row.n,))
            self.map.updateValue((row.n,), (row.n,))
            self.handle.registerTimer(row.n)
            yield key[0], 100 // row.n

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        at = expiredTimerInfo.getExpiryTimeInMs()
        self.one.clear()
        yield key[0], -at
        if at == 13 and timerValues.getCurrentProcessingTimeInMs() < 5000:
            raise RuntimeError("not yet")


def alarms() -> tm.Pipeline:
    p = tm.Pipeline("alarms")
    p.read(tm.Rows(ROWS)).groupBy("k").transformWithState(
        Alarms(), "k string, n bigint", "append", "ProcessingTime", name="alarms", on_error="quarantine"
    )
    return p


@pytest.mark.parametrize("tasks", [1, 3])
def test_no_variable_and_no_timer_of_a_key_that_fails_is_changed(tasks: int) -> None:
    t = Tester(alarms(), tasks=tasks)
    t.batch([("a", 2000), ("b", 2000)], batch_time_ms=0)
    failed = t.batch([("a", 3), ("a", 0), ("b", 4)], batch_time_ms=1)
    assert failed.outputs == [("b", 25)]
    assert len(t.repository.quarantine(1)) == 2
    # The timer of 3 was never set, so only those of 2000 are due with that of 4.
    assert sorted(t.sweep(2000).outputs) == [("a", -2000), ("b", -2000), ("b", -4)]


def test_all_timers_of_a_key_fire_again_after_one_of_them_fails() -> None:
    t = Tester(alarms())
    t.batch([("a", 12), ("a", 13), ("a", 14), ("b", 13 * 100)], batch_time_ms=0)
    assert t.sweep(1000).outputs == []
    metrics = t.repository.head.operators["alarms"]
    assert (metrics.failed, metrics.timed_out) == (1, 0)
    assert metrics.failure.startswith("method `handleExpiredTimer` of operator `alarms` raised `RuntimeError: not yet`")
    assert len(t.repository.run(engine="local", batch_time=1001)) <= 1  # not for ever
    assert t.sweep(1300).outputs == [("b", -1300)]
    assert t.sweep(5000).outputs == [("a", -12), ("a", -13), ("a", -14)]
    assert t.repository.head.operators["alarms"].timed_out == 3


def test_timers_of_a_key_whose_rows_fail_wait_for_the_next_batch() -> None:
    t = Tester(alarms())
    t.batch([("a", 100), ("b", 100)], batch_time_ms=0)
    assert t.batch([("a", 0)], batch_time_ms=200).outputs == [("b", -100)]
    assert t.sweep(300).outputs == [("a", -100)]


class Begun(tm.StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.n = handle.getValueState("n", "n bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        return iter([(next(rows).k * 2,)])

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        raise ValueError("no")


def test_a_misfitting_output_of_a_processor_is_quarantined_but_never_its_initial_state() -> None:
    def pipeline(initial: pa.Table | None) -> tm.Pipeline:
        p = tm.Pipeline("begun")
        grouped = p.read(tm.Rows(ROWS)).groupBy("k")
        grouped.transformWithState(Begun(), "n bigint", "append", "None", initial, name="begun", on_error="quarantine")
        return p

    t = Tester(pipeline(None))
    assert t.batch([("a", 0)]).outputs == []
    assert (
        "cannot emit the result of method `handleInputRows` of operator `begun` for key `('a',)`: "
        in t.repository.quarantine(0).to_pylist()[0]["reason"]
    )
    t = Tester(pipeline(pa.table({"k": ["a"], "n": [1]})))
    with pytest.raises(tm.InvalidInput, match=r"`handleInitialState` of operator `begun` raised `ValueError: no`"):
        t.batch([("b", 0)])


def by_whole(rows: pa.Table, state: pa.Table, context: Any) -> tuple[pa.Table, pa.Table]:
    if pc.max(rows["n"]).as_py() > 7:
        raise ArithmeticError("too much")
    sums = rows.group_by("k").aggregate([("n", "sum")]).rename_columns(["k", "n"])
    return sums, sums


@pytest.mark.parametrize("tasks", [1, 4])
def test_apply_batch_finds_the_keys_that_fail(tasks: int) -> None:
    p = tm.Pipeline("aside")
    p.read(tm.Rows(ROWS)).groupBy("k").apply_batch(
        by_whole, "n bigint", "k string, n bigint", name="sums", on_error="quarantine"
    )
    t = Tester(p, tasks=tasks)
    keys = [f"key-{number}" for number in range(50)]
    rows = [(key, number % 9) for number, key in enumerate(keys)] + [(key, 1) for key in keys] + [(None, 8)]
    result = t.batch(rows)
    good = {key: number % 9 + 1 for number, key in enumerate(keys) if number % 9 < 8}
    assert dict(result.outputs) == {key: row.n for key, row in result.state.items()} == good
    assert t.repository.head.operators["sums"].failed == 6
    aside = t.repository.quarantine(0).to_pylist()
    assert (len(aside), t.repository.head.counts.quarantined_rows) == (11, 11)
    reasons = {row["reason"] for row in aside}
    assert "operator `sums`: the apply_batch function raised `ArithmeticError: too much` for key `None`" in reasons
    assert len(reasons) == 6


def test_a_key_whose_result_has_a_foreign_key_is_quarantined() -> None:
    def foreign(rows: pa.Table, state: pa.Table, context: Any) -> tuple[pa.Table, None]:
        return pa.table({"k": ["x"], "n": [1]}), None

    p = tm.Pipeline("aside")
    p.read(tm.Rows(ROWS)).groupBy("k").apply_batch(foreign, "n bigint", "k string", on_error="quarantine")
    t = Tester(p)
    assert t.batch([("y", 1)]).state == {}
    (row,) = t.repository.quarantine(0).to_pylist()
    assert (
        "the state that the apply_batch function returned has the key 'x', which is not a key of its rows for key `'y'`"
        in row["reason"]
    )


def test_several_failed_keys_are_reported_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def never(value: Any, state: Any) -> None:
        raise ValueError("x" * 10_000)

    p = tm.Pipeline("several")
    spec = tm.StateSpec.function(never)
    p.read(tm.Rows(ROWS)).groupBy("k").mapWithState(spec, "bigint", "string", name="op", on_error="quarantine")
    t = Tester(p)
    t.batch([("a", 0), ("b", 0)])
    metrics = t.repository.head.operators["op"]
    assert (metrics.failed, len(metrics.failure)) == (2, 500)
    assert f"batch 0, operator `op`: 2 keys failed, one of them: {metrics.failure}" in caplog.text


class Both(tm.StatefulProcessor):
    """Raises, and raises again when it is closed."""

    closed: ClassVar[list[str]] = []

    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        raise ValueError("first")

    def close(self) -> None:
        self.closed.append("closed")
        if len(self.closed) > 1:  # the first time is when the pipeline is built
            raise ValueError("second")


@pytest.mark.parametrize("how", ["batch", "preview"])
def test_the_first_error_is_raised_even_if_closing_fails_too(how: str, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("k\na\n")
    Both.closed.clear()
    p = tm.Pipeline("both")
    files = tm.Files(str(tmp_path), format="csv", schema="k string", header=True)
    source = files if how == "preview" else tm.Rows("k string")
    made = p.read(source).groupBy("k").transformWithState(Both(), "k string", "update", "None")
    assert Both.closed == ["closed"]
    with pytest.raises(tm.InvalidInput, match="ValueError: first"):
        Tester(p).batch([("a",)]) if how == "batch" else p.preview(1)
    assert made.schema.names == ["k"]
    assert Both.closed == ["closed", "closed"]

"""`on_error="quarantine"`: a key whose function raises is put aside for the batch, counted, and called again later."""

from __future__ import annotations

from typing import Any

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


def declared(stream: tm.Stream, kind: str, on_error: str) -> tm.Stream:
    grouped, output = stream.groupBy("k"), "k string, total bigint"
    if kind == "rows":
        return grouped.mapWithState(tm.StateSpec.function(by_row), "bigint", output, name="totals", on_error=on_error)
    if kind == "groups":
        return grouped.flatMapGroupsWithState(by_group, output, "bigint", name="totals", on_error=on_error)
    return grouped.applyInPandasWithState(
        by_frame, output, "total bigint", "append", "NoTimeout", name="totals", on_error=on_error
    )


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("kind", ["rows", "groups", "frames"])
def test_a_key_that_fails_is_put_aside_whole_and_the_others_are_applied(kind: str, tasks: int) -> None:
    p = tm.Pipeline("aside")
    declared(p.read(tm.Rows(ROWS)), kind, "quarantine")
    t = Tester(p, tasks=tasks)
    t.batch([("a", 5), ("b", 2)])
    t.restart()
    result = t.batch([("a", 1), ("b", 1), ("a", 0), ("a", 2), ("c", 10)])
    assert sorted(result.outputs) == [("b1", 15), ("c10", 1)]
    assert {key: state if kind != "frames" else state[0] for key, state in result.state.items()} == {
        "a": 2,
        "b": 15,
        "c": 1,
    }
    counts = t.repository.head.counts
    assert (counts.input_rows, counts.applied_rows, counts.late_rows, counts.quarantined_rows) == (5, 2, 0, 3)
    assert t.repository.head.operators["totals"].failed == 1
    aside = t.repository.quarantine(1).to_pylist()
    assert [row["text"] for row in aside] == [f'{{"k": "a", "n": {n}}}' for n in (1, 0, 2)]
    assert all(row["source"] == "source" and row["file"] for row in aside)
    function = {"rows": "by_row", "groups": "by_group", "frames": "by_frame"}[kind]
    assert {row["reason"] for row in aside} == {
        f"function `{function}` of operator `totals` raised `ZeroDivisionError: integer division or modulo by zero` "
        "for key `" + ("('a',)" if kind == "frames" else "'a'") + "`"
    }
    assert sorted(t.batch([("a", 10)]).outputs) == [("a10", 3)]


@pytest.mark.parametrize("kind", ["rows", "groups", "frames"])
def test_without_it_the_batch_fails_and_says_where(kind: str) -> None:
    p = tm.Pipeline("aside")
    declared(p.read(tm.Rows(ROWS)), kind, "fail")
    t = Tester(p)
    with pytest.raises(tm.InvalidInput, match=r"raised `ZeroDivisionError: .*` for key `.*a.*` in file `"):
        t.batch([("a", 0)])


def test_what_does_not_fit_is_put_aside_too() -> None:
    p = tm.Pipeline("aside")
    grouped = p.read(tm.Rows(ROWS)).groupBy("k")
    grouped.mapGroupsWithState(lambda key, rows, state: next(rows).k * 2, "bigint", "bigint", on_error="quarantine")
    t = Tester(p)
    assert t.batch([("a", 0)]).outputs == []
    (row,) = t.repository.quarantine(0).to_pylist()
    assert "returned for key `'a'`: found `str` 'aa', expected `bigint`" in row["reason"]


def failing(key: str, rows: Any, state: Any) -> Any:
    if state.hasTimedOut:
        if state.getCurrentProcessingTimeMs() < 4000:
            raise RuntimeError("not yet")
        state.remove()
        return [f"{key} is gone"]
    state.update(1)
    state.setTimeoutDuration(1000)
    return []


def test_a_timed_out_call_that_fails_is_made_again_in_later_batches() -> None:
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


def test_another_word_is_refused() -> None:
    p = tm.Pipeline("aside")
    with pytest.raises(tm.InvalidInput, match="operator `totals`: on_error='ignore', expected 'fail' or 'quarantine'"):
        declared(p.read(tm.Rows(ROWS)), "rows", "ignore")

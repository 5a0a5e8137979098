"""`mapWithState` through the tester: the rules of Spark's mapWithState, batch by batch."""

from __future__ import annotations

import random

import pytest

import tidemill as tm
from tidemill.testing import Tester


def word_count(batch_time, word, one, state):
    total = (state.getOption or 0) + (one or 0)
    if not state.isTimingOut:
        state.update(total)
    return (word, total, state.isTimingOut)


def pipeline(spec, state="long", output="word string, total long, closed boolean"):
    p = tm.Pipeline("words")
    words = p.read(tm.Rows("word string, one int"))
    words.groupBy("word").mapWithState(spec, stateSchema=state, outputSchema=output, value="one", name="count")
    return p


def test_state_is_kept_from_batch_to_batch_and_each_record_emits():
    t = Tester(pipeline(tm.StateSpec.function(word_count)))
    first = t.batch([("a", 1), ("b", 1), ("a", 1)])
    assert sorted(first.outputs) == [("a", 1, False), ("a", 2, False), ("b", 1, False)]
    second = t.batch([("a", 1)])
    assert second.outputs == [("a", 3, False)]
    assert second.state == {"a": 3, "b": 1}


def test_a_restart_in_the_middle_changes_nothing():
    t = Tester(pipeline(tm.StateSpec.function(word_count)))
    t.batch([("a", 1)])
    t.restart()
    assert t.batch([("a", 1)]).state == {"a": 2}


def test_a_key_silent_for_strictly_longer_than_the_timeout_is_called_once_and_forgotten():
    t = Tester(pipeline(tm.StateSpec.function(word_count).timeout("10 seconds")), batch_interval_ms=1000)
    t.batch([("a", 1), ("b", 1)], batch_time_ms=0)
    assert t.batch([("b", 1)], batch_time_ms=10_000).outputs == [("b", 2, False)]  # exactly 10 s: not yet
    late = t.batch([("c", 1)], batch_time_ms=10_001)
    assert sorted(late.outputs) == [("a", 1, True), ("c", 1, False)]
    assert late.state == {"b": 2, "c": 1}
    assert t.sweep(at_ms=20_000).outputs == []
    swept = t.sweep(at_ms=20_001)
    assert swept.outputs == [("b", 2, True)]
    assert swept.state == {"c": 1}


def test_data_refreshes_the_timeout_also_without_an_update():
    def only_first(batch_time, word, one, state):
        if not state.exists and not state.isTimingOut:
            state.update(1)
        return (word, state.getOption or 0, state.isTimingOut)

    t = Tester(pipeline(tm.StateSpec.function(only_first).timeout("10 seconds")))
    t.batch([("a", 1)], batch_time_ms=0)
    t.batch([("a", 1)], batch_time_ms=9_000)
    assert t.sweep(at_ms=19_000).outputs == []
    assert t.sweep(at_ms=19_001).outputs == [("a", 1, True)]


def test_a_key_with_data_in_the_batch_does_not_time_out_in_it():
    t = Tester(pipeline(tm.StateSpec.function(word_count).timeout("10 seconds")))
    t.batch([("a", 1)], batch_time_ms=0)
    assert t.batch([("a", 1)], batch_time_ms=60_000).outputs == [("a", 2, False)]


def test_removed_state_is_missing_and_can_be_set_again():
    def toggle(batch_time, word, one, state):
        if state.exists:
            state.remove()
            return None
        state.update(one)
        return (word, one, False)

    t = Tester(pipeline(tm.StateSpec.function(toggle)))
    assert t.batch([("a", 5)]).state == {"a": 5}
    removed = t.batch([("a", 1)])
    assert removed.state == {} and removed.outputs == []
    assert t.batch([("a", 7)]).state == {"a": 7}


def test_the_simple_form_takes_value_and_state():
    def add(one, state):
        state.update((state.getOption or 0) + (one or 0))
        return state.get

    t = Tester(pipeline(tm.StateSpec.function(add), output="long"))
    assert sorted(t.batch([("a", 1), ("a", 2)]).outputs) == [(1,), (3,)]


def test_a_null_key_is_a_key_of_its_own():
    t = Tester(pipeline(tm.StateSpec.function(word_count)))
    assert t.batch([(None, 1), ("a", 1), (None, 1)]).state == {None: 2, "a": 1}


def test_whole_rows_have_names_and_several_state_columns_are_rows():
    def track(batch_time, key, row, state):
        count = state.get.n if state.exists else 0
        state.update((count + 1, row.note))
        return (key[0], key[1], count + 1)

    p = tm.Pipeline("rows")
    rows = p.read(tm.Rows("a string, b int, note string"))
    rows.groupBy("a", "b").mapWithState(
        tm.StateSpec.function(track), stateSchema="n int, last string", outputSchema="a string, b int, n int"
    )
    t = Tester(p)
    result = t.batch([("x", 1, "p"), ("x", 1, "q"), ("y", 1, None)])
    assert {k: tuple(v) for k, v in result.state.items()} == {("x", 1): (2, "q"), ("y", 1): (1, None)}
    assert result.state[("x", 1)].last == "q"


def event_pipeline(late):
    def seen(batch_time, word, row, state):
        if state.isTimingOut:
            return (word, state.get, True)
        state.update((state.getOption or 0) + 1)
        return (word, state.get, False)

    p = tm.Pipeline("events")
    rows = p.read(tm.Rows("word string, ts timestamp")).withWatermark("ts", "10 seconds", late=late)
    rows.groupBy("word").mapWithState(
        tm.StateSpec.function(seen).timeout("30 seconds", clock="event"),
        stateSchema="long",
        outputSchema="word string, n long, closed boolean",
        name="seen",
    )
    return p


def at(seconds):
    return f"2024-01-01T00:{seconds // 60:02d}:{seconds % 60:02d}"


def test_event_time_timeout_fires_when_the_watermark_passes_last_seen_plus_duration_in_the_same_batch():
    t = Tester(event_pipeline("drop"))
    t.batch([("a", at(0)), ("b", at(5))])
    exact = t.batch([("b", at(40))])  # W = 30 s: a's deadline is 30 s, strictly below is needed
    assert exact.outputs == [("b", 2, False)]
    fired = t.batch([("b", at(41))])  # W moves to 31 s: the due pass of this very batch fires
    assert fired.outputs == [("b", 3, False), ("a", 1, True)]
    assert fired.state == {"b": 3}
    assert fired.metrics.version == 2


def test_late_rows_are_dropped_and_counted():
    t = Tester(event_pipeline("drop"))
    t.batch([("a", at(20))])  # W = 10 s
    result = t.batch([("b", at(10)), ("b", at(11)), ("c", None)])
    assert sorted(result.outputs) == [("b", 1, False), ("c", 1, False)]
    m = result.metrics
    assert (m.numInputRows, m.applied_rows, m.late_rows, m.quarantined_rows) == (3, 2, 1, 0)
    assert m.numRowsDroppedByWatermark == 1


def test_late_rows_are_quarantined_with_their_text():
    t = Tester(event_pipeline("quarantine"))
    t.batch([("a", at(20))])
    result = t.batch([("b", at(10)), ("b", at(11))])
    assert result.metrics.late_rows == 1
    (row,) = t.repository.quarantine().to_pylist()
    assert row["version"] == 1 and "late for operator `seen`" in row["reason"] and '"word": "b"' in row["text"]


def test_late_rows_that_are_kept_reach_the_function_and_are_not_armed_in_the_past():
    t = Tester(event_pipeline("keep"))
    t.batch([("a", at(0))])
    t.batch([("z", at(300))])  # W = 290 s: a is due
    result = t.batch([("b", at(1))])  # far behind the watermark
    assert result.outputs[0] == ("b", 1, False)
    assert result.metrics.late_rows == 0 and result.metrics.applied_rows == 1
    assert "b" in result.state  # had data in this batch
    assert ("b", 1, True) in t.batch([("z", at(300))]).outputs


def test_an_output_that_does_not_fit_names_operator_key_and_field():
    t = Tester(pipeline(tm.StateSpec.function(lambda b, k, v, s: (k, "many", False))))
    with pytest.raises(tm.InvalidInput) as caught:
        t.batch([("a", 1)])
    text = str(caught.value)
    assert "`count`" in text and "total" in text and "bigint" in text and "'many'" in text and "'a'" in text
    assert t.repository.head is None


def test_a_raising_function_fails_with_its_traceback_operator_key_and_file():
    def broken(batch_time, word, one, state):
        return 1 / one

    t = Tester(pipeline(tm.StateSpec.function(broken), output="double"))
    with pytest.raises(tm.InvalidInput) as caught:
        t.batch([("a", 1), ("zero", 0)])
    first, *rest = str(caught.value).splitlines()
    assert "`broken`" in first and "`count`" in first and "ZeroDivisionError" in first and "'zero'" in first
    assert "00000000.parquet" in first
    assert any("return 1 / one" in line for line in rest)


def test_the_number_of_tasks_may_change_between_batches():
    t = Tester(pipeline(tm.StateSpec.function(word_count)))
    for number, tasks in enumerate([1, 3, 2, 7, 1]):
        t.tasks = tasks
        result = t.batch([(f"w{i}", 1) for i in range(50)])
        assert result.state == {f"w{i}": number + 1 for i in range(50)}


class Model:
    """The rules of an event-time timeout, key by key. A key without an event time waits, as an initial state does."""

    def __init__(self):
        self.counts, self.deadlines, self.watermark = {}, {}, 0

    def batch(self, rows):
        """Return the outputs of a batch of (key, second or None)."""
        out, before = [], self.watermark
        for key, _ in rows:
            self.counts[key] = self.counts.get(key, 0) + 1
            out.append((key, self.counts[key], False))
        for key in {key for key, _ in rows}:
            seen = [second for one, second in rows if one == key and second is not None]
            known = [max(seen) + 30] if seen else []
            known += [] if self.deadlines.get(key) in (None, "waits") else [self.deadlines[key]]
            self.deadlines[key] = max(known) if known else before + 30 if before else "waits"
        times = [second for _, second in rows if second is not None]
        self.watermark = max([before, *(second - 10 for second in times)])
        for key, deadline in sorted(self.deadlines.items()):
            if deadline == "waits":
                self.deadlines[key] = self.watermark + 30 if self.watermark else "waits"
            elif self.watermark > deadline:
                out.append((key, self.counts.pop(key), True))
                del self.deadlines[key]
        return out


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("tasks", [1, 3])
def test_keys_without_event_times_time_out_as_in_the_model(seed, tasks):
    chance = random.Random(seed)
    t, model = Tester(event_pipeline("drop"), tasks=tasks), Model()
    first_time = chance.randrange(6)
    for number in range(25):
        low = 1 if not model.watermark else model.watermark + 1
        rows = [
            (
                chance.choice("abcdef"),
                None if number < first_time or chance.random() < 0.6 else low + chance.randrange(25),
            )
            for _ in range(chance.randrange(1, 4))
        ]
        found = t.batch([(key, None if second is None else at_second(second)) for key, second in rows])
        assert sorted(found.outputs) == sorted(model.batch(rows)), number
        assert found.state == model.counts
        if chance.random() < 0.2:
            t.restart()


def test_a_key_without_event_times_waits_for_the_first_watermark():
    t = Tester(event_pipeline("drop"))
    t.batch([("a", None)])
    t.batch([("a", None)])
    t.batch([("b", at(100))])  # W = 90: from here the timeout of `a` counts
    t.batch([("b", at(120)), ("a", None)])  # a row without event time does not move it
    assert t.batch([("b", at(130))]).outputs == [("b", 3, False)]  # W = 120: not yet more than 30 s
    assert sorted(t.batch([("b", at(131))]).outputs) == [("a", 3, True), ("b", 4, False)]


def at_second(second):
    return f"1970-01-01T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"

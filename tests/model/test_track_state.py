"""`mapWithState` by the cases of Spark's TrackStateByKeySuite and TrackStateRDDSuite, one test for each, same names.

A batch is one micro-batch of keys; where Spark's suites read `stateSnapshots`, this reads `r.state(version=…)`. What a
`State` gives and refuses in every phase is tested in `tests/unit/native/test_operators_state.py`, timeouts to the
millisecond in `tests/model/test_map_with_state.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import tidemill as tm
from tidemill.testing import Tester

RISE_AND_FALL = ["", "a", "ab", "abc", "ab", "a", ""]
"""The keys of each micro-batch, one row each."""


def fed(spec, state="long", output="key string, n long", tasks=1, **options):
    p = tm.Pipeline("track")
    rows = p.read(tm.Rows("key string, one int"))
    rows.groupBy("key").mapWithState(spec, stateSchema=state, outputSchema=output, name="track", **options)
    return Tester(p, tasks=tasks)


def run(t, batches):
    """The outputs of each micro-batch, sorted."""
    return [sorted(t.batch([(key, 1) for key in keys]).outputs) for keys in batches]


def snapshot(t, version=None):
    """The state of a version."""
    rows = t.repository.state("track", version=version).to_pylist()
    return {row["key"]: row["state"] for row in rows}


def counts(batches):
    """For each micro-batch the running count of each of its keys, and the state after it."""
    state, emitted, states = {}, [], []
    for keys in batches:
        for key in keys:
            state[key] = state.get(key, 0) + 1
        emitted.append(sorted((key, state[key]) for key in keys))
        states.append(dict(state))
    return emitted, states


def test_state_get_exists_update_remove():
    """Three keys through all that a state can go through, in one call each."""

    def go_through(batch_time, key, row, state):
        before = (state.exists, state.getOption)
        if key == "removed":
            state.update(1)
            state.remove()
        elif key == "updated twice":
            state.update(1)
            state.update(state.get + 1)
        return (key, f"{before} {state.exists} {state.getOption} {state}")

    t = fed(tm.StateSpec.function(go_through), output="key string, seen string")
    result = t.batch([("removed", 1), ("updated twice", 1), ("left", 1)])
    assert dict(result.outputs) == {
        "removed": "(False, None) False None <state not set>",
        "updated twice": "(False, None) True 2 2",
        "left": "(False, None) False None <state not set>",
    }
    assert result.state == {"updated twice": 2}
    again = dict(t.batch([("removed", 1), ("updated twice", 1)]).outputs)
    assert again["updated twice"].startswith("(True, 2)") and again["removed"].startswith("(False, None)")


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("form", ["of key, value, state", "of value and state", "with a default"])
def test_basic_operations_with_simple_api(tasks, form):
    def count(row, state):
        state.update((state.getOption or 0) + 1)
        return (row.key, state.get)

    forms = {
        "of key, value, state": lambda key, row, state: (key, count(row, state)[1]),
        "of value and state": count,
        "with a default": lambda row, state, more=None: count(row, state) if more is None else 1 / 0,
    }
    t = fed(tm.StateSpec.function(forms[form]), tasks=tasks)
    emitted, states = counts(RISE_AND_FALL)
    assert run(t, RISE_AND_FALL) == emitted
    assert [snapshot(t, version) for version in range(len(states))] == states


@pytest.mark.parametrize("tasks", [1, 3])
def test_basic_operations_with_advanced_api(tasks):
    def count(batch_time, key, one, state):
        state.update((state.getOption or 0) + one)
        return (key * 2, state.get)

    t = fed(tm.StateSpec.function(count).timeout("1 day").numPartitions(2), tasks=tasks, value="one")
    emitted, states = counts(RISE_AND_FALL)
    assert run(t, RISE_AND_FALL) == [[(key * 2, n) for key, n in rows] for rows in emitted]
    assert [snapshot(t, version) for version in range(len(states))] == states


def test_type_inferencing():
    """Every way to say a schema, for state and output, gives the same."""
    import pyarrow as pa

    @dataclass
    class Seen:
        n: int

    @dataclass
    class Handled:
        key: str
        n: int

    def scalar(row, state):
        state.update((state.getOption or 0) + 1)
        return (row.key, state.get)

    def with_class(row, state):
        state.update(Seen(state.get.n + 1 if state.exists else 1))
        return Handled(row.key, state.get.n)

    arrow_schema = pa.schema([("key", pa.string()), ("n", pa.int64())])
    for function, state, output in (
        (scalar, "long", "key string, n long"),
        (scalar, "bigint", arrow_schema),
        (scalar, pa.int64(), Handled),
        (with_class, Seen, Handled),
    ):
        t = fed(tm.StateSpec.function(function), state, output)
        assert run(t, ["a", "ab"]) == [[("a", 1)], [("a", 2), ("b", 1)]]


def test_states_as_emitted_records():
    """The state itself is what is emitted: records of several columns, also with a list among them."""

    def remember(batch_time, key, row, state):
        seen = [*(state.get.seen if state.exists else []), row.one]
        state.update((len(seen), seen))
        return state.get

    schema = "n int, seen array<int>"
    t = fed(tm.StateSpec.function(remember), schema, schema)
    t.batch([("a", 1)])
    assert t.batch([("a", 2), ("b", 3)]).rows in (
        [{"n": 2, "seen": [1, 2]}, {"n": 1, "seen": [3]}],
        [{"n": 1, "seen": [3]}, {"n": 2, "seen": [1, 2]}],
    )


@pytest.mark.parametrize("tasks", [1, 3])
def test_initial_states_with_nothing_emitted(tasks):
    def count(batch_time, key, row, state):
        state.update(state.getOption + 1 if state.exists else 1)

    initial = {"a": 5, "b": 10, "c": -20, "d": 0}
    t = fed(tm.StateSpec.function(count).initialState(list(initial.items())), tasks=tasks)
    _, states = counts(RISE_AND_FALL)
    assert run(t, RISE_AND_FALL) == [[]] * len(RISE_AND_FALL)
    assert snapshot(t, -1) == initial
    for version, counted in enumerate(states):
        assert snapshot(t, version) == {key: n + counted.get(key, 0) for key, n in initial.items()}


@pytest.mark.parametrize("tasks", [1, 3])
def test_state_removing(tasks):
    """Every second time a key comes its state goes, and what it was is emitted."""

    def toggle(batch_time, key, row, state):
        if not state.exists:
            state.update(1)
            return None
        state.remove()
        return (key, 0)

    t = fed(tm.StateSpec.function(toggle), tasks=tasks)
    batches = ["", "a", "ab", "abc", "bc", "c", ""]
    assert run(t, batches) == [[], [], [("a", 0)], [("b", 0)], [("c", 0)], [], []]
    states = ["", "a", "b", "ac", "ab", "abc", "abc"]
    assert [snapshot(t, v) for v in range(len(batches))] == [dict.fromkeys(keys, 1) for keys in states]


@pytest.mark.parametrize("tasks", [1, 3])
def test_state_timing_out(tasks):
    """Keys fall silent one after the other; each times out once, strictly later than three batches after its last."""

    def watch(batch_time, key, row, state):
        if state.isTimingOut:
            return (key, state.get)
        state.update(batch_time)
        return None

    t = fed(tm.StateSpec.function(watch).timeout("3 seconds"), tasks=tasks)
    emitted = run(t, ["abc", "ab", *["a"] * 6, ""])
    assert emitted == [[], [], [], [], [("c", 0)], [("b", 1000)], [], [], []]
    assert snapshot(t) == {"a": 7000}
    assert t.sweep(at_ms=10_001).outputs == [("a", 7000)]
    assert snapshot(t) == {}


def test_state_creating_updating_removing_in_one_micro_batch():
    """The record case: what several rows of one key, of other keys and of timeouts in one micro-batch come to."""

    def obey(batch_time, key, row, state):
        if state.isTimingOut:
            return (key, -1)
        if row.one == 0:
            state.remove()
        elif row.one > 0:
            state.update((state.getOption or 0) + row.one)
        return (key, state.getOption or 0)

    t = fed(tm.StateSpec.function(obey).timeout("1 second"))
    t.batch([("kept", 1), ("silent", 1), ("gone", 1), ("back", 1)], batch_time_ms=0)
    result = t.batch(
        [("kept", -1), ("gone", 0), ("new", 2), ("new", 3), ("back", 0), ("back", 7), ("never", -1)],
        batch_time_ms=1001,
    )
    assert sorted(result.outputs) == [
        ("back", 0), ("back", 7), ("gone", 0), ("kept", 1), ("never", 0), ("new", 2), ("new", 5), ("silent", -1),
    ]  # fmt: skip
    assert result.state == {"kept": 1, "new": 5, "back": 7}


def count_with_timeout(batch_time, key, row, state):
    if not state.isTimingOut:
        state.update((state.getOption or 0) + 1)
    return (key, -state.get if state.isTimingOut else state.get)


LONG = ["abc", "ab", "a", "", "ac", "", "", "", "b", "a", "a"]


@pytest.mark.parametrize("tasks", [1, 3])
def test_checkpoint_and_restart_in_the_middle(tasks):
    spec = tm.StateSpec.function(count_with_timeout).timeout("3 seconds").initialState([("d", 10), ("a", 100)])
    undisturbed = fed(spec, tasks=tasks)
    expected = run(undisturbed, LONG)
    for middle in range(len(LONG)):
        t = fed(spec, tasks=tasks)
        found = run(t, LONG[:middle])
        t.restart()
        assert found + run(t, LONG[middle:]) == expected
        assert snapshot(t) == snapshot(undisturbed)


def test_another_number_of_partitions_in_the_middle():
    def named(partitions):
        spec = tm.StateSpec.function(count_with_timeout).timeout("3 seconds")
        return spec if partitions is None else spec.numPartitions(partitions).partitioner(hash)

    undisturbed = fed(named(None))
    expected = run(undisturbed, LONG)
    t = fed(named(1), tasks="auto")
    found = []
    for number, keys in enumerate(LONG):
        again = fed(named([1, 4, 2, 7, 3][number % 5]), tasks="auto")
        t.pipeline = again.pipeline
        t.restart()
        found += run(t, [keys])
        assert t.repository.head.engine["tasks"] == str([1, 4, 2, 7, 3][number % 5])
    assert found == expected and snapshot(t) == snapshot(undisturbed)


def test_an_invalid_specification_is_an_error():
    spec = tm.StateSpec.function(count_with_timeout)
    for wrong in (0, -1, 2.0, True, "4"):
        with pytest.raises(tm.InvalidInput, match="StateSpec.numPartitions: .* expected a whole number of at least 1"):
            spec.numPartitions(wrong)
    with pytest.raises(tm.InvalidInput, match="StateSpec.partitioner: expected a function of the key, found 4"):
        spec.partitioner(4)

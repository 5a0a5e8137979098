"""The initial state: `init` writes it as version -1, checked by name and type, and the first batch reads it."""

from __future__ import annotations

import dataclasses
import json
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.world import World, over, state
from tidemill.cli.main import main
from tidemill.errors import Exit
from tidemill.protocol.refs import Refs
from tidemill.testing import Tester


def word_count(batch_time, word, one, state):
    total = (state.getOption or 0) + (one or 0)
    if not state.isTimingOut:
        state.update(total)
    return (word, total, state.isTimingOut)


SPEC = tm.StateSpec.function(word_count)
PAIRS = [("a", 5), ("b", 10), (None, 1)]


def counting(spec=SPEC, kind="long", name="count"):
    output = "word string, total long, closed boolean"
    return lambda s: s.groupBy("word").mapWithState(spec, stateSchema=kind, outputSchema=output, value="one", name=name)


def pipeline(spec=SPEC, rows="word string, one int"):
    p = tm.Pipeline("words")
    counting(spec)(p.read(tm.Rows(rows)))
    return p


class Words(World):
    """The same operator over files."""

    def __init__(self, folder, spec=SPEC, second=None, kind="long"):
        operators = [counting(spec, kind)] if second is None else [counting(spec), counting(second, name="second")]
        super().__init__(folder, over(*operators), name="words", schema="word string, one int")


TABLE = pa.table({"state": pa.array([5, 10, 1], pa.int64()), "word": pa.array(["a", "b", None])})


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize(
    "data", [PAIRS, TABLE, pa.record_batch(TABLE.to_batches()[0])], ids=["pairs", "table", "batch"]
)
def test_keys_have_their_initial_state_in_the_first_batch_and_nothing_is_emitted_without_data(data, tasks):
    t = Tester(pipeline(SPEC.initialState(data)), tasks=tasks)
    assert state(t.repository, "count", -1) == state(t.repository, "count") == dict(PAIRS)
    first = t.batch([("a", 1), ("c", 1)])
    assert sorted(first.outputs) == [("a", 6, False), ("c", 1, False)]
    assert first.state == {"a": 6, "b": 10, "c": 1, None: 1}
    assert first.metrics.stateOperators[0]["numRowsTotal"] == 4
    t.restart()
    assert t.batch([("b", 1)]).state == {"a": 6, "b": 11, "c": 1, None: 1}
    assert state(t.repository, "count", -1) == dict(PAIRS)


@pytest.mark.parametrize("tasks", [1, 3])
def test_an_initial_state_counts_as_updated_in_the_first_batch(tasks):
    t = Tester(pipeline(SPEC.timeout("10 seconds").initialState(PAIRS)), tasks=tasks)
    first = t.batch([("c", 1)], batch_time_ms=50_000)
    assert first.outputs == [("c", 1, False)]
    rows = {row["word"]: row for row in t.repository.state().to_pylist()}
    assert {row["updated_at"].timestamp() for row in rows.values()} == {50.0}
    assert {row["deadline"].timestamp() for row in rows.values()} == {60.001}
    assert t.batch([("a", 1)], batch_time_ms=60_000).outputs == [("a", 6, False)]
    due = t.sweep(at_ms=60_001)
    assert sorted(due.outputs, key=str) == [("b", 10, True), ("c", 1, True), (None, 1, True)]
    assert due.state == {"a": 6}


def event_pipeline(second=False):
    def seen(batch_time, word, row, state):
        if not state.isTimingOut:
            state.update((state.getOption or 0) + 1)
        return (word, state.get, state.isTimingOut)

    spec = tm.StateSpec.function(seen).timeout("30 seconds", clock="event").initialState([("a", 7), ("b", 8)])
    p = tm.Pipeline("events")
    rows = p.read(tm.Rows("word string, ts timestamp")).withWatermark("ts", "10 seconds").groupBy("word")
    for name in ("seen", "second") if second else ("seen",):
        chosen = spec if name != "seen" or not second else tm.StateSpec.function(seen)
        rows.mapWithState(chosen, "long", "word string, n long, closed boolean", name=name)
    return p


def at(seconds):
    return f"2024-01-01T00:{seconds // 60:02d}:{seconds % 60:02d}"


@pytest.mark.parametrize("tasks", [1, 3])
def test_an_event_time_timeout_counts_from_the_first_watermark_that_moved(tasks):
    t = Tester(event_pipeline(), tasks=tasks)
    t.batch([("c", None)])  # the watermark does not move
    assert t.batch([("c", at(100))]).outputs == [("c", 2, False)]  # W = 90: from here it counts
    assert t.batch([("c", at(130))]).outputs == [("c", 3, False)]  # W = 120: not yet more than 30 s
    due = t.batch([("c", at(131))])
    assert sorted(due.outputs) == [("a", 7, True), ("b", 8, True), ("c", 4, False)]
    assert due.state == {"c": 4}


def test_an_operator_added_later_begins_with_its_initial_state(tmp_path):
    first = SPEC.initialState([("z", 9)])
    words = Words(tmp_path, first)
    words.arrive("a,1\n")
    words.run()
    r = Words(tmp_path, first, second=SPEC.timeout("10 seconds").initialState(PAIRS)).open()
    assert state(r, "second") == dict(PAIRS) and state(r, "count") == {"a": 1, "z": 9}
    assert json.loads((tmp_path / "root/words/refs/0000000001.json").read_text())["kind"] == "operators"
    words.arrive("a,1\n")
    r.run(engine="local", batch_time=50_000)
    assert state(r, "second") == {"a": 6, "b": 10, None: 1} and state(r, "count") == {"a": 2, "z": 9}
    assert r.head.operators["second"].rows_total == 3
    r.init()  # nothing more to tell
    assert not (tmp_path / "root/words/refs/0000000002.json").exists()


def test_init_replaces_the_initial_state_of_the_code_and_can_run_again(tmp_path):
    pq.write_table(TABLE, tmp_path / "given.parquet")
    words = Words(tmp_path, SPEC.initialState([("x", 1)]))
    r = words.open(init=False)
    for _ in range(2):
        r.init(initial_state={"count": str(tmp_path / "given.parquet")})
        assert state(r, "count") == dict(PAIRS)
    assert not (tmp_path / "root/words/refs/0000000001.json").exists()
    r.init(initial_state={"count": [("y", 2)]})  # before the first batch it may change
    assert state(r, "count") == {"y": 2}
    words.arrive("y,1\n")
    r.run(engine="local")
    assert state(r, "count") == {"y": 3}
    r.init()  # what the code gives is not looked at again
    r.init(initial_state={"count": [("y", 2)]})  # the same as was written
    with pytest.raises(tm.InvalidInput, match="`count` already has state in version"):
        r.init(initial_state={"count": [("y", 3)]})
    assert state(r, "count") == {"y": 3}


def test_a_void_commit_before_the_first_batch_keeps_the_initial_state(tmp_path):
    words = Words(tmp_path, SPEC.initialState(PAIRS))
    r = words.open()
    words.put("0", "a,1,2,3\n")
    with pytest.raises(tm.InvalidInput):
        r.run(engine="local")
    r.replan("a bad file")
    assert state(r, "count") == state(r, "count", 0) == state(r, "count", -1) == dict(PAIRS)
    words.put("0", "a,1\n")
    r.run(engine="local")
    assert state(r, "count") == {"a": 6, "b": 10, None: 1}


def test_the_command_line_accepts_a_parquet_file_and_a_folder(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "given").mkdir()
    pq.write_table(TABLE.slice(0, 1), tmp_path / "given" / "part-0.parquet")
    pq.write_table(TABLE.slice(1, 1), tmp_path / "given" / "part-1.parquet")
    (tmp_path / "given" / "_SUCCESS").write_text("")
    (tmp_path / "words.py").write_text(
        "import tidemill as tm\n"
        "p = tm.Pipeline('words')\n"
        "words = p.read(tm.Files('in', format='csv', schema='word string, one int')).groupBy('word')\n"
        "words.mapWithState(tm.StateSpec.function(lambda v, s: None), 'long', 'long', name='count')\n"
    )
    common = ["init", f"{tmp_path}/words.py:p", "--root", f"{tmp_path}/root"]
    assert main([*common, "--initial-state", f"count={tmp_path}/given"]) == Exit.DONE
    assert state(Words(tmp_path).open(init=False), "count") == {"a": 5, "b": 10}
    for wrong, status, said in (
        ("count", Exit.USAGE, "expects OPERATOR=PATH"),
        (f"count={tmp_path}/none.parquet", Exit.FAILED, "found no Parquet file at"),
        (f"count={tmp_path}/words.py", Exit.FAILED, "is not a Parquet file"),
    ):
        capsys.readouterr()
        assert main([*common, "--initial-state", wrong]) == status
        assert said in capsys.readouterr().err.replace("\n", " ")


def test_an_operator_that_changes_before_its_first_batch_needs_its_initial_state_again(tmp_path):
    Words(tmp_path).open(init=False).init(initial_state={"count": PAIRS})
    changed = Words(tmp_path, kind="double").open(init=False)
    with pytest.raises(tm.InvalidInput, match="has changed since its initial state was written"):
        changed.init()
    changed.init(initial_state={"count": [("a", 0.5)]})
    assert state(changed, "count") == {"a": 0.5}


def test_keys_and_states_of_several_columns_have_an_initial_state(tmp_path):
    @dataclasses.dataclass
    class Seen:
        n: int
        last: str

    def spec(data):
        return tm.StateSpec.function(lambda value, state: None).initialState(data)

    def given(data):
        p = tm.Pipeline("two")
        rows = p.read(tm.Rows("a string, b timestamp")).groupBy("a", "b")
        rows.mapWithState(spec(data), stateSchema=Seen, outputSchema="long", name="seen")
        return Tester(p).repository.state().to_pylist()

    for seen in (Seen(1, "x"), (1, "x"), {"n": 1, "last": "x"}, tm.Row(n=1, last="x")):
        (row,) = given([(("k", "2024-01-01T00:00:00"), seen)])
        assert (row["a"], row["b"].isoformat(), row["n"], row["last"]) == ("k", "2024-01-01T00:00:00+00:00", 1, "x")
    with pytest.raises(tm.InvalidInput, match="the key 'k' has the state|has the key 'k', expected 2 values"):
        given([("k", (1, "x"))])
    with pytest.raises(tm.InvalidInput, match=r"has the state \(1,\), expected 2 values \(n, last\)"):
        given([(("k", None), (1,))])
    with pytest.raises(tm.InvalidInput, match="expected 2 values"):
        given([(("k", None), {"n": 1})])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            TABLE.rename_columns(["total", "word"]),
            "missing column `state bigint`; unexpected column `total bigint`",
        ),
        (TABLE.set_column(0, "state", pa.array([1.0, 2.0, 3.0])), "column `state` is double, expected bigint"),
        (TABLE.set_column(1, "word", pa.array([1, 2, 3])), "column `word` is bigint, expected string"),
        (TABLE.append_column("more", pa.array([1, 2, 3])), "unexpected column `more bigint`"),
        ([("a", 1), ("b", 2), ("a", 3)], "has the key 'a' in 2 rows, expected each key once"),
        ([("a", None)], "the state of a key is null"),
        ([("a", "x")], "column `state` is bigint"),
        ([("a",)], "pair 0 is ('a',), expected (key, state)"),
        ("nowhere.parquet", "found no Parquet file at `nowhere.parquet`"),
    ],
)
def test_an_invalid_initial_state_is_an_error_and_nothing_is_written(tmp_path, data, said):
    with pytest.raises(tm.InvalidInput) as caught:
        Words(tmp_path, SPEC.initialState(data)).open()
    assert said in str(caught.value) and "operator `count`" in str(caught.value)
    assert not (tmp_path / "root/words/refs").exists()


@pytest.mark.parametrize("data", [5, None, {"a": 1}, b"x", iter([("a", 1)])])
def test_an_object_that_cannot_be_an_initial_state_is_an_error_in_the_code(data):
    found = (
        f"is a {type(data).__name__}, expected an Arrow table, a list of (key, state) pairs or the path of a Parquet"
    )
    with pytest.raises(tm.InvalidInput) as caught:
        SPEC.initialState(data)
    assert f"StateSpec.initialState: the state {found}" in str(caught.value)
    if data is not None:
        grouped = tm.Pipeline("p").read(tm.Rows("k string")).groupBy("k")
        with pytest.raises(tm.InvalidInput) as caught:
            grouped.mapGroupsWithState(lambda *call: "", "string", "bigint", initialState=data, name="seeded")
        assert f"operator `seeded`: mapGroupsWithState: the initial state {found}" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "keys", "shown"),
    [("double", [0.0, -0.0], "0.0"), ("double", [float("nan")] * 2, "nan"), ("long", [None, 1, None], "None")],
)
def test_keys_that_the_engine_treats_as_equal_are_duplicates(kind, keys, shown):
    spec = SPEC.initialState([(key, 1) for key in keys])
    with pytest.raises(tm.InvalidInput, match=f"has the key {shown} in 2 rows"):
        Tester(pipeline(spec, rows=f"word {kind}, one int"))


def test_workers_do_not_receive_the_initial_state():
    spec = tm.StateSpec.function(print).initialState(TABLE)
    assert pickle.loads(pickle.dumps(spec)) == tm.StateSpec.function(print)


def test_an_initial_state_for_an_unsuitable_or_unknown_operator_is_an_error():
    p = tm.Pipeline("counts")
    p.read(tm.Rows("k string")).dropDuplicates(["k"], name="count")
    r = tm.open(p, root="memory://takes-none")
    with pytest.raises(tm.InvalidInput, match="`count` is a `deduplicate`, which cannot have an initial state"):
        r.init(initial_state={"count": [("a", 1)]})
    with pytest.raises(tm.InvalidInput, match="did you mean `count`"):
        r.init(initial_state={"cuont": [("a", 1)]})
    assert isinstance(r.init(), Refs)

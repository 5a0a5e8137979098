"""`transformWithState`: refused calls and their messages, and the guarantees of the handle."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.operators.processors import Processor, declared, once, raised, value
from tidemill.errors import CallRefused, InvalidInput
from tidemill.names import map_name, variable_name
from tidemill.testing import Tester


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"processor": 3}, "has no method `init`, expected a StatefulProcessor"),
        (
            {"processor": Processor},
            "transformWithState: the processor is the class `Processor`, expected an instance of it",
        ),
        ({"mode": "eventtimes"}, "unknown timeMode `eventtimes`; did you mean `EventTime`?"),
        ({"outputMode": "complete"}, "unknown outputMode `complete`"),
        ({"mode": "EventTime"}, 'timeMode "EventTime" needs a watermark on the stream, found none'),
        ({"eventTimeColumnName": "text"}, "`text` needs a watermark on the stream, found none"),
        ({"eventTimeColumnName": "t", "watermark": True}, "`t` is not a column of the output, which has `text`"),
        ({"eventTimeColumnName": "text", "watermark": True}, "`text` is not a timestamp column of the output"),
        ({"initialState": [("a", 1)]}, "initialState is a list, expected an Arrow table with the key columns"),
        ({"initialState": pa.table({"K": ["a"]})}, "initialState has no key column `k`, it has `K`"),
    ],
)
def test_invalid_arguments_are_refused_at_the_call(arguments, message):
    with pytest.raises(InvalidInput, match="^(?s:.*)" + message.replace("?", "\\?").replace("(", "\\(")):
        declared(**({"processor": Processor()} | arguments))


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (
            lambda s, h: [h.getValueState("a", "n int"), h.getListState("a", "n int")],
            "list state 'a' is declared twice",
        ),
        (
            lambda s, h: [h.getValueState("a", "n int"), h.getValueState("A", "n int")],
            "the names of the variables `a` and `A` differ only in case",
        ),
        (lambda s, h: h.getValueState("", "n int"), "expected a string that is not empty as the name"),
        (lambda s, h: h.getValueState("a" * 130, "n int"), "is too long for an object name"),
        (lambda s, h: h.getValueState("a", "int"), "found a type without a column name"),
        (lambda s, h: h.getValueState("a", "n int", 5), 'needs timeMode "ProcessingTime"; found "None"'),
        (lambda s, h: h.getMapState("a", "k array<int>", "n int"), "map state 'a' cannot have `k` array<int> in its"),
        (lambda s, h: h.registerTimer(1), 'registerTimer is not available with timeMode "None"'),
        (
            lambda s, h: h.getValueState("a", "n int").get(),
            "value state `a` of operator `transform-with-state` can only",
        ),
        (lambda s, h: 1 / 0, "method `init` of operator `transform-with-state` raised `ZeroDivisionError"),
    ],
)
def test_an_invalid_variable_is_refused_when_the_pipeline_is_built(init, message):
    with pytest.raises(InvalidInput) as caught:
        declared(Processor(init))
    assert message in str(caught.value)


@pytest.mark.parametrize("ttl_ms", [-5, True, False, 1.5, 0.0])
def test_a_time_to_live_is_whole_milliseconds(ttl_ms):
    with pytest.raises(InvalidInput, match="expected whole milliseconds, 0 \\(none\\) to"):
        declared(Processor(lambda s, h: h.getListState("a", "n int", ttl_ms)), "ProcessingTime")


@pytest.mark.parametrize("time_mode", ["None", "ProcessingTime"])
def test_a_time_to_live_of_zero_is_none_as_in_spark(time_mode):
    pipelines = [
        declared(Processor(init), time_mode)
        for init in (lambda s, h: h.getListState("a", "n int", 0), lambda s, h: h.getListState("a", "n int"))
    ]
    zero, none = (next(iter(p.operators.values())).operator for p in pipelines)
    assert [zero.maps, zero.rules] == [none.maps, none.rules]


def test_a_call_out_of_place_raises_an_error_that_spark_code_catches_too():
    def rows(self, key, rows):
        for call in (lambda: self.handle.getValueState("b", "n int"), lambda: self.handle.deleteIfExists("count")):
            with pytest.raises(RuntimeError) as caught:
                call()
            assert isinstance(caught.value, CallRefused)
            yield (str(caught.value).partition("\n")[0],)

    operator = "operator `transform-with-state`"
    assert [text for (text,) in once(value, rows)] == [
        f"{operator}: getValueState can only be called in init",
        f"{operator}: deleteIfExists can only be called in init",
    ]


def test_timers_are_refused_without_a_time_mode():
    for method, call in (
        ("registerTimer", lambda self, key, rows: self.handle.registerTimer(1)),
        ("deleteTimer", lambda self, key, rows: self.handle.deleteTimer(1)),
        ("listTimers", lambda self, key, rows: list(self.handle.listTimers())),
    ):
        assert f'{method} is not available with timeMode "None"' in raised(None, call)


def test_a_variable_that_init_deleted_cannot_be_used():
    def init(self, handle):
        value(self, handle)
        handle.deleteIfExists("count")

    said = raised(init, lambda self, key, rows: [self.value.exists()])
    assert "raised `CallRefused: Error checking value state exists: value state `count`" in said


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (
            (1,),
            "value state `count` of operator `transform-with-state` cannot store the value: "
            "found a `tuple` of length 1",
        ),
        (("x", "y"), "field `n` is `str` 'x', expected `int`"),
        ((2**40, None), "field `n` is `int` 1099511627776, expected `int`"),
        (None, "found None, expected (n int, s string)"),
        (5, "found `int` 5, expected (n int, s string)"),
    ],
)
def test_a_value_that_does_not_fit_is_reported_with_variable_field_and_key(new, message):
    text = raised(value, lambda self, key, rows: [self.value.update(new)])
    assert text.startswith("method `handleInputRows` of operator `transform-with-state` raised `InvalidInput: ")
    assert message in text
    assert "for key `('a',)`" in text
    assert "test_transform_with_state.py" in text, "the user's traceback"


def test_a_not_null_field_refuses_none():
    def init(self, handle):
        self.value = handle.getValueState("count", pa.schema([pa.field("n", pa.int32(), nullable=False)]))

    def rows(self, key, rows):
        self.value.update((1,))
        yield (repr(self.value.get()),)
        self.value.update((None,))

    assert "field `n` is None, expected `int not null`" in raised(init, rows)
    assert once(init, lambda self, key, given: [next(rows(self, key, given))]) == [("(1,)",)]


def test_values_are_read_by_position_as_in_spark():
    def rows(self, key, rows):
        self.value.update(tm.Row(s=7, n="x"))
        yield (repr(self.value.get()),)

    assert once(value, rows) == [("(7, 'x')",)]


def test_an_empty_list_is_refused():
    def init(self, handle):
        self.list = handle.getListState("items", "n int")

    for call in (lambda self: self.list.put([]), lambda self: self.list.appendList([])):
        text = raised(init, lambda self, key, rows, call=call: [call(self)])
        assert "CallRefused: list state `items` of operator `transform-with-state` cannot store an empty list" in text


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda *_: None, "returned `NoneType` for key `('a',)`, expected an iterator of rows"),
        (
            lambda *_: [("x", "y")],
            "cannot emit the result of method `handleInputRows` of operator",
        ),
        (lambda *_: [None], "found None, expected (text string)"),
    ],
)
def test_an_output_that_is_not_a_row_is_named(answer, message):
    assert message in raised(None, answer)


def test_an_exception_of_a_processor_names_key_and_file():
    def rows(self, key, rows):
        yield ("fine",)
        raise LookupError("where is it?")

    text = raised(None, rows)
    assert text.startswith(
        "method `handleInputRows` of operator `transform-with-state` raised `LookupError: where is it?` "
        "for key `('a',)`, processing rows of file `"
    )


def test_init_must_declare_the_same_in_each_task():
    found = []

    def init(self, handle):
        handle.getValueState(f"v{len(found)}", "n int")
        found.append(1)

    text = raised(init, None)
    assert "init declared `v1` (value state of n int) in a task, `v0` (value state of n int) when the" in text


def test_init_and_close_are_called_on_copies_so_tasks_share_no_attributes():
    calls = []

    class Counting(Processor):
        def __init__(self):
            super().__init__(value, self.answer)
            self.keys = 0

        def __deepcopy__(self, memo):
            return Counting()

        def answer(self, _, key, rows):
            self.keys += 1
            calls.append(f"rows {self.keys}")
            return []

        def close(self):
            calls.append("close")

    t = Tester(declared(Counting()), tasks=1)
    t.batch([("a", 1, None), ("b", 1, None)])
    t.batch([("a", 1, None)])
    assert calls == ["close", "rows 1", "rows 2", "close", "rows 1", "close"]


def test_a_processor_that_cannot_be_copied_is_refused():
    processor = Processor()
    processor.connection = (n for n in range(3))
    with pytest.raises(InvalidInput, match="the processor cannot be copied: TypeError"):
        declared(processor)


def test_rows_are_rows_and_keys_are_tuples():
    def rows(self, key, rows):
        for row in rows:
            yield (repr((key, row, row.id, row["k"])),)

    assert once(None, rows) == [("(('a',), Row(k='a', id=1, ts=None), 1, 'a')",)]


def test_columns_of_variables_may_have_the_names_of_key_columns():
    def init(self, handle):
        self.map = handle.getMapState("m", "k string", "k string, deadline int, K2 int")

    def rows(self, key, rows):
        old = self.map.getValue(("x",))
        self.map.updateValue(("x",), ("y", 1, 2))
        yield (repr(old),)

    t = Tester(declared(Processor(init, rows)))
    assert t.batch([("a", 1, None)]).outputs == [("None",)]
    t.restart()
    assert t.batch([("a", 1, None)]).outputs == [("Row(k='y', deadline=1, K2=2)",)]
    (maps,) = [one["maps"] for one in t.repository.head.schemas.values()]
    assert maps["var-m"] == {
        "key": "k string",
        "sub_key": "`key.k` string",
        "value": "`value.k` string, `value.deadline` int, K2 int",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s, h: h.getValueState("count", "n int"),
            "has state schema `n int, s string`, this code declares `n int` (missing column `s string`)",
        ),
        (
            lambda s, h: h.getValueState("count", "n int, s string, score float not null"),
            "this code declares `n int, s string, score float not null` (unexpected column `score float`)",
        ),
        (
            lambda s, h: h.getValueState("count", "s string, n int"),
            "has state schema `n int, s string`, this code declares `s string, n int`",
        ),
        (
            lambda s, h: h.getValueState("count", "n smallint, s string"),
            "this code declares `n smallint, s string` (column `n` is smallint, expected int)",
        ),
        (
            lambda s, h: h.getListState("count", "n int, s string"),
            "has state made with `variable count` = value, this code declares list",
        ),
        (
            lambda s, h: h.getValueState("total", "n int, s string"),
            "has state in the variable `count` (n int, s string), which this code does not declare",
        ),
        (lambda s, h: None, "has state in the variable `count` (n int, s string), which this code does not declare"),
    ],
)
def test_variables_are_checked_against_the_state(change, message):
    t = Tester(declared(Processor(value)))
    t.batch([("a", 1, None)])
    t.pipeline = declared(Processor(change))
    t.restart()
    with pytest.raises(InvalidInput) as caught:
        t.batch([("a", 1, None)])
    assert message in str(caught.value)


def test_a_new_variable_begins_empty_and_is_stored():
    """Spark takes added variables too."""

    def more(self, handle):
        value(self, handle)
        self.seen = handle.getListState("seen", "id int")
        self.best = handle.getMapState("best", "k string", "n int")

    def rows(self, key, rows):
        n, _ = self.value.get() or (0, "")
        self.value.update((n + 1, "x"))
        if hasattr(self, "seen"):
            self.best.updateValue(("all",), ((self.best.getValue(("all",)) or (0,))[0] + 1,))
            self.seen.appendValue((n,))
            yield (f"{key[0]} {n + 1} {list(self.seen.get())} {self.best.getValue(('all',))[0]}",)

    t = Tester(declared(Processor(value, rows)))
    t.batch([("a", 1, None), ("b", 1, None)])
    before = t.repository.head.version
    t.pipeline = declared(Processor(more, rows))
    t.restart()
    assert sorted(t.batch([("a", 1, None), ("c", 1, None)]).outputs) == [("a 2 [(1,)] 1",), ("c 1 [(0,)] 1",)]
    t.restart()
    assert t.batch([("a", 1, None)]).outputs == [("a 3 [(1,), (2,)] 2",)]
    (operator,) = t.repository.head.schemas
    assert t.repository.state(operator, variable="count").num_rows == 3
    assert sorted(t.repository.state(operator, variable="best").column("n").to_pylist()) == [1, 2]
    with pytest.raises(InvalidInput, match="unknown variable of the state `best`"):
        t.repository.state(operator, version=before, variable="best")
    t.pipeline = declared(Processor(value, rows))
    t.restart()
    with pytest.raises(
        InvalidInput, match=r"state in the variable `seen` \(id int\), which this code does not declare"
    ):
        t.batch([("a", 1, None)])


def test_map_names_keep_variables_apart_and_inside_their_folder():
    names = ["timers", "a", "a.b", "a/b", "..", "ä", "$x", "a b", "a.2fb"]
    assert len({map_name(name) for name in names}) == len(names)
    assert all(set(map_name(name)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-._") for name in names)
    assert [variable_name(map_name(name)) for name in names] == names


def test_an_output_with_a_late_event_time_is_refused():
    def rows(self, key, rows):
        for row in rows:
            yield (row.ts,)

    p = tm.Pipeline("p")
    stream = p.read(tm.Rows("k string, id int, ts timestamp")).withWatermark("ts", "0 seconds", late="keep")
    stream.groupBy("k").transformWithState(
        Processor(rows=rows), "at timestamp", "append", "EventTime", eventTimeColumnName="at"
    )
    t = Tester(p)
    t.batch([("a", 1, datetime.fromtimestamp(10, UTC))])
    with pytest.raises(InvalidInput, match="emitted a row with event time 9000 ms in column `at`, which is not after"):
        t.batch([("a", 1, datetime.fromtimestamp(9, UTC))])


def test_state_is_read_by_variable():
    def init(self, handle):
        value(self, handle)
        self.list = handle.getListState("items", "n int")
        self.map = handle.getMapState("m", "k string", "n int")

    def rows(self, key, rows):
        self.value.update((1, "x"))
        self.list.appendList([(5,), (4,)])
        self.map.updateValue(("x",), (9,))
        self.handle.registerTimer(7000)
        return []

    t = Tester(declared(Processor(init, rows), "ProcessingTime"))
    found = t.batch([("a", 1, None)], batch_time_ms=5)
    assert found.state == {
        "count": {"a": tm.Row(n=1, s="x")},
        "items": {"a": {0: tm.Row(n=5), 1: tm.Row(n=4)}},
        "m": {"a": {"x": tm.Row(n=9)}},
        "timers": {"a": {7000: tm.Row()}},
    }
    assert t.repository.state().column_names == ["k", "n", "s", "updated_at", "deadline"]
    assert t.repository.state(variable="items").select(["k", "position", "n"]).to_pylist() == [
        {"k": "a", "position": 0, "n": 5},
        {"k": "a", "position": 1, "n": 4},
    ]
    with pytest.raises(InvalidInput, match="unknown variable of the state `item`; did you mean `items`?"):
        t.repository.state(variable="item")

"""`transformWithState` and `transformWithStateInPandas`: keys of two columns, values of every type, time handed on.

PySpark's tests of both (`test_` and `transform_with_state_` in front are left out), and what follows each here: a case
(`processor-…`, also in `cases_processor.py` and `cases_processor_composite.py`), or a test below `tests/`. Those that
turn off micro-batches without data (event_time, chaining_ops) are followed with them, which is Spark's default.

| its test | here |
| --- | --- |
| basic | processor-iterated-cells; its deleted variable: `test_a_variable_that_init_deleted_cannot_be_used` |
| query_restarts | each case: `case.ours` restarts after every micro-batch. No counterpart: counts of variables |
| proc_timer | processor-processing-time-1, -2, processor-frames-processing-time |
| event_time | processor-event-time-1, -2, processor-frames-event-time |
| with_timers_single_partition (both) | each case: all run with one task and with three |
| with_wmark_and_non_event_time | processor-states-late, processor-processing-time-late |
| non_contiguous_grouping_cols | processor-two-keys |
| non_contiguous_grouping_cols_with_init_state | processor-two-keys-initial-state, and in frames |
| chaining_ops | processor-chained-time, processor-frames-chained-time-and-key, and more that are chained |
| in_pandas_composite_type | processor-composite, processor-frames-composite |
| composite_output_schema | processor-composite-output, processor-frames-composite-output |
| large_values | `unit/test_large_states.py`: texts and bytes |
| with_records_limit | `test_frames_are_cut_at_so_many_rows_and_an_initial_state_is_one_frame`: the limit is fixed |
| with_bytes_limit | no counterpart: frames are cut by rows alone |
| int_to_decimal_coercion | `test_values_of_another_type_are_refused`, which is Spark's default; it has a setting |
| schema_evolution_scenarios, schema_evolution_fails | `test_variables_are_checked_against_the_state`: all are refused |
| not_nullable_fails | no counterpart: with Avro only; else as Spark: `test_a_not_null_field_refuses_none` |
| batch_query, batch_query_initial_state | no counterpart: tables that are not streams |
| non_exist_value_state, list_state, map_state | processor-states-1, -2 |
| list_state_large_list | `unit/test_large_states.py`: thousands |
| list_state_large_ttl, map_state_large_ttl | processor-processing-time-1, -2 |
| value_state_ttl_basic, value_state_ttl_expiration | processor-processing-time-1, -2 |
| init_state, init_state_with_timers | processor-initial-state, processor-initial-state-before-any-row |
| init_state_with_extra_transformation | `test_the_output_of_a_processor_with_an_initial_state_can_be_transformed` |
| restart_with_multiple_rows_init_state | processor-frames-two-keys-initial-state, processor-initial-state |
| map_state_metadata (_with_init_state), list_ and value_state_metadata | `test_state_is_read_by_variable` |
| TwsTester: fuzz_running_count, fuzz_topk, fuzz_word_frequency | processor-states-1, -2: seeded random commands |
| TwsTester: all_methods_processor, clear_nonexistent_… | processor-states-1, -2 |
| TwsTester: initial_state_row, _pandas, empty_initial_state_… | processor-initial-state, and in frames |
| TwsTester: …_timers(_pandas), late_event_filtering | processor-processing-time-…, processor-event-time-… |
| TwsTester: …_raises_error_in_none_mode | `test_timers_are_refused_without_a_time_mode` |
| TwsTester: null_key_value_…, numeric_key, none_values_in_input | processor-two-keys |
| TwsTester: the others | no counterpart: they are about that class; here it is the `Tester` |
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import tidemill as tm
from tests.oracle.case import Case
from tests.oracle.cases_processor import DELAY, SCHEMA, Passing, commands, event_time

KEYED = "x double, i int, n bigint, k string"
SUMMED = "told string, i int, total bigint, k string"  # prose: quoted
INITIAL_NAMES = ["n", "k", "note", "i"]
INITIAL_KEYED = "n bigint, k string, note string, i int"
INITIAL_ROWS = [
    *((789, "a", "first", 1), (987, "z", None, 2), (5, None, "null", 3), (7, "b", "null", None)),
    *((11, "a", "second", 1), (12, "z", "again", 2)),
]
BY_TWO: list[Any] = [
    [(0.5, 1, 123, "a"), (None, 2, 46, "a"), (1.5, 1, 146, "b"), (2.5, 1, 346, "a"), (3.5, 3, 1, None)],
    [(None, None, 8, "b"), (0.25, 2, 9, "z"), (0.75, 2, 67, "a")],
    [],
    [(0.5, None, 12, None), (0.5, 1, 2, "a")],
]


class Summed(StatefulProcessor):
    """Sum over keys of two columns, and show all arguments of the handlers."""

    def init(self, handle: Any) -> None:
        self.sum = handle.getValueState("sum", "n bigint")
        self.given = handle.getListState("given", "told string")  # prose: quoted

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.add([initialState.n])
        self.given.appendValue((f"{key!r} {initialState!r}",))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        found = sorted(rows, key=repr)
        self.add([row.n for row in found])
        text = self.with_given(f"{key!r} {found!r}")
        yield Row(told=text, i=key[1], total=self.sum.get()[0], k=key[0])  # prose: quoted

    def add(self, numbers: list[Any]) -> None:
        old = self.sum.get()[0] if self.sum.exists() else 0
        self.sum.update((old + sum(map(int, numbers)),))

    def with_given(self, now: str) -> str:
        return " | ".join([now, *sorted(text for (text,) in self.given.get())])


class SummedInFrames(Summed):
    """The same with pandas frames."""

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.add(list(initialState["n"]))
        self.given.appendValue((f"{key!r} {seen(initialState)}",))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        found = list(rows)
        self.add([n for frame in found for n in frame["n"]])
        text = self.with_given(f"{key!r} {[seen(frame) for frame in found]}")
        row = {"told": text, "i": key[1], "total": self.sum.get()[0], "k": key[0]}  # prose: quoted
        yield pd.DataFrame({name: [cell] for name, cell in row.items()})


def seen(frame: Any) -> str:
    """A frame by names, types and values; its rows sorted, since Spark promises no order."""
    rows = sorted(map(repr, frame.itertuples(index=False, name=None)))
    return f"{type(frame.index).__name__} {frame.dtypes.astype(str).to_dict()} {rows}"


def by_two(name: str, frames: bool, initial: list[Any] | None) -> Case:
    """Two key columns, in another order than those of the rows and with others between them.

    In frames no key has a null number: there Spark reads the number of a key as a float, as soon as that of another one
    in its task is null, and then does not find the state that the key had before.
    """
    batches = [[row for row in batch if row[1] is not None or not frames] for batch in BY_TWO]
    initial = initial and [row for row in initial if row[3] is not None or not frames]

    def query(stream: Any, states: Any) -> Any:
        grouped = stream.groupBy("k", "i")
        if frames:
            return grouped.transformWithStateInPandas(SummedInFrames(), SUMMED, "Update", "None", states)
        return grouped.transformWithState(Summed(), SUMMED, "Update", "None", states)

    def spark(frame: Any) -> Any:
        if initial is None:
            return query(frame, None)
        return query(frame, frame.sparkSession.createDataFrame(initial, INITIAL_KEYED).groupBy("k", "i"))

    def tidemill(stream: Any) -> Any:
        if initial is None:
            return query(stream, None)
        rows = [dict(zip(INITIAL_NAMES, row, strict=True)) for row in initial]
        types = [pa.int64(), pa.string(), pa.string(), pa.int32()]
        return query(stream, pa.Table.from_pylist(rows, pa.schema(list(zip(INITIAL_NAMES, types, strict=True)))))

    return Case(f"processor-{name}", KEYED, batches, spark, tidemill, mode="update")


PART = "struct<a: int, b: string>"
FIELDS = (
    f"counts map<string, int>, parts map<string, array<{PART}>>, deep map<string, map<string, int>>, "
    "price decimal(12, 3), day date, at timestamp, raw binary, yes boolean"
)
EVERY = f"k string, said string, {FIELDS}, items array<struct<a: int, tags: array<string>, more: map<string, {PART}>>>"


class EveryType(StatefulProcessor):
    """Keep values of every type in variables of each kind, show the values that it finds and emit them unchanged."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", FIELDS)
        self.list = handle.getListState("list", FIELDS)
        self.map = handle.getMapState("map", "day date, price decimal(12, 3), yes boolean", FIELDS)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for n in sorted((row.n for row in rows), key=repr):
            found = self.value.get() if self.value.exists() else None
            said = repr((found, sorted(map(repr, self.list.get())), sorted(map(repr, self.map.iterator()))))
            made = values(n)
            self.value.update(made)
            self.list.appendValue(made)
            self.map.updateValue((made[4], made[3], made[7]), made)
            one, part = Row("a", "tags", "more"), Row("a", "b")
            items = None if n is None else [one(n, ["x", None], {"y": part(n, None)}), one(None, [], {}), None]
            yield Row("k", "said", *NAMES, "items")(key[0], said, *(found or [None] * len(NAMES)), items)


NAMES = ["counts", "parts", "deep", "price", "day", "at", "raw", "yes"]


def values(n: int | None) -> tuple[Any, ...]:
    """One value for each field; None: nulls, and collections that hold nulls."""
    if n is None:
        return ({"a": None}, {"a": None, "b": [None]}, {"a": None}, None, None, None, None, None)
    return (
        {"a": n, "b": None} if n % 2 else {},
        {"a": [(n, "x"), (None, None)], "b": []},
        {"a": {"b": n, "c": n + 1}} if n % 3 else {"d": {}},
        Decimal(n) / 8,
        date(1969, 12, 30) + timedelta(days=n),
        datetime(1969, 12, 31, 23, 59, 59, 999_999) + timedelta(seconds=n, microseconds=n),
        bytes([n, 0, 255]),
        n % 2 == 0,
    )


def every_type() -> Case:
    batches: list[Any] = [
        [("a", 1), ("a", 2), ("b", None), (None, 3)],
        [("a", None), ("b", 4), (None, 5)],
        [("a", 6), ("b", None)],
        [("a", 7), ("b", 8), ("c", 9)],
    ]

    def query(stream: Any) -> Any:
        return stream.groupBy("k").transformWithState(EveryType(), EVERY, "Update", "None")

    return Case("processor-every-type", "k string, n int", batches, query, query, mode="update")


class PassingInFrames(Passing):
    """The same with pandas frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        times = [time for frame in rows for time in frame["ts"] if not pd.isna(time)]
        if times:
            self.latest.update((max(times).to_pydatetime(),))
            yield pd.DataFrame({"k": [key[0]], "at": [max(times)]})


def handed_on(frames: bool, what: str) -> Case:
    """The event time that a processor emits, and an operator that goes by it."""

    def passed(stream: Any) -> Any:
        grouped = stream.withWatermark("ts", DELAY).groupBy("k")
        schema = "k string, at timestamp"
        if frames:
            return grouped.transformWithStateInPandas(
                PassingInFrames(), schema, "Append", "EventTime", eventTimeColumnName="at"
            )
        return grouped.transformWithState(Passing(), schema, "Append", "EventTime", eventTimeColumnName="at")

    def spark(frame: Any) -> Any:
        from pyspark.sql import functions

        keys: Any = {"window": [functions.window("at", "4 seconds"), "k"], "time": ["at"], "time-and-key": ["at", "k"]}
        if what == "duplicates":
            return passed(frame).dropDuplicates(["k", "at"])
        return passed(frame).groupBy(*keys[what]).agg(functions.count("*").alias("n"))

    def tidemill(stream: Any) -> Any:
        keys: Any = {"window": [tm.window("at", "4 seconds"), "k"], "time": ["at"], "time-and-key": ["at", "k"]}
        if what == "duplicates":
            return passed(stream).dropDuplicates(["k", "at"])
        return passed(stream).groupBy(*keys[what]).agg(n=tm.count(), outputMode="append")

    name = f"processor-{'frames-' if frames else ''}chained-{what}"
    return Case(name, SCHEMA, commands(8, ["look"], event_time), spark, tidemill)


CASES = [
    by_two("two-keys", False, None),
    by_two("two-keys-initial-state", False, INITIAL_ROWS),
    by_two("frames-two-keys-initial-state", True, INITIAL_ROWS),
    every_type(),
    handed_on(False, "time"),
    handed_on(True, "time-and-key"),
    handed_on(True, "window"),
    handed_on(True, "duplicates"),
]

"""`Pipeline`, `Stream`, `GroupedStream`: the fluent values that users write. Everything is checked where it is written.

A stream is immutable and may be used more than once; the pipeline knows its sources, operators and sinks. No work is
done here: `pipeline/job.py` compiles what these hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from ..errors import InvalidInput
from ..names import check_name
from ..operators.aggregate import Aggregate, AggregateOperator
from ..operators.contract import Input, Operator, column
from ..operators.deduplicate import DeduplicateOperator
from ..operators.map_with_state import MapWithStateOperator, StateSpec
from ..operators.window import START, Window
from ..settings import duration_ms
from ..sources.contract import Step
from ..sources.steps import Drop, MapBatches, Select, Sql
from .nodes import EventTime, Keyed, Node, Read, Stateless, Watermark, Write, nearest_operator

_TIME_POLICIES = ("arrival", "plan")
TimePolicy = Literal["arrival", "plan"] | Callable[[Any], int]


class Pipeline:
    """Named sources, keyed operators and sinks. Names identify state: keep them when the code changes.

    `name` is `[a-z0-9][a-z0-9-]{0,62}`. `timeZone` is the zone of the timestamps that functions are given, of SQL and
    of parsing; default UTC.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("counts")
    >>> words = p.read(tm.Rows("word string"))
    >>> counts = words.groupBy("word").agg(n=tm.count())
    >>> counts.schema.names
    ['word', 'n']
    """

    def __init__(self, name: str, timeZone: str = "UTC") -> None:
        self.name = check_name(name, "pipeline")
        try:
            ZoneInfo(timeZone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise InvalidInput(
                f"pipeline `{name}`: time zone {timeZone!r} is not known, expected a name such as 'Europe/Berlin'"
            ) from error
        self.timeZone = timeZone
        self.sources: dict[str, Any] = {}
        self.reads: dict[str, Read] = {}
        self.watermarks: dict[str, Watermark] = {}
        self.operators: dict[str, Keyed] = {}
        self.sinks: dict[str, Write] = {}
        self.time_policy: TimePolicy = "arrival"

    def read(self, source: Any, name: str = "source") -> Stream:
        """A stream of the rows of `source` (`tm.Files`, `tm.Rows`). `name` identifies it in the ledger."""
        check_name(name, "source")
        if name in self.sources:
            raise InvalidInput(
                f"pipeline `{self.name}` has a source `{name}` already",
                hint="a stream may be used more than once; name a second source: p.read(…, name=…)",
            )
        if not hasattr(source, "schema"):
            raise InvalidInput(f"p.read: expected a source such as tm.Files(…), found {source!r}")
        node = Read(source.schema, None, source=name)
        self.sources[name], self.reads[name] = source, node
        return Stream(self, node)

    def batch_time(self, policy: str | Callable[[Any], int]) -> Pipeline:
        """What "now" is in a batch, in ms since the epoch: `"arrival"` (default), `"plan"` or a function of the plan.

        "arrival": the arrival of the batch's newest file while others wait behind it, else the time of planning.
        A function is given the plan (`plan.splits[i].path`, `.modified_ms`); a sweep then keeps the last batch's time
        unless it is told one. A time below the last commit's is raised to it. Returns the pipeline.
        """
        if not callable(policy) and policy not in _TIME_POLICIES:
            raise InvalidInput(f"p.batch_time: {policy!r}, expected 'arrival', 'plan' or a function of the plan")
        self.time_policy = cast(TimePolicy, policy)
        return self

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, operators={list(self.operators)}, sinks={list(self.sinks)})"


class Stream:
    """Rows on their way through a pipeline; immutable, may be used more than once."""

    def __init__(self, pipeline: Pipeline, node: Node) -> None:
        self._pipeline = pipeline
        self._node = node

    @property
    def schema(self) -> pa.Schema:
        """The stream's columns."""
        return self._node.schema

    def select(self, *columns: str) -> Stream:
        """Only these columns, in this order. Spark: `select` with plain names."""
        return self._stateless(Select(columns))

    def drop(self, *columns: str) -> Stream:
        """Without these columns; one that is not there is an error."""
        return self._stateless(Drop(columns))

    def sql(self, text: str) -> Stream:
        """Row-wise DuckDB SQL over the stream, which is called `rows`: `SELECT *, a * b AS c FROM rows WHERE …`.

        The same on every engine. What needs more than one row (aggregates, joins, DISTINCT, ordering) and what is not
        constant for its input (`random`, `now`) is refused when the pipeline is built.
        """
        return self._stateless(Sql(text))

    def map_batches(self, fn: Callable[[pa.RecordBatch], pa.RecordBatch], schema: Any) -> Stream:
        """`fn` on each block of rows (a fixed number of consecutive rows of a file). `fn` must be deterministic.

        Not behind a keyed operator yet: there rows come in no fixed blocks.
        """
        if nearest_operator(self._node) is not None:
            raise InvalidInput(
                "map_batches behind a keyed operator is not there yet: its blocks would depend on the number of tasks",
                hint="use .sql, or map_batches before .groupBy",
            )
        return self._stateless(MapBatches(fn, schema))

    def withWatermark(
        self, column: str, delay: str | int | timedelta, late: str = "drop", idle: str | None = None
    ) -> Stream:
        """Event time is `column`; rows more than `delay` behind the greatest one seen are late. Spark: `withWatermark`.

        `late`: "drop" (counted), "quarantine" (kept aside) or "keep" (they reach the function). Only operators that
        use event time look at lateness. `idle` is not there yet.
        """
        return Stream(self._pipeline, self._watermark(column, delay, late, idle))

    def _watermark(self, name: str, delay: str | int | timedelta, late: str, idle: str | None) -> Watermark:
        if nearest_operator(self._node) is not None:
            raise InvalidInput("withWatermark after a keyed operator is not there yet: set it on the source's stream")
        if idle is not None:
            raise InvalidInput("withWatermark: `idle` is not there yet: leave it out")
        if late not in ("drop", "quarantine", "keep"):
            raise InvalidInput(f"withWatermark: late={late!r}, expected 'drop', 'quarantine' or 'keep'")
        found = column(self.schema, name, "withWatermark")
        if not (pa.types.is_timestamp(found.type) or pa.types.is_date(found.type)):
            raise InvalidInput(f"withWatermark: column `{name}` is {found.type}, expected a timestamp")
        source = _source_of(self._node)
        key = f"{source}.{name}"
        node = Watermark(
            self.schema,
            EventTime(key, name, late),  # type: ignore[arg-type]
            parent=self._node,
            name=key,
            column=name,
            delay_ms=duration_ms(delay),
        )
        if key in self._pipeline.watermarks:
            raise InvalidInput(f"source `{source}` has a watermark on `{name}` already: use that stream twice")
        self._pipeline.watermarks[key] = node
        return node

    def groupBy(self, *columns: str | Window) -> GroupedStream:
        """The stream by key: columns, and at most one `tm.window(…)`. A null is a key of its own. Spark: `groupBy`."""
        if not columns:
            raise InvalidInput("groupBy needs at least one column")
        places = [place for place, one in enumerate(columns) if isinstance(one, Window)]
        if len(places) > 1:
            raise InvalidInput(f"groupBy: found {len(places)} windows, expected at most one")
        names = [name for name in columns if not isinstance(name, Window)]
        for name in names:
            if not isinstance(name, str):
                raise InvalidInput(f"groupBy: expected column names or tm.window(…), found {name!r}")
            found = column(self.schema, name, "groupBy")
            if pa.types.is_nested(found.type):
                raise InvalidInput(f"groupBy: column `{name}` is {found.type}, which cannot be a key yet")
        if len(set(names)) < len(names):
            raise InvalidInput(f"groupBy names a column twice: {', '.join(names)}")
        return GroupedStream(self, names, self._windows(columns[places[0]], places[0]) if places else None)

    def _windows(self, window: Any, place: int) -> tuple[Window, int]:
        found = column(self.schema, window.column, "tm.window")
        if not pa.types.is_timestamp(found.type):
            raise InvalidInput(f"tm.window: column `{window.column}` is {found.type}, expected a timestamp")
        for name in (START, "window"):
            if name in self.schema.names:
                raise InvalidInput(f"tm.window: the stream has a column `{name}` already", hint="rename it with .sql")
        return window, place

    def dropDuplicates(self, columns: Sequence[str] = (), *, name: str | None = None) -> Stream:
        """The first row of each combination of `columns`; without them, of all columns. See `GroupedStream`."""
        return self.groupBy(*_names("dropDuplicates", columns, self.schema)).dropDuplicates(name=name)

    def dropDuplicatesWithinWatermark(self, columns: Sequence[str] = (), *, name: str | None = None) -> Stream:
        """As `dropDuplicates`, with keys forgotten by the watermark's delay. See `GroupedStream`."""
        chosen = _names("dropDuplicatesWithinWatermark", columns, self.schema)
        return self.groupBy(*chosen).dropDuplicatesWithinWatermark(name=name)

    def write(self, sink: Any, name: str | None = None) -> Stream:
        """Ends the stream in a sink (`tm.Parquet`, `tm.Json`); each row carries `_batch_id`. Returns the stream.

        `name` defaults to the operator's, else "output", and is unique in the pipeline.
        """
        operator = nearest_operator(self._node)
        chosen = name or (operator.operator.name if operator is not None else "output")
        check_name(chosen, "sink")
        if not (hasattr(sink, "encode") and hasattr(sink, "publish")):
            raise InvalidInput(f"write: expected a sink such as tm.Parquet(path), found {sink!r}")
        if chosen in self._pipeline.sinks:
            raise InvalidInput(f"pipeline `{self._pipeline.name}` has a sink `{chosen}` already: give this one a name")
        if "_batch_id" in self.schema.names:
            raise InvalidInput(f"sink `{chosen}`: the stream has a column `_batch_id`, which Tidemill adds itself")
        sink.check(self.schema)
        self._pipeline.sinks[chosen] = Write(chosen, self._node, sink)
        return self

    def _stateless(self, step: Step) -> Stream:
        schema = step.output(self.schema)
        event_time = self._node.event_time
        if event_time is not None and event_time.column not in schema.names:
            event_time = None
        return Stream(self._pipeline, Stateless(schema, event_time, parent=self._node, step=step))

    def __repr__(self) -> str:
        return f"Stream({', '.join(f'{f.name}: {f.type}' for f in self.schema)})"


class GroupedStream:
    """A stream by key: each method is a keyed operator with its own state, and returns its output as a stream."""

    def __init__(self, stream: Stream, key: Sequence[str], window: tuple[Window, int] | None = None) -> None:
        self._stream = stream
        self._key = tuple(key)
        self._window = window

    def mapWithState(
        self, spec: StateSpec, stateSchema: Any, outputSchema: Any, value: str | None = None, name: str | None = None
    ) -> Stream:
        """A function called once a row with the state of its key (see `tm.StateSpec`). Spark: `mapWithState`.

        `stateSchema`, `outputSchema`: DDL, `pyarrow.Schema`, `StructType` or a dataclass; one bare type is a scalar.
        `value`: the column that the function is given, else the whole row.
        """
        return self.add(
            MapWithStateOperator("map-with-state" if name is None else name, spec, stateSchema, outputSchema, value)
        )

    def dropDuplicates(self, *, name: str | None = None) -> Stream:
        """The first row of each key; later ones vanish. Spark: `dropDuplicates` (`stream.dropDuplicates([…])`).

        Under a watermark late rows are dropped, and where the event time is a key column, a key is forgotten when the
        watermark reaches it; else keys are kept for ever.
        """
        return self.add(DeduplicateOperator("drop-duplicates" if name is None else name))

    def dropDuplicatesWithinWatermark(self, *, name: str | None = None) -> Stream:
        """The first row of each key; the key is forgotten when the watermark reaches that row's event time plus the
        delay, so duplicates at most so far apart are found. Spark: `dropDuplicatesWithinWatermark`."""
        chosen = "drop-duplicates-within-watermark" if name is None else name
        return self.add(DeduplicateOperator(chosen, within_watermark=True))

    def agg(self, *, name: str | None = None, outputMode: str = "update", **functions: Aggregate) -> Stream:
        """Running aggregates, computed in Rust: `.agg(n=tm.count(), total=tm.sum("x"))`. Spark: `groupBy().agg()`.

        By `tm.window(…)`, "append" emits each window once, when the watermark has passed its end, and "update" each
        window that a batch changed; either forgets it then. Without a window there is only "update".
        """
        return self.add(AggregateOperator.declare("agg" if name is None else name, functions, outputMode))

    def add(self, operator: Operator) -> Stream:
        """The output of any operator that keeps to `tidemill.operators.contract`; `InvalidInput` for a name taken."""
        pipeline, node = self._stream._pipeline, self._stream._node
        if check_name(operator.name, "operator") in pipeline.operators:
            raise InvalidInput(
                f"pipeline `{pipeline.name}` has an operator `{operator.name}` already",
                hint="names identify state: give this one a name of its own, name=…",
            )
        if self._window is not None and not operator.takes_windows:
            raise InvalidInput(
                f"operator `{operator.name}` cannot be grouped by tm.window(…)", hint="windows are for .agg(…)"
            )
        event = node.event_time
        bound = operator.bind(
            Input(
                schema=node.schema,
                key=self._key,
                event_time=event.column if event else None,
                late=event.late if event else "drop",
                time_zone=pipeline.timeZone,
                delay_ms=pipeline.watermarks[event.watermark].delay_ms if event else 0,
                window=self._window,
            )
        )
        passed_on = dataclasses.replace(event, column=bound.event_time) if event and bound.event_time else None
        keyed = Keyed(bound.output_schema, passed_on, parent=node, operator=bound)
        pipeline.operators[bound.name] = keyed
        return Stream(pipeline, keyed)


def _names(method: str, columns: Sequence[str], schema: pa.Schema) -> Sequence[str]:
    if isinstance(columns, str):
        raise InvalidInput(f"{method}: expected a list of columns, found {columns!r}", hint=f"{method}([{columns!r}])")
    return columns or schema.names


def _source_of(node: Node) -> str:
    current: Any = node
    while not isinstance(current, Read):
        current = current.parent
    return current.source


__all__ = ["GroupedStream", "Pipeline", "Stream"]

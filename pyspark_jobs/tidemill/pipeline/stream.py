"""`Stream`: the immutable value that users chain calls on. Each call is checked at once.

Streams only add nodes to the pipeline's graph. `pipeline/job.py` compiles the graph, and `batch/` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import InvalidInput
from ..names import ADDED, check_name
from ..operators.contract import Operator, Windows, column
from ..operators.session_window import SESSION, SessionWindow
from ..operators.window import WINDOW, GivenWindow, Window
from ..schema import type_ddl
from ..sinks.foreach import ForeachBatch
from ..sources.contract import StatelessStep
from ..sources.steps import Drop, MapBatches, Select, Sql
from ..units import duration_ms, duration_text, interval_ms
from .graph import Graph, Grouped
from .grouped import GroupedStream
from .nodes import (
    EventTime,
    Node,
    Read,
    Stateless,
    Union,
    Watermark,
    Write,
    is_declared_here,
    nearest_operator,
    parents_of,
)
from .pyspark_names import OF_STREAMS, missing_name
from .union import union


def _either(ours: str, given: Any, sparks: str, named: Any) -> Any:
    """Return the value of an argument that has another name in PySpark."""
    if (given is None) == (named is None):
        found = "neither" if given is None else "both"
        raise InvalidInput(f"withWatermark: expected `{ours}` (PySpark: `{sparks}`), found {found}")
    return named if given is None else given


class Stream:
    """Rows on their way through a pipeline. A stream is immutable and may be used more than once."""

    def __init__(self, pipeline: Graph, node: Node) -> None:
        self._pipeline = pipeline
        self._node = node

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the stream's columns."""
        return self._node.schema

    def select(self, *columns: str) -> Stream:
        """Keep only these columns, in this order. Spark: `select` with plain names."""
        return self._stateless(Select(columns))

    def drop(self, *columns: str) -> Stream:
        """Remove these columns. An unknown column is `InvalidInput`, unlike in Spark. Spark: `drop`."""
        return self._stateless(Drop(columns))

    def sql(self, text: str) -> Stream:
        """Run row-wise DuckDB SQL over the stream, as table `rows`: `SELECT *, a * b AS c FROM rows WHERE …`.

        The result is the same on every engine. `InvalidInput` is raised at once for SQL that needs more than one row
        (aggregates, joins, DISTINCT, ordering) and for functions whose result varies (`random`, `now`).

        >>> import tidemill as tm
        >>> rows = tm.Pipeline("sales").read(tm.Rows("item string, price double, n int"))
        >>> rows.sql("SELECT item, price * n AS amount FROM rows WHERE n > 0").schema.names
        ['item', 'amount']
        """
        return self._stateless(Sql(text))

    def map_batches(self, fn: Callable[[pa.RecordBatch], pa.RecordBatch], schema: Any) -> Stream:
        """Call `fn(pyarrow.RecordBatch) -> pyarrow.RecordBatch` on each block of rows.

        A block is a fixed number of consecutive rows of a file. `fn` must be deterministic. `schema` declares the
        columns that it returns.

        Downstream of a keyed operator, blocks depend on the number of tasks. There `fn` must work row by row: return
        one row for each row, in the same order. Another number of rows is `InvalidInput`.
        """
        behind = nearest_operator(self._node) is not None
        return self._stateless(MapBatches(fn, schema, row_by_row=behind))

    def withWatermark(
        self,
        column: str | None = None,
        delay: str | int | timedelta | None = None,
        late: str = "drop",
        idle: str | timedelta | None = None,
        maxAhead: str | int | timedelta | None = None,
        *,
        eventTime: str | None = None,
        delayThreshold: str | None = None,
    ) -> Stream:
        """Declare the event time and how late rows may be. Spark: `withWatermark`.

        The watermark is the greatest event time of `column` seen so far, less `delay` (`"1 day"`, a timedelta, or ms).
        Rows at or before the watermark are late. Only operators that use event time check for late rows. `late` says
        what they do with them: "drop" drops and counts them, "quarantine" moves them to quarantine, and "keep" gives
        them to the function.

        By default the watermark of a stream without new rows stands still, as in Spark. With `idle="15 minutes"` it
        follows the batch time less `delay` once the last batch with rows of this stream is that long ago. Then a quiet
        source no longer holds back a union.

        Without `maxAhead`, one row with a time far in the future moves the watermark there, and all later rows are
        late. With `maxAhead="2 days"`, rows whose event time is more than two days after the batch time do not move the
        watermark; they go to quarantine, whatever `late` says.

        The event time follows its column, even if `.sql` gives the column other names. It ends when a step drops the
        column or computes it again. After `.map_batches` the event time is the column of the same name, if it holds
        timestamps or dates. If the column has several names, only the first one continues.

        Several operators on one stream may wait for different times: call `withWatermark` with each delay on the stream
        that has no watermark yet. Each delay is a watermark of its own: `orders.ts`, then `orders.ts#2`.

        Downstream of a keyed operator, `withWatermark` declares a new event time over the operator's output. If the
        operator passes the event time on, as `dropDuplicates` does, a second watermark on that column may have another
        delay: duplicates within a day, then sessions that end after an hour. Any other second watermark on a stream
        that has one is `InvalidInput`, as in Spark.

        `eventTime` and `delayThreshold` are PySpark's names for `column` and `delay`.
        """
        name = _either("column", column, "eventTime", eventTime)
        behind = _either("delay", delay, "delayThreshold", delayThreshold)
        return Stream(self._pipeline, self._watermark(name, behind, late, idle, maxAhead))

    def _watermark(
        self,
        name: str,
        delay: str | int | timedelta,
        late: str,
        idle: str | timedelta | None,
        ahead: str | int | timedelta | None,
    ) -> Watermark:
        before = nearest_operator(self._node)
        present = self._node.event_time
        again = present is not None and self._passes_on(present, name, delay)
        if present is not None and not isinstance(self._node, Union) and not again:
            whose = "stream" if before is None else f"output of operator `{before.operator.name}`"
            raise InvalidInput(
                f"withWatermark: the {whose} already has a watermark on `{present.column}`; as in Spark, it cannot "
                "have a second one",
                hint="declare the other delay on the stream before that watermark"
                if before is None
                else "group by that column, or drop it before the new watermark, with .sql(…) or .drop(…)",
            )
        if idle is not None and duration_ms(idle) <= 0:
            raise InvalidInput(f"withWatermark: idle={idle!r}, expected a duration longer than zero")
        if late not in ("drop", "quarantine", "keep"):
            raise InvalidInput(f"withWatermark: late={late!r}, expected 'drop', 'quarantine' or 'keep'")
        found = column(self.schema, name, "withWatermark")
        if not (pa.types.is_timestamp(found.type) or pa.types.is_date(found.type)):
            raise InvalidInput(f"withWatermark: column `{name}` is {found.type}, expected a timestamp")
        origin = _source_of(self._node) if before is None else before.operator.name
        key = f"{origin}.{name}"
        if isinstance(self._node, Union) and present is not None and not again:
            raise InvalidInput(
                f"withWatermark: the streams of the union already have a watermark on `{present.column}`",
                hint="set the watermark on the streams or on the union, not on both",
            )
        node = Watermark(
            self.schema,
            EventTime(key, name, late),  # type: ignore[arg-type]
            windows=self._node.windows,
            parent=self._node,
            name=key,
            column=name,
            delay_ms=interval_ms(delay),
            delay=" ".join(delay.split()) if isinstance(delay, str) else duration_text(interval_ms(delay)),
            idle_ms=None if idle is None else duration_ms(idle),
            max_ahead_ms=None if ahead is None else duration_ms(ahead),
        )
        return self._add(node, "source" if before is None else "operator", origin)

    def _passes_on(self, present: EventTime, name: str, delay: Any) -> bool:
        """Whether an operator passes the event time on, so that another delay may follow."""
        is_passed = nearest_operator(self._node) is not None and not is_declared_here(self._node)
        return (
            is_passed
            and name in present.names
            and self._pipeline.watermarks[present.watermark].delay_ms != interval_ms(delay)
        )

    def _add(self, node: Watermark, what: str, origin: str) -> Watermark:
        """Add a watermark, or return the one that is the same. The second delay of a column is `source.ts#2`."""
        known = [one for one in self._pipeline.watermarks.values() if one.name.partition("#")[0] == node.name]
        same = next((one for one in known if one.is_as(node)), None)
        if same is not None:
            return same
        if any(one.delay_ms == node.delay_ms for one in known):
            raise InvalidInput(
                f"{what} `{origin}` already has a watermark on `{node.column}` with this delay, after other steps or "
                "with another `late`, `idle` or `maxAhead`",
                hint="use the stream that has the watermark twice",
            )
        key = f"{node.name}#{len(known) + 1}" if known else node.name
        made = replace(node, name=key, event_time=EventTime(key, node.column, node.late))
        self._pipeline.watermarks[key] = made
        return made

    def unionByName(self, other: Stream, allowMissingColumns: bool = False) -> Stream:
        """Return the rows of both streams as one stream, matching columns by name. Spark: `unionByName`.

        Columns are in the order of this stream and must have the same types. With `allowMissingColumns=True` a column
        that one stream lacks is null in its rows. The event time must be the same column in both streams, or be set on
        the union. The watermark is the lower one of the two, so a source without rows holds it back; see `idle` in
        `withWatermark`. Rows of a key come in plan order, source by source in the order of `p.read`. A row that an
        operator emitted comes at the place of the row that it was emitted for.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("visits")
        >>> web = p.read(tm.Rows("user string, page string"), name="web")
        >>> app = p.read(tm.Rows("page string, user string"), name="app")
        >>> web.unionByName(app).schema.names
        ['user', 'page']
        """
        if not isinstance(other, Stream):
            raise InvalidInput(f"unionByName: expected a stream, found {other!r}")
        return Stream(
            self._pipeline, union(self._pipeline, self._node, other._pipeline, other._node, allowMissingColumns)
        )

    def groupBy(self, *columns: str | Windows | list[str | Windows]) -> GroupedStream[Stream]:
        """Group the stream by key columns. Spark: `groupBy`.

        Give column names, as arguments or as one list, and at most one `tm.window(…)`, `tm.session_window(…)` or column
        of windows from an upstream operator. Columns may have any type, including structs, lists and maps. Maps are
        equal regardless of the order of their entries. Null is a key of its own.
        """
        only = columns[0] if len(columns) == 1 else None
        return self._by(only if isinstance(only, list) else columns, "groupBy")

    def _by(self, columns: Sequence[Any], method: str) -> GroupedStream[Stream]:
        """Return the grouped stream. `method` is the method that the user called."""
        given = tuple(self._given(one) for one in columns)
        if not given:
            raise InvalidInput(f"{method}: found no column, expected at least one")
        places = [place for place, one in enumerate(given) if isinstance(one, Windows)]
        if len(places) > 1:
            raise InvalidInput(f"{method}: found {len(places)} windows, expected at most one")
        names = tuple(name for name in given if not isinstance(name, Windows))
        for name in names:
            if not isinstance(name, str):
                raise InvalidInput(f"{method}: expected column names or tm.window(…), found {name!r}")
            column(self.schema, name, method)
        if len(set(names)) < len(names):
            raise InvalidInput(f"{method}: a column occurs twice: {', '.join(names)}")
        window = self._windows(given[places[0]], places[0], names, method) if places else None
        event_time = self._node.event_time
        if event_time is not None:
            # The name that rows are grouped by comes first: the window's, else that of a key column.
            by = ([window[0].column] if window else [], names)
            first = min(event_time.names, key=lambda name: [name not in some for some in by])
            event_time = event_time.among(dict.fromkeys((first, *event_time.names)))

        def attach(operator: Operator, streams: Sequence[Grouped]) -> Stream:
            return Stream(self._pipeline, self._pipeline.add_operator(operator, streams))

        return GroupedStream(Grouped(self._pipeline, self._node, event_time, names, window), attach)

    def _given(self, key: Any) -> Any:
        """Return the window column that `key` names, or `key` itself."""
        return GivenWindow(key) if isinstance(key, str) and key in self._node.windows else key

    def _windows(self, window: Any, place: int, names: Sequence[str], method: str) -> tuple[Windows, int]:
        what, made = {
            Window: ("tm.window", WINDOW),
            GivenWindow: (method, None),
            SessionWindow: ("tm.session_window", SESSION),
        }[type(window)]
        found = column(self.schema, window.column, what)
        if not (pa.types.is_timestamp(found.type) or window.column in self._node.windows):
            expected = "expected a timestamp, or windows as .agg(…) emits them"
            raise InvalidInput(f"{what}: column `{window.column}` is {type_ddl(found.type)}, {expected}")
        if made in names:
            raise InvalidInput(
                f"{method}: {what} makes the column `{made}`, which is also a key column",
                hint="rename the key column with .sql",
            )
        return window, place

    def dropDuplicates(self, subset: Sequence[str] | None = None, *, name: str | None = None) -> Stream:
        """Keep the first row of each combination of the columns in `subset`, by default of all columns.

        Spark: `dropDuplicates` and `distinct()`. See `GroupedStream.dropDuplicates`.
        """
        method = "dropDuplicates"
        return self._by(_names(method, subset, self.schema), method).dropDuplicates(name=name)

    def dropDuplicatesWithinWatermark(self, subset: Sequence[str] | None = None, *, name: str | None = None) -> Stream:
        """Like `dropDuplicates`, but keys are removed after the watermark's delay.

        See `GroupedStream.dropDuplicatesWithinWatermark`.
        """
        method = "dropDuplicatesWithinWatermark"
        return self._by(_names(method, subset, self.schema), method).dropDuplicatesWithinWatermark(name=name)

    def write(self, sink: Any, name: str | None = None) -> Stream:
        """Write the stream to a sink, such as `tm.Parquet(path)` or `tm.Json(path)`, and return the stream.

        Each row gets two columns: `_batch_id`, the number of its batch, and `_seq`, its place in the batch. So the
        latest row of a key is the first by `_batch_id` and `_seq`, both descending. `name` is unique in the pipeline.
        It defaults to the name of the nearest upstream operator, or to "output".
        """
        operator = nearest_operator(self._node)
        chosen = name or (operator.operator.name if operator is not None else "output")
        if not (hasattr(sink, "stage") and hasattr(sink, "apply")):
            raise InvalidInput(f"write: expected a sink such as tm.Parquet(path), found {sink!r}")
        sink.check(self.schema)
        return self._end(sink, chosen)

    def foreachBatch(self, fn: Callable[[pa.Table, int], Any], *, name: str = "foreach-batch") -> Stream:
        """Call `fn(table, batch_id)` for each batch on the driver, after the commit and in order. Return the stream.

        `table` is a `pyarrow.Table` with the batch's rows of this stream in canonical order, followed by the columns
        `_batch_id` and `_seq` that every sink gets; it may be empty. `batch_id` is the version. After a promotion or a
        rewind, a call may also have rows of other versions, with their own `_batch_id`. `fn` is called at least once
        for each batch. If a run dies or `fn` raises, the next run calls `fn` again for that batch before it continues.
        So `fn` must be idempotent for a `batch_id`. If `fn` raises, the batch stays committed and the run fails with
        the traceback. Only the branch `main` calls `fn`. The rows stay in the repository: `r.outputs(sink=name)`.
        Spark: `foreachBatch`.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("printing")
        >>> rows = p.read(tm.Rows("k string"))
        >>> _ = rows.foreachBatch(lambda table, batch_id: print(batch_id, table.column("k").to_pylist()))
        >>> _ = tm.testing.Tester(p).batch(["a", "b"])
        0 ['a', 'b']
        """
        return self._end(ForeachBatch(fn), name)

    def _end(self, sink: Any, name: str) -> Stream:
        check_name(name, "sink")
        if name in self._pipeline.sinks:
            raise InvalidInput(
                f"pipeline `{self._pipeline.name}` already has a sink `{name}`",
                hint="give this one another name: name=…",
            )
        for added in ADDED:
            if added in self.schema.names:
                raise InvalidInput(f"sink `{name}`: the stream has a column `{added}`, which Tidemill adds itself")
        self._pipeline.sinks[name] = Write(name, self._node, sink)
        return self

    def _stateless(self, step: StatelessStep) -> Stream:
        schema = step.output(self.schema)
        event_time = self._node.event_time
        if event_time is not None:
            event_time = event_time.among(step.carried(self.schema, schema, event_time.names))
        windows = frozenset(name for one in self._node.windows for name in step.carried(self.schema, schema, (one,)))
        node = Stateless(schema, event_time, windows=windows, parent=self._node, step=step)
        return Stream(self._pipeline, node)

    if not TYPE_CHECKING:  # otherwise mypy would accept every name

        def __getattr__(self, name: str) -> Any:
            raise missing_name("a stream", name, OF_STREAMS)

    def __repr__(self) -> str:
        return f"Stream({', '.join(f'{f.name}: {f.type}' for f in self.schema)})"


def _names(method: str, columns: Sequence[str] | None, schema: pa.Schema) -> list[str]:
    if isinstance(columns, str):
        raise InvalidInput(f"{method}: expected a list of columns, found {columns!r}", hint=f"{method}([{columns!r}])")
    if columns is None:
        return list(schema.names)
    if not isinstance(columns, Iterable) or not all(isinstance(column, str | Windows) for column in columns):
        raise InvalidInput(f"{method}: expected a list of columns, found {columns!r}")
    chosen = list(dict.fromkeys(columns))
    if not chosen:
        raise InvalidInput(
            f"{method}: found an empty list, expected the names of columns",
            hint=f"{method}() takes all columns",
        )
    return chosen


def _source_of(node: Node) -> str:
    """Return the name of the source of a node's rows, `a+b` for a union."""
    if isinstance(node, Read):
        return node.source
    return "+".join(dict.fromkeys(_source_of(parent) for parent in parents_of(node)))

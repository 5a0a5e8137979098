"""`Stream`: the fluent value that users write. Everything is checked where it is written.

A stream is immutable and may be used more than once. No work is done here: `pipeline/job.py` compiles what streams
have added to the pipeline's graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import InvalidInput
from ..names import BATCH_ID, check_name
from ..operators.contract import Operator, Windows, column
from ..operators.session_window import SESSION, SessionWindow
from ..operators.window import WINDOW, GivenWindow, Window
from ..schema import type_ddl
from ..sinks.foreach import ForeachBatch
from ..sources.contract import Step
from ..sources.steps import Drop, MapBatches, Select, Sql
from ..units import duration_ms, interval_ms
from .graph import Graph
from .grouped import GroupedStream
from .nodes import EventTime, Node, Read, Stateless, Union, Watermark, Write, nearest_operator, parents_of
from .pyspark_names import OF_STREAMS, missing
from .union import union


def _either(ours: str, given: Any, sparks: str, named: Any) -> Any:
    """An argument that PySpark calls otherwise."""
    if (given is None) == (named is None):
        found = "neither" if given is None else "both"
        raise InvalidInput(f"withWatermark: expected `{ours}` (PySpark: `{sparks}`), found {found}")
    return named if given is None else given


class Stream:
    """Rows on their way through a pipeline; immutable, may be used more than once."""

    def __init__(self, pipeline: Graph, node: Node) -> None:
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

        Refused behind a keyed operator: rows there come in no fixed blocks.
        """
        if nearest_operator(self._node) is not None:
            raise InvalidInput(
                "map_batches behind a keyed operator is refused: what it is given would depend on the number of tasks",
                hint="use .sql, or map_batches before .groupBy",
            )
        return self._stateless(MapBatches(fn, schema))

    def withWatermark(
        self,
        column: str | None = None,
        delay: str | int | timedelta | None = None,
        late: str = "drop",
        idle: str | timedelta | None = None,
        *,
        eventTime: str | None = None,
        delayThreshold: str | None = None,
    ) -> Stream:
        """Event time is `column`; rows more than `delay` behind the greatest one seen are late. Spark: `withWatermark`.

        `late`: "drop" (counted), "quarantine" (kept aside) or "keep" (they reach the function). Only operators that
        use event time look at lateness. `idle` ("15 minutes"): in a batch or sweep without event times of this stream,
        so long after the last one with some (by batch time), the watermark follows the batch time less `delay`, and in
        a union it does not stay behind the others. Ours: Spark's waits for ever.

        The event time goes on with the column, also under another name or several (`.sql("SELECT ts AS at, …")`), and
        ends where a step leaves the column out or computes it anew, as in Spark; then a new one may be set. Behind
        `.map_batches` it is the column of the same name, of timestamps or dates; of several names only the first goes
        through it.

        Behind a keyed operator it is a new one, over what the operator emits: where its output has an event time of its
        own (a window, or that of its input), that stays. A second one on a stream that has one is refused, as in Spark.
        `eventTime` and `delayThreshold` are PySpark's names of `column` and `delay`.
        """
        name = _either("column", column, "eventTime", eventTime)
        behind = _either("delay", delay, "delayThreshold", delayThreshold)
        return Stream(self._pipeline, self._watermark(name, behind, late, idle))

    def _watermark(self, name: str, delay: str | int | timedelta, late: str, idle: str | timedelta | None) -> Watermark:
        before = nearest_operator(self._node)
        if self._node.event_time is not None and not isinstance(self._node, Union):
            whose = "stream" if before is None else f"output of operator `{before.operator.name}`"
            raise InvalidInput(
                f"withWatermark: the {whose} has a watermark already, on "
                f"`{self._node.event_time.column}`; as in Spark it cannot be defined again",
                hint="group by that column, or drop it before the new watermark: .sql(…), .drop(…)",
            )
        if idle is not None and duration_ms(idle) <= 0:
            raise InvalidInput(f"withWatermark: idle={idle!r}, expected more than zero")
        if late not in ("drop", "quarantine", "keep"):
            raise InvalidInput(f"withWatermark: late={late!r}, expected 'drop', 'quarantine' or 'keep'")
        found = column(self.schema, name, "withWatermark")
        if not (pa.types.is_timestamp(found.type) or pa.types.is_date(found.type)):
            raise InvalidInput(f"withWatermark: column `{name}` is {found.type}, expected a timestamp")
        origin = _source_of(self._node) if before is None else before.operator.name
        key = f"{origin}.{name}"
        if isinstance(self._node, Union) and self._node.event_time is not None:
            raise InvalidInput(
                f"withWatermark: the streams of the union have watermarks already, on `{self._node.event_time.column}`",
                hint="set it on them, or on the union, not on both",
            )
        node = Watermark(
            self.schema,
            EventTime(key, name, late),  # type: ignore[arg-type]
            windows=self._node.windows,
            parent=self._node,
            name=key,
            column=name,
            delay_ms=interval_ms(delay),
            idle_ms=None if idle is None else duration_ms(idle),
        )
        known = self._pipeline.watermarks.get(key)
        if known is not None and known.is_as(node):
            return known
        if known is not None:
            what = "source" if before is None else "operator"
            raise InvalidInput(
                f"{what} `{origin}` has a watermark on `{name}` already, behind other steps or with another delay, "
                "`late` or `idle`: use that stream twice"
            )
        self._pipeline.watermarks[key] = node
        return node

    def unionByName(self, other: Stream, allowMissingColumns: bool = False) -> Stream:
        """The rows of both streams as one, columns by name, in the order of this one's. Spark: `unionByName`.

        The watermark is the least of theirs: a source that has not delivered yet holds it back (see `idle=` in
        `withWatermark`). Types must be the same, and event time a column that is it in both, or be set on the union.
        `allowMissingColumns`: a column that one of them lacks is null there. Rows of a key come in plan order, source
        by source in the order of `p.read`. Not behind a keyed operator yet.

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
        """The stream by key: columns, one by one or as a list, and at most one `tm.window(…)`, `tm.session_window(…)`
        or column of windows that an operator before has emitted. Columns are of any type, structs, lists and maps too
        (maps are equal whatever the order of their entries), and a null is a key of its own. Spark: `groupBy`."""
        only = columns[0] if len(columns) == 1 else None
        return self._by(only if isinstance(only, list) else columns, "groupBy")

    def _by(self, columns: Sequence[Any], method: str) -> GroupedStream[Stream]:
        """The stream by key; `method` is what the user called."""
        given = tuple(self._given(one) for one in columns)
        if not given:
            raise InvalidInput(f"{method} needs at least one column")
        places = [place for place, one in enumerate(given) if isinstance(one, Windows)]
        if len(places) > 1:
            raise InvalidInput(f"{method}: found {len(places)} windows, expected at most one")
        names = tuple(name for name in given if not isinstance(name, Windows))
        for name in names:
            if not isinstance(name, str):
                raise InvalidInput(f"{method}: expected column names or tm.window(…), found {name!r}")
            column(self.schema, name, method)
        if len(set(names)) < len(names):
            raise InvalidInput(f"{method} names a column twice: {', '.join(names)}")
        window = self._windows(given[places[0]], places[0], names, method) if places else None
        event_time = self._node.event_time
        if event_time is not None:
            # The name that rows are grouped by comes first: the window's, else that of a key column.
            by = ([window[0].column] if window else [], names)
            first = min(event_time.names, key=lambda name: [name not in some for some in by])
            event_time = event_time.among(dict.fromkeys((first, *event_time.names)))

        def attach(operator: Operator) -> Stream:
            return Stream(self._pipeline, self._pipeline.add_operator(operator, self._node, event_time, names, window))

        return GroupedStream(attach)

    def _given(self, key: Any) -> Any:
        """A column of windows, where `key` names one."""
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
                f"{method}: `{made}` is the column that {what} makes, and a key column beside it",
                hint="rename the key column with .sql",
            )
        return window, place

    def dropDuplicates(self, subset: Sequence[str] | None = None, *, name: str | None = None) -> Stream:
        """The first row of each combination of `subset`; without it, of all columns. Spark: the same, and `distinct()`.
        See `GroupedStream`."""
        method = "dropDuplicates"
        return self._by(_names(method, subset, self.schema), method).dropDuplicates(name=name)

    def dropDuplicatesWithinWatermark(self, subset: Sequence[str] | None = None, *, name: str | None = None) -> Stream:
        """As `dropDuplicates`, with keys forgotten by the watermark's delay. See `GroupedStream`."""
        method = "dropDuplicatesWithinWatermark"
        return self._by(_names(method, subset, self.schema), method).dropDuplicatesWithinWatermark(name=name)

    def write(self, sink: Any, name: str | None = None) -> Stream:
        """Ends the stream in a sink (`tm.Parquet`, `tm.Json`); each row carries `_batch_id`. Returns the stream.

        `name` defaults to the operator's, else "output", and is unique in the pipeline.
        """
        operator = nearest_operator(self._node)
        chosen = name or (operator.operator.name if operator is not None else "output")
        if not (hasattr(sink, "encode") and hasattr(sink, "publish")):
            raise InvalidInput(f"write: expected a sink such as tm.Parquet(path), found {sink!r}")
        sink.check(self.schema)
        return self._end(sink, chosen)

    def foreachBatch(self, fn: Callable[[pa.Table, int], Any], *, name: str = "foreach-batch") -> Stream:
        """`fn(table, batch_id)` once a batch: on the driver, after the commit, in order. Spark: `foreachBatch`.

        `table` is a `pyarrow.Table` of what the batch made of this stream, in canonical order, also where that is
        nothing; `batch_id` is the version. At least once: a run that dies, or in which `fn` raises, calls it again in
        the next run, before that goes on; so what `fn` does for one `batch_id` twice must be as done once. Where it
        raises, the batch stays committed and the run fails with its traceback. Only the branch main calls it. The rows
        are kept in the repository: `r.outputs(sink=name)`. Returns the stream.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("printing")
        >>> rows = p.read(tm.Rows("k string"))
        >>> _ = rows.foreachBatch(lambda table, batch_id: print(batch_id, table.column("k").to_pylist()))
        >>> _ = tm.testing.Tester(p).batch(["a", "b"])
        0 ['a', 'b']
        """
        return self._end(ForeachBatch(fn, self.schema), name)

    def _end(self, sink: Any, name: str) -> Stream:
        check_name(name, "sink")
        if name in self._pipeline.sinks:
            raise InvalidInput(f"pipeline `{self._pipeline.name}` has a sink `{name}` already: give this one a name")
        if BATCH_ID in self.schema.names:
            raise InvalidInput(f"sink `{name}`: the stream has a column `{BATCH_ID}`, which Tidemill adds itself")
        self._pipeline.sinks[name] = Write(name, self._node, sink)
        return self

    def _stateless(self, step: Step) -> Stream:
        schema = step.output(self.schema)
        event_time = self._node.event_time
        if event_time is not None:
            event_time = event_time.among(step.carried(self.schema, schema, event_time.names))
        windows = frozenset(name for one in self._node.windows for name in step.carried(self.schema, schema, (one,)))
        node = Stateless(schema, event_time, windows=windows, parent=self._node, step=step)
        return Stream(self._pipeline, node)

    if not TYPE_CHECKING:  # else every name would be one

        def __getattr__(self, name: str) -> Any:
            raise missing("a stream", name, OF_STREAMS)

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
    """The source that a node's rows come from; of a union `a+b`."""
    if isinstance(node, Read):
        return node.source
    return "+".join(dict.fromkeys(_source_of(parent) for parent in parents_of(node)))

"""`GroupedStream`: one method a keyed operator, each a line. An operator that is new adds its method here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import InvalidInput, repr_of
from ..operators.aggregate import AggregateOperator
from ..operators.apply_batch import ApplyBatchOperator, Step
from ..operators.contract import Operator
from ..operators.deduplicate import DeduplicateOperator
from ..operators.functions import Aggregate
from ..operators.groups_with_state import Group, GroupsWithStateOperator
from ..operators.map_with_state import MapWithStateOperator, StateSpec
from ..operators.pandas_with_state import PandasWithStateOperator
from ..operators.transform_with_state import TransformWithStateOperator
from .pyspark_names import OF_GROUPS, missing

S = TypeVar("S")
"""The stream that an operator's output is: `pipeline.stream.Stream`."""


class GroupedStream(Generic[S]):
    """A stream by key: each method is a keyed operator with its own state, and returns its output as a stream."""

    def __init__(self, attach: Callable[[Operator], S]) -> None:
        self._attach = attach

    def mapWithState(
        self,
        spec: StateSpec,
        stateSchema: Any,
        outputSchema: Any,
        value: str | None = None,
        name: str | None = None,
        on_error: str = "fail",
    ) -> S:
        """A function called once a row with the state of its key (see `tm.StateSpec`). Spark: `mapWithState`.

        `stateSchema`, `outputSchema`: DDL, `pyarrow.Schema`, `StructType` or a dataclass; one bare type is a scalar.
        `value`: the column that the function is given, else the whole row.
        `on_error`: "fail", or "quarantine": where the function raises, the key's rows of the batch are put aside, and
        its state stays as it was.
        """
        chosen = "map-with-state" if name is None else name
        return self.add(MapWithStateOperator(chosen, spec, stateSchema, outputSchema, value, on_error))

    def mapGroupsWithState(
        self,
        func: Callable[..., Any],
        outputSchema: Any,
        stateSchema: Any,
        timeoutConf: str = "NoTimeout",
        initialState: Any = None,
        *,
        name: str | None = None,
        on_error: str = "fail",
    ) -> S:
        """`func(key, rows, state) -> row`, called once a batch for each key that has rows, and where it timed out.

        `rows`: an iterator of `tm.Row`; `state`: a `tm.GroupState`. `initialState`: what keys have before the first
        batch (as `StateSpec.initialState`); in that each of them is called, also without rows. Spark:
        `mapGroupsWithState`.
        """
        chosen = "map-groups-with-state" if name is None else name
        group = Group(chosen, "mapGroupsWithState", func, timeoutConf, "update", on_error)
        return self.add(GroupsWithStateOperator(group, "one", outputSchema, stateSchema, initialState))

    def flatMapGroupsWithState(
        self,
        func: Callable[..., Any],
        outputSchema: Any,
        stateSchema: Any,
        outputMode: str = "append",
        timeoutConf: str = "NoTimeout",
        initialState: Any = None,
        *,
        name: str | None = None,
        on_error: str = "fail",
    ) -> S:
        """As `mapGroupsWithState`, with any number of rows a call: `func` returns or yields them.

        Spark: `flatMapGroupsWithState` (Scala).
        """
        chosen = "flat-map-groups-with-state" if name is None else name
        group = Group(chosen, "flatMapGroupsWithState", func, timeoutConf, outputMode, on_error)
        return self.add(GroupsWithStateOperator(group, "many", outputSchema, stateSchema, initialState))

    def applyInPandasWithState(
        self,
        func: Callable[..., Any],
        outputStructType: Any,
        stateStructType: Any,
        outputMode: str,
        timeoutConf: str,
        *,
        name: str | None = None,
        on_error: str = "fail",
    ) -> S:
        """`func(key: tuple, pdfs: Iterator[pandas.DataFrame], state) -> Iterator[pandas.DataFrame]`, as in PySpark.

        A function that was written for PySpark runs unchanged. Needs pandas 2. Spark: `applyInPandasWithState`.
        """
        chosen = "apply-in-pandas-with-state" if name is None else name
        group = Group(chosen, "applyInPandasWithState", func, timeoutConf, outputMode, on_error)
        return self.add(PandasWithStateOperator(group, outputStructType, stateStructType))

    def transformWithState(
        self,
        statefulProcessor: Any,
        outputStructType: Any,
        outputMode: str,
        timeMode: str,
        initialState: Any = None,
        eventTimeColumnName: str = "",
        *,
        name: str | None = None,
        on_error: str = "fail",
    ) -> S:
        """A `StatefulProcessor` (PySpark's or `tm.StatefulProcessor`): called once a key with its rows, once a timer.
        Spark: `transformWithState`, PySpark's form with `Row`s.

        `outputStructType`: DDL, `pyarrow.Schema` or `StructType` of what it yields. `outputMode`: "append" or "update",
        which change nothing here. `timeMode`: "None", "ProcessingTime" (batch time) or "EventTime" (the watermark).
        `eventTimeColumnName`: the output column that is the event time of what reads it. `on_error`: "fail", or
        "quarantine": where a call for a key's rows or timers raises, its rows of the batch are put aside, and all its
        variables and timers stay as they were.
        """
        chosen = "transform-with-state" if name is None else name
        return self.add(
            TransformWithStateOperator(
                chosen,
                statefulProcessor,
                outputStructType,
                outputMode,
                timeMode,
                initialState,
                eventTimeColumnName,
                on_error=on_error,
            )
        )

    def transformWithStateInPandas(
        self,
        statefulProcessor: Any,
        outputStructType: Any,
        outputMode: str,
        timeMode: str,
        initialState: Any = None,
        eventTimeColumnName: str = "",
        *,
        name: str | None = None,
        on_error: str = "fail",
    ) -> S:
        """As `transformWithState`, with pandas frames in and out (pandas 2). Spark: `transformWithStateInPandas`."""
        chosen = "transform-with-state-in-pandas" if name is None else name
        return self.add(
            TransformWithStateOperator(
                chosen,
                statefulProcessor,
                outputStructType,
                outputMode,
                timeMode,
                initialState,
                eventTimeColumnName,
                rows_as="frames",
                on_error=on_error,
            )
        )

    def dropDuplicates(self, *, name: str | None = None) -> S:
        """The first row of each key; later ones vanish. Spark: `dropDuplicates` (`stream.dropDuplicates([…])`).

        Under a watermark late rows are dropped, and where the event time is a key column, a key is forgotten when the
        watermark reaches it; else keys are kept for ever.
        """
        return self.add(DeduplicateOperator("drop-duplicates" if name is None else name))

    def dropDuplicatesWithinWatermark(self, *, name: str | None = None) -> S:
        """The first row of each key; the key is forgotten when the watermark reaches that row's event time plus the
        delay, so duplicates at most so far apart are found. Spark: `dropDuplicatesWithinWatermark`."""
        chosen = "drop-duplicates-within-watermark" if name is None else name
        return self.add(DeduplicateOperator(chosen, within_watermark=True))

    def agg(self, *unnamed: Any, name: str | None = None, outputMode: str | None = None, **functions: Aggregate) -> S:
        """Running aggregates, computed in Rust: `.agg(n=tm.count(), total=tm.sum("x"))`. Spark: `groupBy().agg()`.

        By `tm.window(…)`, "append" emits each window once, when the watermark has passed its end, and "update" each
        window that a batch changed; either forgets it then. So it is by the event time of `.withWatermark`, where that
        is a key column. By `tm.session_window(…)` there is only "append", without any of them only "update".
        """
        if unnamed:
            raise InvalidInput(
                f"agg: found {repr_of(unnamed[0])}, expected aggregates by the names of their columns",
                hint='.agg(n=tm.count(), total=tm.sum("x"))',
            )
        for parameter, given in (("name", name), ("outputMode", outputMode)):
            if isinstance(given, Aggregate):
                raise InvalidInput(
                    f"agg: no aggregate can be called `{parameter}`, which is an argument; found {parameter}={given}",
                    hint=f"give another name, and rename it: .sql('SELECT other AS \"{parameter}\", … FROM rows')",
                )
        return self.add(AggregateOperator.declare("agg" if name is None else name, functions, outputMode))

    def apply_batch(
        self, step: Step, stateSchema: Any, outputSchema: Any, *, name: str | None = None, on_error: str = "fail"
    ) -> S:
        """A function over whole Arrow tables, called once a task and batch with all its keys. Spark has none such.

        `step(rows, state, context) -> (state, output)`. `rows` are the batch's rows of some keys, in plan order;
        `state` has the key and state columns of those of these keys that have a state. What it returns as state
        replaces it: a key that is missing there loses its state. `output` (or None) has the columns of `outputSchema`,
        the key columns among them. `context` has `batch_time_ms` and `watermark_ms`. Which keys come together depends
        on the number of tasks, so the result must be a function of each key by itself. `on_error`: "fail", or
        "quarantine": where a call fails, calls for half of its keys each are made instead, and so on, until the keys
        that fail are alone; their rows of the batch are put aside, and their states stay as they were.

        >>> import pyarrow as pa, tidemill as tm
        >>> def add(rows, state, context):
        ...     totals = pa.concat_tables([state, rows.rename_columns(["k", "total"])])
        ...     totals = totals.group_by("k").aggregate([("total", "sum")]).rename_columns(["k", "total"])
        ...     return totals, totals
        >>> p = tm.Pipeline("totals")
        >>> rows = p.read(tm.Rows("k string, v long"))
        >>> _ = rows.groupBy("k").apply_batch(add, stateSchema="total long", outputSchema="k string, total long")
        >>> t = tm.testing.Tester(p)
        >>> _ = t.batch([("a", 1), ("b", 2)])
        >>> t.batch([("a", 10)]).outputs
        [('a', 11)]
        """
        chosen = "apply-batch" if name is None else name
        return self.add(ApplyBatchOperator(chosen, step, stateSchema, outputSchema, on_error))

    if not TYPE_CHECKING:  # else every name would be one

        def __getattr__(self, name: str) -> Any:
            raise missing("a stream by key", name, OF_GROUPS)

    def add(self, operator: Operator) -> S:
        """The output of any operator that keeps to `tidemill.operators.contract`; `InvalidInput` for a name taken."""
        return self._attach(operator)

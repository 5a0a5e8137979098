"""`GroupedStream`: one method for each keyed operator. A new operator adds its method here.

A method imports its operator, so that a process imports only the operators of its pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import InvalidInput, repr_of
from ..operators.functions import Aggregate, NamedAggregate, by_output
from ..operators.groups_with_state import GroupStateOperator, GroupsWithStateOperator
from ..operators.map_with_state import MapWithStateOperator, StateSpec
from ..operators.pandas_with_state import PandasWithStateOperator
from ..operators.transform_with_state import TransformWithStateOperator
from .graph import Grouped
from .pyspark_names import OF_GROUPS, missing_name

if TYPE_CHECKING:
    from ..operators.apply_batch import Step
    from ..operators.contract import Operator
    from ..operators.map_with_state import StateSpec

S = TypeVar("S")
"""The stream of an operator's output: `pipeline.stream.Stream`."""


class GroupedStream(Generic[S]):
    """A stream grouped by key. Each method adds a keyed operator with its own state and returns its output as a stream.

    Every method takes `name`, which identifies the operator's state. The default is the method's name with hyphens,
    such as `map-with-state`. Names are unique in a pipeline: a second operator of a kind must be named.

    `on_error` says what happens when your function raises. "fail", the default, fails the batch. "quarantine" moves
    the key's rows of this batch to quarantine, leaves its state as it was, and processes the other keys.
    """

    def __init__(self, grouped: Grouped, attach: Callable[[Operator, Sequence[Grouped]], S]) -> None:
        self._grouped, self._attach = grouped, attach

    def mapWithState(
        self,
        spec: StateSpec,
        stateSchema: Any,
        outputSchema: Any,
        value: str | None = None,
        name: str | None = None,
        on_error: str = "fail",
    ) -> S:
        """Call a function once for each row, with the state of the row's key. Spark: `mapWithState`.

        `spec` is `tm.StateSpec.function(fn)`, with its timeout and initial state.
        `stateSchema` and `outputSchema` are DDL, a `pyarrow.Schema`, a `StructType` or a dataclass. A single type such
        as `"double"` makes the state or output a scalar. `value` names the column that the function receives; without
        it the function receives the whole row.

        >>> import tidemill as tm
        >>> def total(key, value, state):
        ...     state.update((state.getOption or 0) + value)
        ...     return (key, state.get)
        >>> p = tm.Pipeline("totals")
        >>> rows = p.read(tm.Rows("k string, v long")).groupBy("k")
        >>> _ = rows.mapWithState(tm.StateSpec.function(total), "long", "k string, total long", value="v")
        >>> tm.testing.Tester(p).batch([("a", 1), ("a", 2)]).outputs
        [('a', 1), ('a', 3)]
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
        """Call `func(key, rows, state) -> row` once per batch for each key that has rows or has timed out.

        `rows` is an iterator of `tm.Row`, and `state` is a `tm.GroupState`. `timeoutConf` is "NoTimeout",
        "ProcessingTimeTimeout" (batch time) or "EventTimeTimeout" (the watermark). `initialState` is the state of keys
        before the first batch, as in `StateSpec.initialState`. In the first batch `func` is called for each of these
        keys, even without rows. Spark: `mapGroupsWithState`.
        """

        chosen = "map-groups-with-state" if name is None else name
        group = GroupStateOperator(chosen, "mapGroupsWithState", func, timeoutConf, "update", on_error)
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
        """Like `mapGroupsWithState`, but `func` returns or yields any number of rows.

        `outputMode` is "append" or "update". Spark: `flatMapGroupsWithState` in Scala.
        """

        chosen = "flat-map-groups-with-state" if name is None else name
        group = GroupStateOperator(chosen, "flatMapGroupsWithState", func, timeoutConf, outputMode, on_error)
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
        """Call a function written for PySpark's `applyInPandasWithState`, unchanged. Needs pandas 2.

        The function is `func(key: tuple, pdfs: Iterator[pandas.DataFrame], state) -> Iterator[pandas.DataFrame]`. It is
        called once per batch for each key that has rows or has timed out. Spark: `applyInPandasWithState`.
        """

        chosen = "apply-in-pandas-with-state" if name is None else name
        group = GroupStateOperator(chosen, "applyInPandasWithState", func, timeoutConf, outputMode, on_error)
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
        """Run a `StatefulProcessor`, PySpark's or Tidemill's: one call per key with its rows, one call per timer.

        `outputStructType` is the schema of its output: DDL, a `pyarrow.Schema` or a `StructType`. `outputMode` is
        "append" or "update"; both behave the same here. `timeMode` is "None", "ProcessingTime" (batch time) or
        "EventTime" (the watermark). `eventTimeColumnName` names the output column that downstream operators use as
        event time. With `on_error="quarantine"`, a failing call for a key's rows or timers leaves all variables and
        timers of the key as they were. Spark: `transformWithState`, PySpark's form with `Row`s.
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
        """Like `transformWithState`, with pandas frames in and out. Needs pandas 2.

        Spark: `transformWithStateInPandas`.
        """

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
        """Keep the first row of each key and drop later ones. Spark: `dropDuplicates`.

        If the stream has a watermark, late rows are dropped. If the event time is also a key column, a key is removed
        when the watermark reaches its event time. Otherwise keys are kept forever.
        """
        from ..operators.deduplicate import DeduplicateOperator

        return self.add(DeduplicateOperator("drop-duplicates" if name is None else name))

    def dropDuplicatesWithinWatermark(self, *, name: str | None = None) -> S:
        """Keep the first row of each key, and remember the key for the watermark's delay.

        The key is removed when the watermark reaches the row's event time plus the delay. So duplicates are found if
        their event times differ by at most the delay. Spark: `dropDuplicatesWithinWatermark`.
        """
        from ..operators.deduplicate import DeduplicateOperator

        chosen = "drop-duplicates-within-watermark" if name is None else name
        return self.add(DeduplicateOperator(chosen, within_watermark=True))

    def agg(
        self,
        /,
        *columns: NamedAggregate,
        name: str | None = None,
        outputMode: str | None = None,
        **functions: Aggregate,
    ) -> S:
        """Compute running aggregates in Rust: `.agg(n=tm.count(), total=tm.sum("x"))`. Spark: `groupBy().agg()`.

        As in Spark, a column may be named by `.agg(tm.sum("x").alias("total"))`, also `name` or `outputMode`. Columns
        with an alias come first.

        Grouped by `tm.window(…)`, or by the event time of `.withWatermark`, `outputMode` decides what is emitted:

        - "append": each window or event time once, when the watermark has passed its end.
        - "update": each one that the batch changed.

        In both modes the state is removed when the watermark has passed the end. Grouped by `tm.session_window(…)`,
        only "append" is possible. Otherwise only "update" is, and each batch emits the keys that it changed.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("counts")
        >>> _ = p.read(tm.Rows("k string, v long")).groupBy("k").agg(n=tm.count(), total=tm.sum("v"))
        >>> tm.testing.Tester(p).batch([("a", 1), ("a", 2)]).outputs
        [('a', 2, 3)]
        """
        from ..operators.aggregate import AggregateOperator

        for parameter, given in (("name", name), ("outputMode", outputMode)):
            if isinstance(given, Aggregate):
                raise InvalidInput(
                    f"agg: `{parameter}` is an argument of agg and cannot name an aggregate; found {parameter}={given}",
                    hint=f'use an alias, such as .agg(tm.count().alias("{parameter}"))',
                )
        return self.add(
            AggregateOperator.declare("agg" if name is None else name, by_output(columns, functions), outputMode)
        )

    def apply_batch(
        self, step: Step, stateSchema: Any, outputSchema: Any, *, name: str | None = None, on_error: str = "fail"
    ) -> S:
        """Call `step(rows, state, context) -> (state, output)` over Arrow tables, once per task and batch.

        `rows` are the batch's rows of all keys of the task, in plan order. `state` has the key and state columns of
        those keys that have a state. The returned state replaces it: a key that is missing there loses its state.
        `output` has the columns of `outputSchema`, including the key columns, or is None. `context` has `batch_time_ms`
        and `watermark_ms`. Which keys come together depends on the number of tasks, so compute each key by itself.

        With `on_error="quarantine"`, a failing call is repeated for each half of its keys, and so on, until the failing
        keys are found. Spark has no counterpart.

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
        from ..operators.apply_batch import ApplyBatchOperator

        chosen = "apply-batch" if name is None else name
        return self.add(ApplyBatchOperator(chosen, step, stateSchema, outputSchema, on_error))

    if not TYPE_CHECKING:  # otherwise mypy would accept every name

        def __getattr__(self, name: str) -> Any:
            raise missing_name("a grouped stream", name, OF_GROUPS)

    def add(self, operator: Operator, *others: GroupedStream[S]) -> S:
        """Add an operator that implements `tidemill.operators.contract`. A name in use is `InvalidInput`.

        This stream is its first input, `others` are the further ones, in the order of the operator's `ports`. Their
        keys must have equal types.
        """
        for other in others:
            if not isinstance(other, GroupedStream):
                raise InvalidInput(f"add: expected a grouped stream, found {repr_of(other)}", hint="use .groupBy(…)")
        return self._attach(operator, (self._grouped, *(other._grouped for other in others)))

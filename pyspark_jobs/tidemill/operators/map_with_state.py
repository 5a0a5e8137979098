"""`.mapWithState(StateSpec…)`: a user's function that is called for each row with the state of its key.

This module has the specification and its checks. The Rust engine calls the function and keeps the state.
Spark: `org.apache.spark.streaming.StateSpec`, `PairDStreamFunctions.mapWithState` (once `trackStateByKey`).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, cast

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..schema import is_unnamed, to_arrow
from ..state.columns import MapColumns
from ..units import duration_ms
from ..values import dataclass
from .contract import Clock, Declared, Defaults, Handle, Input, OnError, check_on_error, column, key_schema
from .initial import Initial, check_kind

_STATE_MAP = "state"


@dataclass(frozen=True)
class StateSpec:
    """The specification of `mapWithState`: the function and its options. Spark: `StateSpec`.

    Immutable: each method returns a new specification. Invalid options raise `InvalidInput` at once.

    >>> def track(batchTime, key, value, state):
    ...     total = (state.getOption or 0) + (value or 0)
    ...     if not state.isTimingOut:
    ...         state.update(total)
    ...     return (key, total)
    >>> spec = StateSpec.function(track).timeout("30 days")
    >>> spec.timeout_ms
    2592000000
    """

    user_function: Callable[..., Any]
    arguments: int
    timeout_ms: int | None = None
    clock: Clock = "batch"
    initial: Any = None
    ranges: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "initial": None}  # workers read the initial state from the repository

    @staticmethod
    def function(function: Callable[..., Any]) -> StateSpec:
        """Return a specification for a function that is called for each row.

        The function is `f(batchTime, key, value, state)`, `f(key, value, state)` (both as in Spark) or
        `f(value, state)`. Its result is emitted, unless it is None. `batchTime` is an int, ms since the epoch. `state`
        is a `State`. When a key times out, `value` is None and `state.isTimingOut` is true. `InvalidInput` if the
        function cannot be called with 4, 3 or 2 arguments.
        """
        return StateSpec(function, _arguments(function))

    def timeout(self, duration: str | int | timedelta, clock: str = "batch") -> StateSpec:
        """Set the timeout: a key without data for longer than `duration` is called once more, then forgotten.

        `duration` is text such as `"30 days"` or a `timedelta`, above zero. `clock="batch"` (the default) measures
        batch time, as Spark does. `clock="event"`, which Spark lacks, measures event time: the timeout fires when the
        key's latest event time + duration < watermark. Data restarts the timeout even if the state is not updated.
        """
        milliseconds = duration_ms(duration)
        if milliseconds <= 0:
            raise InvalidInput(f"StateSpec.timeout: the duration is {duration!r}, expected more than zero")
        if clock not in ("batch", "event"):
            raise InvalidInput(f"StateSpec.timeout: clock {clock!r}, expected 'batch' or 'event'")
        return dataclasses.replace(self, timeout_ms=milliseconds, clock=cast(Clock, clock))

    def initialState(self, data: Any) -> StateSpec:
        """Set the state that keys have before the first batch. `init` writes it once, as version -1.

        `data` is an Arrow table with the key columns and the state columns (`state` if it has no name of its own), a
        list of (key, state) pairs, or the path of a Parquet file or folder. Each key occurs once.

        A state counts as updated in the first batch. Timeouts are measured from the time of that batch; with
        `clock="event"`, from the watermark as soon as it has moved. The function is not called for a key without data,
        so nothing is emitted for it. Later runs do not read `data` again.
        """
        check_kind(data, "StateSpec.initialState: the state")
        return dataclasses.replace(self, initial=data)

    def numPartitions(self, numPartitions: int) -> StateSpec:
        """Set the number of key ranges of a batch while `tasks` is "auto".

        If several operators set it, the greatest number applies. No result depends on it, and it may change at any
        time. `InvalidInput` if it is not a whole number of at least 1.
        """
        if isinstance(numPartitions, bool) or not isinstance(numPartitions, int) or numPartitions < 1:
            raise InvalidInput(f"StateSpec.numPartitions: {numPartitions!r}, expected a whole number of at least 1")
        return dataclasses.replace(self, ranges=numPartitions)

    def partitioner(self, partitioner: Any) -> StateSpec:
        """Accept a partitioner for compatibility with Spark, and ignore it: keys are distributed by their hash."""
        if not callable(partitioner):
            raise InvalidInput(f"StateSpec.partitioner: expected a function of the key, found {partitioner!r}")
        return self


def _arguments(function: Callable[..., Any]) -> int:
    """Return with how many arguments to call the function: the first of 4, 2 and 3 that its signature accepts."""
    if not callable(function):
        raise InvalidInput(f"StateSpec.function: expected a function, found {function!r}")
    name = getattr(function, "__name__", repr(function))
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return 4
    for arguments in (4, 2, 3):
        try:
            signature.bind(*range(arguments))
        except TypeError:
            continue
        return arguments
    raise InvalidInput(
        f"StateSpec.function: `{name}{signature}` cannot be called with 4, 3 or 2 arguments, "
        "expected `f(batchTime, key, value, state)`, `f(key, value, state)` or `f(value, state)`"
    )


@dataclass(frozen=True)
class MapWithStateOperator(Declared):
    """`.mapWithState(…)` as declared."""

    name: str
    spec: StateSpec
    state_schema: Any
    output_schema: Any
    value: str | None = None
    on_error: Any = "fail"

    def bind(self, given: Input) -> BoundMapWithState:
        """Check the schemas, the value column, and that an event-time timeout has an event time."""
        if not isinstance(self.spec, StateSpec):
            raise InvalidInput(
                f"operator `{self.name}`: mapWithState takes a StateSpec, found {self.spec!r}",
                hint="wrap the function: tm.StateSpec.function(f)",
            )
        if self.value is not None:
            column(given.schema, self.value, f"operator `{self.name}`: `value`")
        if self.spec.timeout_ms is not None and self.spec.clock == "event" and given.event_time is None:
            raise InvalidInput(
                f'operator `{self.name}`: timeout(clock="event") needs a watermark on the stream, found none',
                hint='call .withWatermark("column", "delay") before .groupBy, and keep that column',
            )
        return BoundMapWithState(
            name=self.name,
            input=given,
            spec=self.spec,
            value=self.value,
            state=to_arrow(self.state_schema, unnamed="state"),
            state_unnamed=is_unnamed(self.state_schema),
            state_type=self.state_schema if dataclasses.is_dataclass(self.state_schema) else None,
            output_schema=to_arrow(self.output_schema, unnamed="value"),
            output_unnamed=is_unnamed(self.output_schema),
            on_error=check_on_error(self.name, self.on_error),
        )


@dataclass(frozen=True)
class BoundMapWithState(Defaults):
    """`mapWithState` over a known input."""

    name: str
    input: Input
    spec: StateSpec
    value: str | None
    state: pa.Schema
    state_unnamed: bool
    state_type: Any
    output_schema: pa.Schema
    output_unnamed: bool
    on_error: OnError = "fail"
    kind: str = "map-with-state"

    @property
    def clock(self) -> Clock | None:
        """The clock of the timeout; None without a timeout."""
        return None if self.spec.timeout_ms is None else self.spec.clock

    @property
    def rules(self) -> dict[str, str]:
        """The clock of the timeout: deadlines of one clock are meaningless to another. The duration may change."""
        return {"timeout clock": self.clock or "none"}

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        """One map: key → state; the timeout is its deadline."""
        return (MapColumns.apart(_STATE_MAP, key_schema(self.input), value=self.state),)

    @property
    def initial(self) -> Initial:
        """Keys with their states."""
        return Initial(key_schema(self.input), self.state, self.state_unnamed, self.spec.initial)

    def seed(self, rows: pa.Table) -> Mapping[str, pa.Table]:
        """Return the rows unchanged. The engine sets their timeouts in the first batch."""
        return {_STATE_MAP: rows.rename_columns(self.maps[0].names)}

    @property
    def ranges(self) -> int | None:
        """The number in the specification."""
        return self.spec.ranges

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's function."""
        return (self.spec.user_function,)

    def open(self) -> Handle:
        """Make the Rust operator, which calls the function."""
        return _native.map_with_state(
            self,
            function=self.spec.user_function,
            arguments=self.spec.arguments,
            value=self.value,
            timeout_ms=self.spec.timeout_ms,
            clock=self.spec.clock if self.spec.timeout_ms is not None else "batch",
        )

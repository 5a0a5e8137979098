"""`.transformWithState(processor, …)`: a user's `StatefulProcessor`, called for each key with its rows and each timer.

This module has checks and schemas. The Rust engine makes the calls and has the variables.
Spark: `GroupedData.transformWithState` of PySpark (`TransformWithStateInPySparkExec`).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..names import map_name, variable_rule
from ..schema import to_arrow
from ..spelling import unknown
from ..state.columns import SYSTEM_COLUMNS, MapColumns
from ..values import dataclass
from .contract import Clock, Declared, Defaults, Handle, Input, OnError, check_on_error, column, key_schema
from .initial import Initial
from .pandas_here import check_pandas
from .processor_initial import InitialRows
from .processor_task import ProcessorTask
from .stateful_processor import Declaration, StatefulProcessorHandle, TimeMode, Variable
from .user_processor import UserProcessor

TIMERS = "timers"
"""The map of timers, after the maps of the variables."""
_EXPIRY = pa.schema([("expiry_ms", pa.int64())])

_INITIAL = "initial"
"""The map of the initial state. The first batch empties it."""
_ROW = pa.schema([("row", pa.int64())])

_TIME_MODES: dict[str, TimeMode] = {"none": "None", "processingtime": "ProcessingTime", "eventtime": "EventTime"}
TIME_MODE_CLOCKS: dict[TimeMode, Clock | None] = {"None": None, "ProcessingTime": "batch", "EventTime": "event"}
_OUTPUT_MODES = ("append", "update")
_PARAMETERS = {
    "init": ("handle",),
    "handleInputRows": ("key", "rows", "timerValues"),
    "handleExpiredTimer": ("key", "timerValues", "expiredTimerInfo"),
    "handleInitialState": ("key", "initialState", "timerValues"),
}
"""The arguments with which the methods of a processor are called."""
RowsAs = Literal["rows", "frames"]
"""The form of a processor's input and output: rows, or pandas frames."""


@dataclass(frozen=True)
class TransformWithStateOperator(Declared):
    """`.transformWithState(…)` as declared."""

    name: str
    processor: Any
    output_schema: Any
    output_mode: str
    time_mode: str
    initial_state: Any = None
    event_time_column: str = ""
    rows_as: RowsAs = "rows"
    on_error: str = "fail"

    @property
    def _method(self) -> str:
        return "transformWithState" if self.rows_as == "rows" else "transformWithStateInPandas"

    def bind(self, given: Input) -> BoundTransformWithState:
        """Check modes, schemas and the watermark, and call `init` on a copy to learn the variables."""
        what = f"operator `{self.name}`: {self._method}"
        if self.rows_as == "frames":
            check_pandas(self.name, self._method, ".transformWithState")
        self._check_processor(what)
        time_mode = _TIME_MODES.get(str(self.time_mode).lower())
        if time_mode is None:
            raise unknown("timeMode", str(self.time_mode), _TIME_MODES.values())
        if str(self.output_mode).lower() not in _OUTPUT_MODES:
            raise unknown("outputMode", str(self.output_mode), _OUTPUT_MODES)
        key = key_schema(given)
        initial = None if self.initial_state is None else InitialRows.of(self.initial_state, key, what)
        if time_mode == "EventTime" and given.event_time is None:
            raise InvalidInput(
                f'{what} with timeMode "EventTime" needs a watermark on the stream, found none',
                hint='call .withWatermark("column", "delay") before .groupBy, and keep that column',
            )
        output_schema = to_arrow(self.output_schema)
        bound = BoundTransformWithState(
            name=self.name,
            input=given,
            processor=self.processor,
            variables=(),
            output_schema=output_schema,
            time_mode=time_mode,
            event_time=self._event_time(given, output_schema, what),
            initial_rows=initial,
            rows_as=self.rows_as,
            on_error=check_on_error(self.name, self.on_error),
        )
        return bound.with_variables()

    def _check_processor(self, what: str) -> None:
        if isinstance(self.processor, type):
            name = self.processor.__name__
            raise InvalidInput(
                f"{what}: the processor is the class `{name}`, expected an instance of it", hint=f"pass {name}()"
            )
        needed = ["init", "handleInputRows"]
        if str(self.time_mode).lower() != "none":
            needed.append("handleExpiredTimer")
        if self.initial_state is not None:
            needed.append("handleInitialState")
        for method in needed:
            if not callable(getattr(self.processor, method, None)):
                raise InvalidInput(
                    f"{what}: {self.processor!r} has no method `{method}`, expected a StatefulProcessor",
                    hint="pass an instance of a subclass of pyspark.sql.streaming.StatefulProcessor or "
                    "tm.StatefulProcessor",
                )
            self._check_parameters(what, method)

    def _check_parameters(self, what: str, method: str) -> None:
        """Raise `InvalidInput` if a method cannot be called with what it will be given, before any batch calls it."""
        given = _PARAMETERS[method]
        try:
            inspect.signature(getattr(self.processor, method)).bind(*given)
        except TypeError as error:
            raise InvalidInput(
                f"{what}: `{type(self.processor).__name__}.{method}` cannot be called with ({', '.join(given)}): "
                f"{error}",
                hint=f"declare it as `def {method}(self, {', '.join(given)})`",
            ) from error
        except ValueError:  # compiled code has no signature
            return

    def _event_time(self, given: Input, output: pa.Schema, what: str) -> str | None:
        name = self.event_time_column
        if not name:
            return None
        if given.event_time is None:
            raise InvalidInput(
                f"{what}: eventTimeColumnName `{name}` needs a watermark on the stream, found none",
                hint='call .withWatermark("column", "delay") before .groupBy',
            )
        if name not in output.names:
            raise InvalidInput(
                f"{what}: eventTimeColumnName `{name}` is not a column of the output, which has "
                + ", ".join(f"`{known}`" for known in output.names)
            )
        if not pa.types.is_timestamp(column(output, name, what).type):
            raise InvalidInput(f"{what}: eventTimeColumnName `{name}` is not a timestamp column of the output")
        return name


@dataclass(frozen=True)
class BoundTransformWithState(Defaults):
    """`transformWithState` over a known input, with known variables."""

    name: str
    input: Input
    processor: Any
    variables: tuple[Declaration, ...]
    output_schema: pa.Schema
    time_mode: TimeMode
    event_time: str | None = None
    initial_rows: InitialRows | None = None
    rows_as: RowsAs = "rows"
    on_error: OnError = "fail"
    kind: str = "transform-with-state"

    def with_variables(self) -> BoundTransformWithState:
        """Return the same operator with the variables that `init` declares, called on a copy of the processor."""
        handle = StatefulProcessorHandle(self.name, self.time_mode, self.input.time_zone)
        processor = self._user().copied()
        processor.call("init", handle)
        processor.call("close")
        declared = tuple(handle.declared.values())
        _check_names(self.name, [one.name for one in declared])
        bound = dataclasses.replace(self, variables=declared)
        for columns in bound.maps:
            columns.engine()
        return bound

    @property
    def clock(self) -> Clock | None:
        """Batch time or event time; None without timers."""
        return TIME_MODE_CLOCKS[self.time_mode]

    @property
    def rules(self) -> dict[str, str]:
        """The clock of the timers, the variables, and whether their rows have a time to live.

        The length of the time to live may change, because stored rows keep their deadline. Adding or removing it is not
        allowed, because stored rows without a deadline would live forever.
        """
        lives = {False: "", True: " with ttl"}
        found = {
            variable_rule(map_name(one.name)): f"{one.kind}{lives[one.ttl_ms is not None]}" for one in self.variables
        }
        return {"timeMode": self.time_mode, **dict(sorted(found.items()))}

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        """One map for each variable, then that of the timers: (key, nothing | position | user's key) → value."""
        key = key_schema(self.input)
        kept = MapColumns.apart(TIMERS, key, _EXPIRY)
        variables = (self._map(one, kept.key) for one in self.variables)
        initial = [] if self.initial_rows is None else [MapColumns.apart(_INITIAL, key, _ROW, self.stored_initial)]
        return (*variables, kept, *initial)

    @property
    def stored_initial(self) -> pa.Schema:
        """The columns of the initial state beside the key, with their names in its map."""
        given = self.initial_rows
        if given is None:
            return pa.schema([])
        return _renamed(given.state, "value", MapColumns.apart(_INITIAL, key_schema(self.input), _ROW).names)

    @property
    def initial(self) -> Initial | None:
        """Any number of rows for each key. `handleInitialState` is called for each row."""
        given = self.initial_rows
        if given is None:
            return None
        return Initial(key_schema(self.input), given.state, data=given.table, repeats=True)

    def seed(self, rows: pa.Table) -> Mapping[str, pa.Table]:
        """Return the rows with a number for each."""
        numbers = pa.array(range(rows.num_rows), pa.int64())
        keys, columns = rows.columns[: len(self.input.key)], rows.columns[len(self.input.key) :]
        return {_INITIAL: pa.table([*keys, numbers, *columns], names=self.maps[-1].names)}

    def _map(self, one: Declaration, key: pa.Schema) -> MapColumns:
        position = pa.schema([("position", pa.int64())])
        sub_key = {"value": pa.schema([]), "list": position, "map": one.key}[one.kind]
        sub_key = _renamed(sub_key, "key" if one.kind == "map" else "list", key.names)
        return MapColumns(map_name(one.name), key, sub_key, _renamed(one.value, "value", [*key.names, *sub_key.names]))

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The methods that determine the state."""
        methods = ("handleInputRows", "handleExpiredTimer", "handleInitialState", "init")
        return tuple(f for name in methods if (f := getattr(type(self.processor), name, None)) is not None)

    @property
    def makes_frames(self) -> bool:
        """Whether this is the pandas form."""
        return self.rows_as == "frames"

    def frames(self, rows: pa.RecordBatch, keys: pa.RecordBatch) -> Any:
        """Make the object that makes the frames of a visit. This imports pandas."""
        from .processor_frames import ProcessorFrames

        key_by_key = self.on_error == "quarantine"
        return ProcessorFrames(self.output_schema, self.input.time_zone, rows, keys, key_by_key=key_by_key)

    def open(self) -> Handle:
        """Make the Rust operator with a copy of the processor."""
        return ProcessorTask(self._user().copied(), self._handle, self._engine)

    def _user(self) -> UserProcessor:
        return UserProcessor(self.name, self.processor)

    def _handle(self) -> StatefulProcessorHandle:
        known = {one.name: one for one in self.variables}
        return StatefulProcessorHandle(self.name, self.time_mode, self.input.time_zone, known)

    def _engine(self, processor: UserProcessor, handle: StatefulProcessorHandle) -> Any:
        variables = [
            Variable(columns.name, columns.sub_key, columns.value, one.ttl_ms, handle.states[one.name])
            # INVARIANT: the maps begin with those of the variables, in their order.
            for one, columns in zip(self.variables, self.maps[: len(self.variables)], strict=True)
        ]
        given = self.initial_rows
        return _native.transform_with_state(
            self,
            processor=processor.given,
            variables=variables,
            timers=handle.timers,
            initial=None if given is None else given.columns(key_schema(self.input), self.stored_initial),
            frames=self.frames if self.rows_as == "frames" else None,
        )


def _check_names(operator: str, names: Sequence[str]) -> None:
    """Raise `InvalidInput` if a name is too long for an object name, or differs from another only in case."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidInput(
                f"operator `{operator}`: the names of the variables `{other}` and `{name}` differ only in case",
                hint="rename one of them: some stores ignore the case of names",
            )
        if len(map_name(name)) > 128:
            raise InvalidInput(f"operator `{operator}`: the variable name `{name}` is too long for an object name")


def _renamed(columns: pa.Schema, part: str, taken: Iterable[str]) -> pa.Schema:
    """Rename the columns whose name is already used in the map to `part.name`."""
    used = {name.lower() for name in (*taken, *SYSTEM_COLUMNS)}
    fields = []
    for field in columns:
        name = field.name
        while name.lower() in used:
            name = f"{part}.{name}"
        used.add(name.lower())
        fields.append(field.with_name(name))
    return pa.schema(fields)

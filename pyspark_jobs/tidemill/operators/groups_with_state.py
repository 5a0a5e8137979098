"""`.mapGroupsWithState(…)` and `.flatMapGroupsWithState(…)`: a function, called for each key with all its rows.

This module has the declarations and checks. The Rust engine calls the function and keeps each key's state and timeout.
Spark: `KeyValueGroupedDataset.mapGroupsWithState`, `flatMapGroupsWithState` with `GroupState`, as in Scala.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..schema import is_unnamed, to_arrow
from ..spelling import nearest
from ..state.columns import MapColumns
from ..values import dataclass
from .contract import Clock, Declared, Defaults, Handle, Input, OnError, check_on_error, key_schema
from .initial import Initial, check_kind

_STATE_MAP = "state"
_EXISTS = pa.field("_exists", pa.bool_())
"""Whether the row has a state. A map has this column only if keys may time out, because a timeout needs no state."""

Timeout = Literal["NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout"]
TIMEOUT_CLOCKS: dict[str, Clock | None] = {
    "NoTimeout": None,
    "ProcessingTimeTimeout": "batch",
    "EventTimeTimeout": "event",
}
MODES = ("append", "update")


@dataclass(frozen=True)
class GroupStateOperator:
    """The declaration that all operators with a `GroupState` share."""

    name: str
    method: str
    func: Callable[..., Any]
    timeout: Any
    mode: Any
    on_error: Any

    def check(self, given: Input) -> tuple[Timeout, OnError]:
        """Return the timeout and `on_error`. `InvalidInput` for options that Spark refuses."""
        if not callable(self.func):
            raise InvalidInput(f"operator `{self.name}`: {self.method} takes a function, found {self.func!r}")
        if str(self.mode).lower() not in MODES:
            raise InvalidInput(
                f"operator `{self.name}`: {self.method} has outputMode={self.mode!r}, expected 'append' or 'update'"
            )
        if self.timeout not in TIMEOUT_CLOCKS:
            close = nearest(str(self.timeout), TIMEOUT_CLOCKS)
            raise InvalidInput(
                f"operator `{self.name}`: {self.method} has timeoutConf={self.timeout!r}, expected 'NoTimeout', "
                "'ProcessingTimeTimeout' or 'EventTimeTimeout'",
                hint=f"did you mean {close!r}?" if close else None,
            )
        if self.timeout == "EventTimeTimeout" and given.event_time is None:
            raise InvalidInput(
                f"operator `{self.name}`: timeoutConf='EventTimeTimeout' needs a watermark on the stream, found none",
                hint='call .withWatermark("column", "delay") before .groupBy, and keep that column',
            )
        return cast(Timeout, self.timeout), check_on_error(self.name, self.on_error)


@dataclass(frozen=True)
class GroupsWithStateOperator(Declared):
    """`.mapGroupsWithState(…)` or `.flatMapGroupsWithState(…)` as declared."""

    group: GroupStateOperator
    emits: Literal["one", "many"]
    output_schema: Any
    state_schema: Any
    initial_state: Any = None

    @property
    def name(self) -> str:
        """The name that identifies its state."""
        return self.group.name

    def bind(self, given: Input) -> BoundGroupsWithState:
        """Check the schemas, the modes, and that an event-time timeout has an event time."""
        timeout, on_error = self.group.check(given)
        if self.initial_state is not None:
            check_kind(self.initial_state, f"operator `{self.name}`: {self.group.method}: the initial state")
        return BoundGroupsWithState(
            name=self.name,
            input=given,
            func=self.group.func,
            emits=self.emits,
            timeout=timeout,
            on_error=on_error,
            state=to_arrow(self.state_schema, unnamed="state"),
            state_unnamed=is_unnamed(self.state_schema),
            state_type=self.state_schema if dataclasses.is_dataclass(self.state_schema) else None,
            output_schema=to_arrow(self.output_schema, unnamed="value"),
            output_unnamed=is_unnamed(self.output_schema),
            initial_state=self.initial_state,
        )


class GroupMaps(Defaults):
    """The map of operators with a `GroupState`, and the rules that later code must keep."""

    input: Input
    timeout: Timeout
    state: pa.Schema

    @property
    def clock(self) -> Clock | None:
        """The clock of the timeout; None without a timeout."""
        return TIMEOUT_CLOCKS[self.timeout]

    @property
    def rules(self) -> dict[str, str]:
        """The timeout mode, because deadlines of one clock are meaningless to another."""
        return {"timeout": self.timeout}

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        """One map: key → state. The timeout is its deadline; a row may have a deadline and no state."""
        value = self.state if self.timeout == "NoTimeout" else self.state.append(_EXISTS)
        return (MapColumns.apart(_STATE_MAP, key_schema(self.input), value=value),)

    @property
    def marker(self) -> str | None:
        """The column that says whether a row has a state; None if the map has no such column."""
        return None if self.timeout == "NoTimeout" else self.maps[0].value.names[-1]

    def seed(self, rows: pa.Table) -> Mapping[str, pa.Table]:
        """Return the states without timeouts, as in Spark."""
        if self.timeout != "NoTimeout":
            rows = rows.append_column(_EXISTS, pa.array([True] * rows.num_rows, _EXISTS.type))
        return {_STATE_MAP: rows.rename_columns(self.maps[0].names)}


@dataclass(frozen=True)
class BoundGroupsWithState(GroupMaps):
    """`mapGroupsWithState` or `flatMapGroupsWithState` over a known input."""

    name: str
    input: Input
    func: Callable[..., Any]
    emits: Literal["one", "many"]
    timeout: Timeout
    on_error: OnError
    state: pa.Schema
    state_unnamed: bool
    state_type: Any
    output_schema: pa.Schema
    output_unnamed: bool
    initial_state: Any = None
    kind: str = "groups-with-state"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "initial_state": None}  # workers read the initial state from the repository

    @property
    def initial(self) -> Initial:
        """Keys with their states."""
        return Initial(key_schema(self.input), self.state, self.state_unnamed, self.initial_state)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's function."""
        return (self.func,)

    def open(self) -> Handle:
        """Make the Rust operator, which calls the function."""
        return _native.groups_with_state(self, function=self.func, emits=self.emits, timeout=self.timeout)

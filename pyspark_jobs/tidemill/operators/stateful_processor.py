"""`StatefulProcessor` and its handle: the base class for `transformWithState`, and the declaration of variables.

Subclasses of PySpark's class work unchanged, because only methods are called. The variables themselves (`ValueState`,
`ListState`, `MapState`, `Timers`) are classes of the Rust engine.
Spark: `pyspark.sql.streaming.stateful_processor`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pyarrow as pa

from .. import _native
from ..errors import CallRefused, InvalidInput, raised_by_state
from ..schema import to_arrow, to_ddl, type_ddl
from ..units import MOST_DURATION_MS
from ..values import dataclass

_Kind = Literal["value", "list", "map"]
TimeMode = Literal["None", "ProcessingTime", "EventTime"]


class StatefulProcessor:
    """The base class of a processor. Without PySpark, subclass this class instead of PySpark's class of the same name.

    >>> import tidemill as tm
    >>> class Count(tm.StatefulProcessor):
    ...     def init(self, handle):
    ...         self.count = handle.getValueState("count", "n bigint")
    ...
    ...     def handleInputRows(self, key, rows, timerValues):
    ...         n = (self.count.get() or (0,))[0] + sum(1 for _ in rows)
    ...         self.count.update((n,))
    ...         yield (*key, n)
    >>> p = tm.Pipeline("words")
    >>> counts = p.read(tm.Rows("word string")).groupBy("word").transformWithState(
    ...     Count(), "word string, n bigint", "update", "None"
    ... )
    >>> tm.testing.Tester(p).batch([("a",), ("b",), ("a",)]).outputs
    [('b', 1), ('a', 2)]
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Create the variables with the handle. Called when the pipeline is built, and again in each task."""
        raise NotImplementedError

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Any:
        """Process the rows of one key, and yield the output rows. Called once for each key that has rows.

        `key` is a tuple. As in Spark, the key and the rows have Arrow's types: times are aware datetimes, structs are
        dicts, and maps are lists of pairs. `timerValues` has the batch time and the watermark.
        """
        raise NotImplementedError

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: ARG002
        """Process a timer that fires, and yield the output rows. The default emits nothing.

        As in Spark, `key` is a `Row` with the types of variables: times are naive datetimes, and structs are `Row`s.
        `expiredTimerInfo.getExpiryTimeInMs()` is the time of the timer.
        """
        return iter([])

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Process one row of the initial state. Called before the rows of the first batch. The default does nothing."""

    def close(self) -> None:
        """Release resources. Called after the pipeline is built, and at the end of each task."""


@dataclass(frozen=True)
class Declaration:
    """A variable as declared in `init`."""

    name: str
    kind: _Kind
    key: pa.Schema
    value: pa.Schema
    ttl_ms: int | None

    def state(self, operator: str, time_zone: str) -> Any:
        """Make the engine's object for the variable, which `init` is given."""
        if self.kind == "map":
            return _native.MapState(operator, self.name, self.key, self.value, time_zone)
        made = _native.ValueState if self.kind == "value" else _native.ListState
        return made(operator, self.name, self.value, time_zone)

    def __str__(self) -> str:
        key = f"{to_ddl(self.key)} → " if self.kind == "map" else ""
        ttl = "" if self.ttl_ms is None else f", living {self.ttl_ms} ms"
        return f"{self.kind} state of {key}{to_ddl(self.value)}{ttl}"


@dataclass(frozen=True)
class Variable:
    """A variable and its map, as an argument of the engine."""

    map: str
    sub_key: pa.Schema
    value: pa.Schema
    ttl_ms: int | None
    state: Any


class StatefulProcessorHandle:
    """The handle that `init` is given. Spark: `StatefulProcessorHandle`.

    Variables can be created only in `init`. Timers can be registered, deleted and listed only while the processor is
    called for a key. Any other use raises `CallRefused`.
    """

    def __init__(
        self, operator: str, timeMode: TimeMode, time_zone: str, known: Mapping[str, Declaration] | None = None
    ) -> None:
        """Make a handle. `known` has the variables that `init` declared when the pipeline was built."""
        self._operator, self._time_mode, self._time_zone = operator, timeMode, time_zone
        self._known = known
        self._in_init = True
        self.declared: dict[str, Declaration] = {}
        self.states: dict[str, Any] = {}
        self.timers = _native.Timers(operator, timeMode == "None")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """PySpark's class if pyspark is loaded, so that `isinstance` checks of processors succeed."""
        loaded = sys.modules.get("pyspark.sql.streaming.stateful_processor")
        return getattr(loaded, "StatefulProcessorHandle", type(self))

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> Any:
        """Create a variable with one value for each key, and return its `ValueState`.

        `schema` is DDL, a `pyarrow.Schema` or a `StructType`. A value expires `ttlDurationMs` (ms of batch time) after
        it was written; None or 0 means never. A time to live needs timeMode "ProcessingTime". `InvalidInput` for an
        invalid name, schema or duration.
        """
        return self._declare(stateName, "value", "", schema, ttlDurationMs)

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> Any:
        """Create a variable with a list of values for each key, and return its `ListState`.

        The arguments are those of `getValueState`. Each element expires by itself.
        """
        return self._declare(stateName, "list", "", schema, ttlDurationMs)

    def getMapState(
        self, stateName: str, userKeySchema: Any, valueSchema: Any, ttlDurationMs: int | None = None
    ) -> Any:
        """Create a variable with a map from your own keys to values for each grouping key, and return its `MapState`.

        `userKeySchema` may have any columns except arrays, maps and structs. The other arguments are those of
        `getValueState`. Each entry expires by itself. Iterators return entries in the order of your keys.
        """
        return self._declare(stateName, "map", userKeySchema, valueSchema, ttlDurationMs)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Register a timer of the current key at `expiryTimestampMs`, ms since the epoch.

        `handleExpiredTimer` is called when the clock of the time mode has reached that time.
        """
        self.timers.register(expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """Delete a timer of the current key. An unknown timer is not an error."""
        self.timers.delete(expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:
        """Return the times of the current key's timers in ascending order, including a timer that is firing."""
        return iter(self.timers.list())

    def deleteIfExists(self, stateName: str) -> None:
        """Remove a variable that this call of `init` declared. It cannot be used afterwards."""
        self._check_in_init("deleteIfExists")
        self.declared.pop(stateName, None)
        self.states.pop(stateName, None)

    def make_known(self) -> None:
        """Create the known variables without calling `init`."""
        for variable in (self._known or {}).values():
            self.states[variable.name] = variable.state(self._operator, self._time_zone)

    def seal(self) -> None:
        """Refuse further variables, because `init` has returned. `InvalidInput` if they are not the known ones."""
        self._in_init = False
        if self._known is not None and self._known != self.declared:
            found, expected = _listed(self.declared), _listed(self._known)
            raise InvalidInput(
                f"operator `{self._operator}`: init declared {found} in a task, {expected} when the pipeline was built",
                hint="init must declare the same variables every time that it is called",
            )

    def _declare(self, name: str, kind: _Kind, key: Any, value: Any, ttl_ms: int | None) -> Any:
        self._check_in_init(f"get{kind.capitalize()}State")
        what = f"operator `{self._operator}`: {kind} state {name!r}"
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"{what}: expected a string that is not empty as the name")
        if name in self.declared:
            raise InvalidInput(f"{what} is declared twice", hint="give each variable its own name")
        ttl_ms = self._checked_ttl(what, ttl_ms)
        key_schema = pa.schema([]) if kind != "map" else _user_key(what, key)
        made = Declaration(name, kind, key_schema, to_arrow(value), ttl_ms)
        self.declared[name] = made
        self.states[name] = made.state(self._operator, self._time_zone)
        return self.states[name]

    def _checked_ttl(self, what: str, ttl_ms: int | None) -> int | None:
        """Return the time to live, or None. 0 means no time to live, as in Spark."""
        if ttl_ms is None or (type(ttl_ms) is int and ttl_ms == 0):
            return None
        if self._time_mode != "ProcessingTime":
            raise InvalidInput(
                f'{what} has a time to live, which needs timeMode "ProcessingTime"; found "{self._time_mode}"'
            )
        if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int) or not 0 < ttl_ms <= MOST_DURATION_MS:
            expected = f"expected whole milliseconds, 0 (none) to {MOST_DURATION_MS} (73,000 years)"
            raise InvalidInput(f"{what}: ttlDurationMs={ttl_ms!r}, {expected}")
        return ttl_ms

    def _check_in_init(self, method: str) -> None:
        if not self._in_init:
            raise raised_by_state(
                CallRefused,
                "PySparkRuntimeError",
                f"operator `{self._operator}`: {method} can only be called in init",
                "get the variable in init and keep it on the processor",
            )


def _user_key(what: str, key: Any) -> pa.Schema:
    schema = to_arrow(key)
    for field in schema:
        if pa.types.is_nested(field.type):
            raise InvalidInput(
                f"{what} cannot have `{field.name}` {type_ddl(field.type)} in its user key",
                hint="use only booleans, numbers, decimals, strings, binary values, dates and timestamps in a key",
            )
    return schema


def _listed(declared: Mapping[str, Declaration]) -> str:
    return "; ".join(f"`{name}` ({variable})" for name, variable in declared.items()) or "no variables"

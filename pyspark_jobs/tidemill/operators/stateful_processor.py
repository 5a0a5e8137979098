"""`StatefulProcessor` and its handle: what users write for `transformWithState`, and how their variables are declared.

PySpark's classes fit as they are: only methods are looked at. The variables themselves are the Rust engine's
(`ValueState`, `ListState`, `MapState`, `Timers`): a call on one costs a call into Rust.
Spark: `pyspark.sql.streaming.stateful_processor`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from .. import _native
from ..errors import CallRefused, InvalidInput, raised_by_state
from ..schema import to_arrow, to_ddl, type_ddl
from ..units import MOST_DURATION_MS

Kind = Literal["value", "list", "map"]
TimeMode = Literal["None", "ProcessingTime", "EventTime"]


class StatefulProcessor:
    """The base of a processor, for who has no pyspark; PySpark's class of the same name may be used as well.

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
        """Gets its variables from the handle. Called when the pipeline is built, and again in each task."""
        raise NotImplementedError

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Any:
        """Called once for each key that has rows; yields what is emitted.

        As in Spark rows and the key hold what Arrow has: times are aware, structs dicts, maps lists of pairs.
        """
        raise NotImplementedError

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: ARG002
        """Called for each timer that has expired; yields what is emitted. By default nothing is.

        As in Spark the key is a `Row` of what variables hold: times are naive, structs `Row`s.
        """
        return iter([])

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Called for each row of the initial state, before the first batch's rows. By default nothing is done."""

    def close(self) -> None:
        """Called last, when the pipeline has been built and at the end of each task."""


@dataclass(frozen=True)
class Declaration:
    """A variable as `init` declared it."""

    name: str
    kind: Kind
    key: pa.Schema
    value: pa.Schema
    ttl_ms: int | None

    def state(self, operator: str, time_zone: str) -> Any:
        """The engine's object for it, which `init` is handed."""
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
    """A variable and its map, as the engine is told of it."""

    map: str
    sub_key: pa.Schema
    value: pa.Schema
    ttl_ms: int | None
    state: Any


class StatefulProcessorHandle:
    """What `init` is given: it makes variables there, and registers, deletes and lists timers of a key in calls.

    Spark: `StatefulProcessorHandle`. Variables may be made in `init` alone (`CallRefused` elsewhere), timers used in
    calls alone.
    """

    def __init__(
        self, operator: str, timeMode: TimeMode, time_zone: str, known: Mapping[str, Declaration] | None = None
    ) -> None:
        """`known`: what `init` declared when the pipeline was built; it must declare the same again."""
        self._operator, self._time_mode, self._time_zone = operator, timeMode, time_zone
        self._known = known
        self._in_init = True
        self.declared: dict[str, Declaration] = {}
        self.states: dict[str, Any] = {}
        self.timers = _native.Timers(operator, timeMode == "None")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """PySpark's class where pyspark is loaded, for processors that ask `isinstance`."""
        loaded = sys.modules.get("pyspark.sql.streaming.stateful_processor")
        return getattr(loaded, "StatefulProcessorHandle", type(self))

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> Any:
        """One value a key: `exists`, `get` (a tuple, or None), `update`, `clear`.

        `schema`: DDL, `pyarrow.Schema` or `StructType`. `ttlDurationMs`: how long a value lives after it was written;
        only with timeMode "ProcessingTime".
        """
        return self._declare(stateName, "value", "", schema, ttlDurationMs)

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> Any:
        """Any number of values a key: `exists`, `get` (an iterator of tuples), `put`, `appendValue`, `appendList`,
        `clear`. Each element lives by itself."""
        return self._declare(stateName, "list", "", schema, ttlDurationMs)

    def getMapState(
        self, stateName: str, userKeySchema: Any, valueSchema: Any, ttlDurationMs: int | None = None
    ) -> Any:
        """Values by a key of the user's within the grouping key: `exists`, `getValue`, `containsKey`, `updateValue`,
        `iterator`, `keys`, `values`, `removeKey`, `clear`. Each entry lives by itself; iterators go by the key."""
        return self._declare(stateName, "map", userKeySchema, valueSchema, ttlDurationMs)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Has `handleExpiredTimer` called for the current key when the clock reaches `expiryTimestampMs`."""
        self.timers.register(expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """Removes a timer of the current key, if there is one."""
        self.timers.delete(expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:
        """The timers of the current key, ascending; one that is firing is among them."""
        return iter(self.timers.list())

    def deleteIfExists(self, stateName: str) -> None:
        """Takes a variable back that this `init` declared, and its state; it cannot be used any more."""
        self._check_in_init("deleteIfExists")
        self.declared.pop(stateName, None)
        self.states.pop(stateName, None)

    def make_known(self) -> None:
        """Makes the variables that are known, where `init` is not called."""
        for one in (self._known or {}).values():
            self.states[one.name] = one.state(self._operator, self._time_zone)

    def seal(self) -> None:
        """`init` has returned: no more variables. `InvalidInput` where they are not those that are known."""
        self._in_init = False
        if self._known is not None and self._known != self.declared:
            found, expected = _listed(self.declared), _listed(self._known)
            raise InvalidInput(
                f"operator `{self._operator}`: init declared {found} in a task, {expected} when the pipeline was built",
                hint="let init declare the same variables each time, whatever else has happened",
            )

    def _declare(self, name: str, kind: Kind, key: Any, value: Any, ttl_ms: int | None) -> Any:
        self._check_in_init(f"get{kind.capitalize()}State")
        what = f"operator `{self._operator}`: {kind} state {name!r}"
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"{what}: expected a name, as text")
        if name in self.declared:
            raise InvalidInput(f"{what} is declared twice", hint="give each variable a name of its own")
        ttl_ms = self._checked_ttl(what, ttl_ms)
        key_schema = pa.schema([]) if kind != "map" else _user_key(what, key)
        made = Declaration(name, kind, key_schema, to_arrow(value), ttl_ms)
        self.declared[name] = made
        self.states[name] = made.state(self._operator, self._time_zone)
        return self.states[name]

    def _checked_ttl(self, what: str, ttl_ms: int | None) -> int | None:
        """The time to live; 0 is none, as in Spark."""
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
                "get the variable in init, and keep it on the processor",
            )


def _user_key(what: str, key: Any) -> pa.Schema:
    schema = to_arrow(key)
    for field in schema:
        if pa.types.is_nested(field.type):
            raise InvalidInput(
                f"{what} has `{field.name}` {type_ddl(field.type)} in its user key",
                hint="a key is made of booleans, numbers, decimals, texts, binaries, dates and timestamps",
            )
    return schema


def _listed(declared: Mapping[str, Declaration]) -> str:
    return "; ".join(f"`{name}` ({one})" for name, one in declared.items()) or "no variables"

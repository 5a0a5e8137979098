"""What a commit says of an operator is enough to finish its aggregates, and to know its clock, without its code.

INVARIANT: nothing is guessed. An operator of aggregates is made again only if it has exactly the recorded maps and
output. The names of its input columns are made up, because finishing reads only partial values.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..errors import TidemillError
from ..protocol.compatible import PARTIAL_KINDS
from ..schema import to_arrow
from ..state.columns import MapColumns
from .aggregate import BoundAggregate
from .aggregate_rules import AGGREGATES
from .contract import BoundOperator, Clock, Input, describe
from .functions import Aggregate
from .groups_with_state import TIMEOUT_CLOCKS
from .session_window import SESSION, SessionWindow
from .sessions import BoundSessions
from .transform_with_state import TIME_MODE_CLOCKS as TIMER_CLOCKS
from .window import WINDOW, GivenWindow, Window

_CUT = re.compile(r"(\d+) ms by (\d+) ms from (-?\d+) ms over (.*)", re.DOTALL)
_GIVEN = re.compile(r"those of (.*)", re.DOTALL)
_SESSIONS = re.compile(r"sessions with a gap of (\d+) ms over (.*)", re.DOTALL)
_ENDS = ("forgotten", "emitted")


def clock_of(recorded: Mapping[str, Any]) -> Clock | None:
    """Return the clock of an operator's deadlines by its description; None if it has none, or it is not known.

    >>> clock_of({"kind": "map-with-state", "rules": {"timeout clock": "event"}})
    'event'
    """
    rules: Mapping[str, str] = recorded.get("rules", {})
    match recorded["kind"]:
        case "sessions":
            return "event"
        case "aggregate":
            key_ends = rules.get("keys end", "").partition(" at ")[0]
            return "event" if rules.get("window ends") in _ENDS or key_ends in _ENDS else None
        case "deduplicate":
            return None if rules.get("forgets", "never") == "never" else "event"
    if "timeMode" in rules:
        return TIMER_CLOCKS.get(rules["timeMode"])  # type: ignore[call-overload, no-any-return]
    if "timeout" in rules:
        return TIMEOUT_CLOCKS.get(rules["timeout"])
    return {"batch": "batch", "event": "event"}.get(rules.get("timeout clock", ""))  # type: ignore[return-value]


def recorded_aggregates(name: str, recorded: Mapping[str, Any]) -> BoundOperator | None:
    """Return the operator of aggregates with this description. None if it has none, or says too little."""
    return _recorded(name, json.dumps(recorded)) if recorded["kind"] in PARTIAL_KINDS else None


@functools.lru_cache(maxsize=64)
def _recorded(name: str, text: str) -> BoundOperator | None:
    recorded = json.loads(text)
    try:
        made = _Description(name, recorded).operator()
        found = describe(made)
    except (TidemillError, LookupError, ValueError, AttributeError):
        return None
    return made if all(found[part] == recorded[part] for part in ("key", "maps", "output")) else None


class _Description:
    """The description of an operator of aggregates, taken apart."""

    def __init__(self, name: str, recorded: Mapping[str, Any]) -> None:
        self.name, self.rules = name, recorded["rules"]
        ((map_name, columns),) = recorded["maps"].items()
        self.columns = MapColumns.described(map_name, columns)
        self.output = to_arrow(recorded["output"])
        self.is_sessions = recorded["kind"] == "sessions"

    def operator(self) -> BoundOperator:
        """Make the operator."""
        window, shown, width = self._window()
        emitted = [] if shown is None else [self.output.names.index(shown)]
        keys = len(self.columns.key) - width + len(emitted)
        names = [name for name in self.output.names[:keys] if name != shown]
        stored = [field for at, field in enumerate(self.columns.key) if not emitted or not 0 <= at - emitted[0] < width]
        fields = {name: field.type for name, field in zip(names, stored, strict=True)}
        if window is not None and window.column not in fields:
            fields[window.column] = self._time_type(window, shown)
        aggregates = list(self._aggregates(self.output.names[keys:], fields))
        schema = pa.schema([pa.field(name, kind) for name, kind in fields.items()])
        over = None if window is None else (window, emitted[0])
        if isinstance(window, SessionWindow):
            given = Input(schema, tuple(names), window.column, "drop", "UTC", window=over)
            return BoundSessions(self.name, given, tuple(aggregates), window, emitted[0])
        return BoundAggregate(
            self.name, Input(schema, tuple(names), None, "drop", "UTC", window=over), tuple(aggregates)
        )

    def _window(self) -> tuple[Window | GivenWindow | SessionWindow | None, str | None, int]:
        """Return the windows, the output column that holds them, and how many columns of the map's key they take."""
        if self.is_sessions:
            gap, column = _matched(_SESSIONS, self.rules["sessions"])
            return SessionWindow(column, int(gap)), SESSION, 0
        text = self.rules.get("window", "")
        if _CUT.fullmatch(text):
            size, slide, start, column = _matched(_CUT, text)
            return Window(column, int(size), int(slide), int(start)), WINDOW, 1
        if _GIVEN.fullmatch(text):
            (column,) = _matched(_GIVEN, text)
            return GivenWindow(column), column, 2
        return None, None, 0

    def _time_type(self, window: Window | GivenWindow | SessionWindow, shown: str | None) -> pa.DataType:
        kind = self.output.field(shown).type
        return kind if isinstance(window, GivenWindow) else kind.field(0).type

    def _aggregates(self, outputs: Sequence[str], fields: dict[str, pa.DataType]) -> Iterator[tuple[str, Aggregate]]:
        """Yield the aggregates, and add their input columns to `fields`."""
        kept, at = self.columns.value.types, 1 if self.is_sessions else 0
        unused = (name for number in itertools.count() if (name := f"input {number}") not in fields)
        for output in outputs:
            function, _, arguments = self.rules[output].partition("(")
            count = len(AGGREGATES[function].partials)
            partials, at = kept[at : at + count], at + count
            inputs = []
            for kind in _inputs(function, partials, self.output.field(output).type):
                inputs.append(next(unused))
                fields[inputs[-1]] = kind
            last = arguments.removesuffix(")").rpartition(", ")[2]
            parameter = int(last) if AGGREGATES[function].has_parameter else None
            column, by = [*inputs, None, None][:2]
            yield output, Aggregate(function, column, by, parameter)


def _matched(pattern: re.Pattern[str], text: str) -> Sequence[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"found {text!r}, expected {pattern.pattern}")
    return found.groups()


def _inputs(function: str, partials: Sequence[pa.DataType], result: pa.DataType) -> list[pa.DataType]:
    """Return types of input columns with which a function has these partial values and this result."""
    match function:
        case "count":
            return []
        case "sum" | "mean":
            return [_addend(partials[0], result if function == "mean" else partials[0])]
        case "min" | "max" | "first" | "last":
            return [partials[0]]
        case "min_by" | "max_by" | "earliest":
            return list(partials)
        case "var" | "stddev":
            return [pa.float64()]
        case "approx_count_distinct":
            return [pa.int64()]
        case "collect_set":
            return [partials[0].value_type]
    raise ValueError(f"unknown function {function!r}")


def _addend(total: pa.DataType, result: pa.DataType) -> pa.DataType:
    """Return the type of numbers whose sum has type `total`. Sums have 10 digits more than numbers, means 4 more."""
    if not pa.types.is_decimal(total) or total.precision == 38 == result.precision:
        return total
    digits = total.precision - 10 if total.precision < 38 else result.precision - 4
    return pa.decimal128(digits, total.scale)

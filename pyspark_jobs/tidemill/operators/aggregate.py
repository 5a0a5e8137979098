"""`.agg(…)`: running aggregates by key and window. Aggregates by session are in `sessions`.

The Rust engine computes them. The state of a key is one row of partials. The output has one row for each key that a
batch touched ("update" mode), or for each window, or key with an event time, that has ended ("append" mode).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..schema import check_column_names, to_ddl
from ..state.columns import MapColumns
from ..values import dataclass
from .aggregate_initial import AggregateInitial
from .contract import BoundOperator, Clock, Declared, Handle, Input, column
from .finishing import NEVER_MS, OfAggregates, folded
from .functions import Aggregate, engine_arguments, output_and_map, tied_inputs
from .session_window import SessionWindow
from .sessions import BoundSessions
from .window import END, START, WINDOW, GivenWindow, Window

Ends = Literal["never", "forgotten", "emitted"]


@dataclass(frozen=True)
class AggregateOperator(Declared):
    """`.agg(total=tm.sum("x"), …)` as declared."""

    name: str
    functions: tuple[tuple[str, Aggregate], ...]
    output_mode: str | None = None
    """None: "append" for sessions, otherwise "update"."""

    @staticmethod
    def declare(name: str, functions: Mapping[str, Any], output_mode: str | None) -> AggregateOperator:
        """Make the operator. `InvalidInput` for errors that are known without the input."""
        if not functions:
            raise InvalidInput(f"operator `{name}`: `.agg()` needs at least one aggregate, such as `n=tm.count()`")
        for output, function in functions.items():
            if not isinstance(function, Aggregate):
                raise InvalidInput(
                    f"operator `{name}`: `{output}` is {function!r}, expected an aggregate such as `tm.count()`"
                )
        mode = None if output_mode is None else str(output_mode).lower()
        if mode not in (None, "update", "append"):
            raise InvalidInput(f"operator `{name}`: outputMode {output_mode!r}, expected 'update' or 'append'")
        return AggregateOperator(name, tuple(functions.items()), mode)

    @property
    def takes_windows(self) -> bool:
        """True."""
        return True

    def bind(self, given: Input) -> BoundOperator:
        """Check columns and types. The Rust engine decides which types a function accepts."""
        for output, aggregate in self.functions:
            if output in given.key:
                raise InvalidInput(f"operator `{self.name}`: the output column `{output}` is also a key column")
            for name in (aggregate.column, aggregate.by):
                if name is not None:
                    column(given.schema, name, f"operator `{self.name}`: `{output}`")
        bound: BoundOperator
        if given.window is not None and isinstance(given.window[0], SessionWindow):
            bound = BoundSessions.over(self.name, given, self.functions, self.output_mode or "append")
        else:
            over = _end_column(given)
            bound = BoundAggregate(self.name, given, self.functions, over, self._ends(given, over))
        check_column_names(bound.output_schema.names, f"the output of operator `{self.name}`")
        return bound

    def _ends(self, given: Input, over: str | None) -> Ends:
        """Return what happens to a key at its end. `over` is the column whose time ends it."""
        if over is None and self.output_mode == "append":
            what = "a window" if given.window is None else f"a watermark on `{given.window[0].column}`"
            raise InvalidInput(
                f"operator `{self.name}`: outputMode 'append' is not allowed without {what}, because no row would ever "
                "be final",
                hint="group by tm.window(…) over the column of .withWatermark(…), or by that column, or use "
                'outputMode="update"',
            )
        if over is None:
            return "never"
        if given.late == "keep":
            what = f"keys with the event time `{over}`" if over in given.key else "windows"
            theirs = "keys" if over in given.key else "windows"
            raise InvalidInput(
                f"operator `{self.name}`: {what} cannot keep late rows, because the {theirs} of late rows have ended; "
                'found withWatermark(…, late="keep"), expected "drop" or "quarantine"'
            )
        return "emitted" if self.output_mode == "append" else "forgotten"


def _end_column(given: Input) -> str | None:
    """Return the column whose time ends a key: that of the windows, or the key column that is the event time."""
    if given.window is not None and given.event_time == given.window[0].column:
        return given.event_time
    return given.event_time if given.event_time in given.key else None


@dataclass(frozen=True)
class _Window:
    """The windows, as an argument of the engine."""

    column: str
    cut_ms: tuple[int, int, int] | None
    key: tuple[str, str]
    place: int
    output: str
    ends: str


@dataclass(frozen=True)
class BoundAggregate(OfAggregates):
    """Running aggregates over a known input."""

    name: str
    input: Input
    aggregates: tuple[tuple[str, Aggregate], ...]
    over: str | None = None
    ends: Ends = "never"
    kind: str = "aggregate"

    def open(self) -> Handle:
        """Make the Rust operator."""
        functions, more = engine_arguments(self.aggregates)
        if self._key_time is not None:
            more |= {"key_time": (self._key_time, self.ends)}
        return _native.aggregate(self.name, list(self.input.key), self.input.schema, functions, self._window(), **more)

    @property
    def _key_time(self) -> str | None:
        """The key column whose time ends a key."""
        by_window = self.input.window is not None and self.input.window[0].column == self.over
        return None if by_window else self.over

    @property
    def _window_ends(self) -> Ends:
        return self.ends if self._key_time is None else "never"

    def _window(self) -> _Window | None:
        if self.input.window is None:
            return None
        window, place = self.input.window
        cut = (window.size_ms, window.slide_ms, window.start_ms) if isinstance(window, Window) else None
        return _Window(window.column, cut, (START, END), place, self._shown, self._window_ends)

    @property
    def _shown(self) -> str:
        """The output column that holds the windows."""
        given = self.input.window
        return given[0].column if given is not None and isinstance(given[0], GivenWindow) else WINDOW

    @property
    def clock(self) -> Clock | None:
        """Event time if keys end."""
        return None if self.ends == "never" else "event"

    def reads(self, port: int) -> frozenset[str] | None:  # noqa: ARG002
        """The key columns, the aggregated columns, and the windows' time."""
        window = () if self.input.window is None else (self.input.window[0].column,)
        aggregated = [name for _, one in self.aggregates for name in (one.column, one.by) if name is not None]
        return frozenset((*self.input.key, *window, *aggregated))

    @property
    def event_time(self) -> str | None:
        """The window, which counts by its end, if windows end. Otherwise the event time among the key columns."""
        if self.ends == "never":
            return None
        return self._key_time or self._shown

    @property
    def passes_time(self) -> frozenset[str]:
        """Its key columns, if keys end by one of them. Windows pass none: their rows are emitted at their end."""
        return frozenset() if self._key_time is None else frozenset(self.input.key)

    @property
    def windows(self) -> frozenset[str]:
        """The windows that rows are grouped by."""
        return frozenset() if self.input.window is None else frozenset((self._shown,))

    @cached_property
    def _shapes(self) -> tuple[pa.Schema, tuple[MapColumns, ...]]:
        window = self.input.window
        of_window = 0 if window is None else 2 if isinstance(window[0], GivenWindow) else 1
        return output_and_map(self.open(), len(self.input.key) + of_window)

    @property
    def output_schema(self) -> pa.Schema:
        """The key columns, then one column for each aggregate."""
        return self._shapes[0]

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        """One map: key → partials."""
        return self._shapes[1]

    def finished(self, rows: pa.Table) -> pa.Table:
        """Return the output columns of rows of the state, one row for each, in the same order.

        The engine folds the partials into an empty state, where no key ends.
        """
        forever = replace(self, over=None, ends="never")
        return folded(forever.open(), rows, [(_native.Pass("data", 0, NEVER_MS, NEVER_MS))])

    @property
    def initial(self) -> AggregateInitial | None:
        """Partial values, or finished ones. None if keys end, because an initial state has no deadlines."""
        if self.input.window is not None or self.ends != "never":
            return None
        columns, output = self.maps[0], list(self.output_schema)[len(self.input.key) :]
        return AggregateInitial(columns.key, columns.value, aggregates=self.aggregates, output=pa.schema(output))

    def seed(self, rows: pa.Table) -> Mapping[str, pa.Table]:
        """Return the rows unchanged."""
        return {self.maps[0].name: rows.rename_columns(self.maps[0].names)}

    @property
    def rules(self) -> dict[str, str]:
        """Output column → function and column; the windows, the event time, and what happens at the end of a key."""
        rules = {output: str(a) for output, a in self.aggregates}
        if self.input.window is not None:
            rules |= {"window": str(self.input.window[0]), "window ends": self._window_ends}
        if self._key_time is not None:
            rules |= {"keys end": f"{self.ends} at {self._key_time}"}
        return rules

    @property
    def tied_inputs(self) -> dict[str, str]:
        """The types of the columns of sums, means, variances and sketches."""
        return tied_inputs(self.aggregates, self.input.schema)

    def __str__(self) -> str:
        return f"{self.name}: {to_ddl(self.output_schema)}"

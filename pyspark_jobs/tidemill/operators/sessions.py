"""`.groupBy(tm.session_window(…)).agg(…)`: aggregates by session, over a known input.

The Rust engine computes them. The state of a key has one row for each open session: its start, its end and partials.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..schema import one_batch, to_ddl
from ..schema.kernels import pc
from ..state.columns import MapColumns
from ..values import dataclass
from .contract import Clock, Handle, Input
from .finishing import ALWAYS_MS, NEVER_MS, OfAggregates, folded
from .functions import Aggregate, engine_arguments, output_and_map, tied_inputs
from .session_window import SESSION, SessionWindow

SESSION_START = "session_start"
"""The column of the state that holds the start of a session."""
_IN_TIME = {"first": "earliest", "last": "max_by"}
"""`first` and `last` go by event time in a session, because late rows and merged sessions leave no other order."""


@dataclass(frozen=True)
class BoundSessions(OfAggregates):
    """Aggregates by session. The event time of the output is the end of the session."""

    name: str
    input: Input
    aggregates: tuple[tuple[str, Aggregate], ...]
    sessions: SessionWindow
    place: int
    kind: str = "sessions"

    @staticmethod
    def over(name: str, given: Input, aggregates: tuple[tuple[str, Aggregate], ...], output_mode: str) -> BoundSessions:
        """Check mode and watermark. As in Spark, only append mode is allowed, and it needs the sessions' watermark."""
        assert given.window is not None
        sessions, place = given.window
        assert isinstance(sessions, SessionWindow)
        if output_mode != "append":
            raise InvalidInput(
                f"operator `{name}`: outputMode {output_mode!r} is not allowed with tm.session_window(…), because a "
                "later row may still extend a session that was emitted",
                hint='use outputMode="append", as in Spark',
            )
        if given.event_time != sessions.column:
            raise InvalidInput(
                f"operator `{name}`: tm.session_window(…) needs a watermark on `{sessions.column}`, because without "
                "a watermark no session would ever be final",
                hint=f'call .withWatermark("{sessions.column}", "delay") first',
            )
        if given.late == "keep":
            raise InvalidInput(
                f"operator `{name}`: sessions cannot keep late rows, because the sessions of late rows have ended; "
                'found withWatermark(…, late="keep"), expected "drop" or "quarantine"'
            )
        return BoundSessions(name, given, aggregates, sessions, place)

    def open(self) -> Handle:
        """Make the Rust operator."""
        functions, more = engine_arguments(self._calls())
        return _native.sessions(
            self.name,
            list(self.input.key),
            self.input.schema,
            functions,
            self.sessions.column,
            self.sessions.gap_ms,
            self.place,
            **more,
        )

    def _calls(self) -> Iterator[tuple[str, Aggregate]]:
        """Return the aggregates, with `first` and `last` replaced by their counterparts by time."""
        for output, aggregate in self.aggregates:
            if aggregate.function in _IN_TIME:
                yield output, Aggregate(_IN_TIME[aggregate.function], aggregate.column, self.sessions.column)
            else:
                yield output, aggregate

    @property
    def clock(self) -> Clock | None:
        """Event time."""
        return "event"

    @property
    def event_time(self) -> str | None:
        """The session."""
        return SESSION

    @property
    def windows(self) -> frozenset[str]:
        """The session."""
        return frozenset((SESSION,))

    @cached_property
    def _shapes(self) -> tuple[pa.Schema, tuple[MapColumns, ...]]:
        return output_and_map(self.open(), len(self.input.key), sub_key=1)

    @property
    def output_schema(self) -> pa.Schema:
        """The key columns and the session, then one column for each aggregate."""
        return self._shapes[0]

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        """One map: key, start → end and partials of the session."""
        return self._shapes[1]

    def finished(self, rows: pa.Table) -> pa.Table:
        """Return the output columns of rows of the state, one row for each, in the same order.

        The engine folds the partials into an empty state and ends all sessions. It emits sessions of a key by their
        start, so the rows are put back into their order.
        """
        passes = [_native.Pass("data", 0, NEVER_MS, NEVER_MS), _native.Pass("due", 0, NEVER_MS, ALWAYS_MS)]
        hashes = _native.key_hashes(one_batch(rows.select(self.maps[0].key.names), "keys"))
        places = pa.table([hashes, rows.column(SESSION_START)], ["hash", "start"])
        order = pc.sort_indices(places, sort_keys=[("hash", "ascending"), ("start", "ascending")])
        return folded(self.open(), rows, passes).take(pc.sort_indices(order))

    @property
    def rules(self) -> dict[str, str]:
        """Output column → function and columns; the declaration of the sessions."""
        return {output: str(a) for output, a in self._calls()} | {"sessions": str(self.sessions)}

    @property
    def tied_inputs(self) -> dict[str, str]:
        """The types of the columns of sums, means, variances and sketches."""
        return tied_inputs(self._calls(), self.input.schema)

    def __str__(self) -> str:
        return f"{self.name}: {to_ddl(self.output_schema)}"

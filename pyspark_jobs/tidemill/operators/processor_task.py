"""A processor at work in one task: a copy of the user's object, with its variables, between `init` and `close`.

Which keys it is called for, and what is written, is decided by the Rust operator that is made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .. import _native
from .contract import Handle, key_schema
from .processor_initial import InitialRows
from .stateful_processor import StatefulProcessorHandle

if TYPE_CHECKING:
    from .transform_with_state import BoundTransformWithState


@dataclass(frozen=True)
class Variable:
    """A variable and its map, as the engine is told of it."""

    map: str
    sub_key: pa.Schema
    value: pa.Schema
    ttl_ms: int | None
    state: Any


@dataclass(frozen=True)
class InitialColumns:
    """The initial state, as the engine is told of it: what its map keeps, and what the processor is shown.

    `places`: where each column that is shown lies in the key columns and those that are stored.
    """

    stored: pa.Schema
    shown: pa.Schema
    places: Sequence[int]


class ProcessorTask(Handle):
    """The operator at work in one task: `init` before its first pass, `close` after its last."""

    def __init__(self, operator: BoundTransformWithState) -> None:
        self.operator = operator
        self.processor = operator.copied()
        self.inner: Any = None
        self._is_begun = False

    def prepare(self, rows: pa.RecordBatch, pass_: Any, combine: bool = True) -> Any:
        """Late rows out; needs no `init`."""
        if self.inner is None:
            handle = self._handle()
            for one in self.operator.variables:
                handle.states[one.name] = one.state(self.operator.name, self.operator.input.time_zone)
            self.inner = self._native(handle)
        return self.inner.prepare(rows, pass_, combine)

    def open(self, maps: Sequence[Any]) -> None:
        """Calls `init`, and takes the maps."""
        handle = self._handle()
        self.operator.call(self.processor, "init", handle)
        self._is_begun = True
        handle.seal()
        self.inner = self._native(handle)
        self.inner.open(maps)

    def apply(self, chunks: Sequence[pa.RecordBatch], pass_: Any) -> pa.RecordBatch:
        """Calls the processor for keys with rows, then for timers that are due."""
        rows: pa.RecordBatch = self.inner.apply(chunks, pass_)
        return rows

    def put_aside(self) -> Sequence[tuple[int, Any, Sequence[str]]]:
        """The rows of keys whose calls failed, where `on_error` says so."""
        aside: Sequence[tuple[int, Any, Sequence[str]]] = self.inner.put_aside()
        return aside

    def finish(self) -> list[Any]:
        """Calls `close`."""
        maps: list[Any] = self.inner.finish()
        self.close()
        return maps

    def close(self) -> None:
        """Calls `close` of a processor whose `init` has returned, once."""
        if self._is_begun:
            self._is_begun = False
            self.operator.call(self.processor, "close")

    def metrics(self) -> dict[str, Any]:
        """As the engine counts."""
        found: dict[str, Any] = self.inner.metrics()
        return found

    def _handle(self) -> StatefulProcessorHandle:
        operator = self.operator
        known = {one.name: one for one in operator.variables}
        return StatefulProcessorHandle(operator.name, operator.time_mode, operator.input.time_zone, known)

    def _native(self, handle: StatefulProcessorHandle) -> Any:
        operator = self.operator
        variables = [
            Variable(columns.name, columns.sub_key, columns.value, one.ttl_ms, handle.states[one.name])
            # INVARIANT: the maps begin with those of the variables, in their order.
            for one, columns in zip(operator.variables, operator.maps[: len(operator.variables)], strict=True)
        ]
        return _native.transform_with_state(
            operator,
            processor=self.processor,
            variables=variables,
            timers=handle.timers,
            initial=None if operator.initial_rows is None else self._initial(operator.initial_rows),
            frames=operator.frames if operator.rows_as == "frames" else None,
        )

    def _initial(self, given: InitialRows) -> InitialColumns:
        columns = pa.schema([*key_schema(self.operator.input), *given.state])
        places = [columns.get_field_index(name) for name in given.order]
        shown = pa.schema([columns.field(place) for place in places])
        return InitialColumns(self.operator.stored_initial, shown, places)

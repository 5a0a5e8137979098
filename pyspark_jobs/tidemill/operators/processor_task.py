"""A processor in one task: a copy of the user's object with its variables, from `init` to `close`.

The Rust operator decides for which keys it is called, and writes its state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from .contract import Handle
from .stateful_processor import StatefulProcessorHandle
from .user_processor import UserProcessor


class ProcessorTask(Handle):
    """The open operator in one task. It calls `init` before the first pass and `close` after the last.

    `handle` makes the handle for `init`. `engine` makes the Rust operator over a processor and its variables.
    """

    def __init__(
        self,
        processor: UserProcessor,
        handle: Callable[[], StatefulProcessorHandle],
        engine: Callable[[UserProcessor, StatefulProcessorHandle], Any],
    ) -> None:
        self._processor, self._handle, self._engine = processor, handle, engine
        self._inner: Any = None
        self._is_begun = False

    def prepare(self, rows: pa.RecordBatch, pass_: Any, combine: bool = True) -> Any:
        """Remove late rows. This needs no call of `init`."""
        if self._inner is None:
            handle = self._handle()
            handle.make_known()
            self._inner = self._engine(self._processor, handle)
        return self._inner.prepare(rows, pass_, combine)

    def begin(self) -> Any:
        """Call `init`, and make the engine's operator over the variables that it declares."""
        handle = self._handle()
        self._processor.call("init", handle)
        self._is_begun = True
        handle.seal()
        self._inner = self._engine(self._processor, handle)
        return self._inner

    def open(self, maps: Sequence[Any]) -> None:
        """Call `init`, and take the maps."""
        self.begin().open(maps)

    def apply(self, chunks: Sequence[pa.RecordBatch], pass_: Any, ports: Sequence[int]) -> pa.RecordBatch:
        """Call the processor for keys with rows, then for due timers."""
        rows: pa.RecordBatch = self._inner.apply(chunks, pass_, ports)
        return rows

    def take_order(self) -> pa.Array | None:
        """Return the order numbers of the engine."""
        order: pa.Array = self._inner.take_order()
        return order

    def keep_origins(self, for_operators: bool) -> None:
        """Let the engine keep why rows are emitted."""
        self._inner.keep_origins(for_operators)

    def take_places(self, given: Sequence[tuple[pa.Array | int, pa.Array]]) -> tuple[pa.Array, pa.Array] | None:
        """Return what the engine says."""
        found: tuple[pa.Array, pa.Array] = self._inner.take_places(given)
        return found

    def take_quarantined(self) -> Sequence[tuple[int, Any, Sequence[str]]]:
        """Return the rows of the keys whose calls failed, with `on_error="quarantine"`."""
        quarantined: Sequence[tuple[int, Any, Sequence[str]]] = self._inner.take_quarantined()
        return quarantined

    def finish(self) -> list[Any]:
        """Return the maps, and call `close`."""
        maps: list[Any] = self._inner.finish()
        self.close()
        return maps

    def close(self) -> None:
        """Call the processor's `close` once, if its `init` has returned."""
        if self._is_begun:
            self._is_begun = False
            self._processor.call("close")

    def metrics(self) -> dict[str, Any]:
        """Return the counts of the engine."""
        found: dict[str, Any] = self._inner.metrics()
        return found

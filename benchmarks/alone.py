"""Measure a user's code by itself: its calls over prepared frames or rows, with a state that costs nothing.

No engine that makes these calls can take less CPU time. This time, divided by the number of cores, therefore limits
what any engine can gain over a peer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq


class Cell:
    """A `GroupState` of the current key that costs nothing."""

    def __init__(self) -> None:
        self.of: dict[Any, Any] = {}
        self.key: Any = None

    @property
    def get(self) -> Any:
        """Return the state of the key. `GroupState.get` is a property."""
        return self.of[self.key]

    @property
    def exists(self) -> Any:
        """Return whether the key has a state."""
        return self.key in self.of

    def update(self, value: Any) -> None:
        """Set the state of the key."""
        self.of[self.key] = value


class ValueCell:
    """The same with the methods of `ValueState`."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.update = cell.update

    def get(self) -> Any:
        """Return the state of the key."""
        return self.cell.of[self.cell.key]

    def exists(self) -> bool:
        """Return whether the key has a state."""
        return self.cell.key in self.cell.of


class Handle:
    """A `StatefulProcessorHandle` for processors with one value state."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def getValueState(self, name: str, schema: Any, ttl: Any = None) -> ValueCell:
        """Return the only state."""
        del name, schema, ttl
        return ValueCell(self.cell)


def frames_by_key(file: Path) -> list[tuple[Any, pd.DataFrame]]:
    """Return each key with its rows, in order of first appearance."""
    return list(pq.read_table(file).to_pandas().groupby("key", sort=False))


def function_alone(function: Any, file: Path) -> float:
    """Return the seconds of a function of `applyInPandasWithState` over the keys of a file."""
    groups, cell = frames_by_key(file), Cell()
    started = time.perf_counter()
    for key, rows in groups:
        cell.key = key
        _exhaust(function((key,), iter((rows,)), cell))
    return time.perf_counter() - started


def processor_alone(processor: Any, file: Path, as_frames: bool) -> float:
    """Return the seconds of a `StatefulProcessor` over the keys of a file."""
    cell = Cell()
    processor.init(Handle(cell))
    groups: list[tuple[Any, Any]] = [
        (key, (rows,) if as_frames else list(rows.itertuples(index=False))) for key, rows in frames_by_key(file)
    ]
    started = time.perf_counter()
    for key, rows in groups:
        cell.key = key
        _exhaust(processor.handleInputRows((key,), iter(rows), None))
    return time.perf_counter() - started


def _exhaust(emitted: Iterator[Any]) -> None:
    for _ in emitted:
        pass

"""What a user's code costs by itself: its calls over frames or rows that lie ready, with a state that costs nothing.

No engine that makes these calls can take less time of a processor, so this, times the cores, is the most that any
engine could win against a peer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq


class Cell:
    """A value state, and a `GroupState`, of the key at hand."""

    def __init__(self) -> None:
        self.of: dict[Any, Any] = {}
        self.key: Any = None

    @property
    def get(self) -> Any:
        """The state of the key; `GroupState.get` is a property."""
        return self.of[self.key]

    @property
    def exists(self) -> Any:
        """Whether there is one; likewise."""
        return self.key in self.of

    def update(self, value: Any) -> None:
        """Sets it."""
        self.of[self.key] = value


class ValueCell:
    """The same as `ValueState` has it: `get` and `exists` are called."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.update = cell.update

    def get(self) -> Any:
        """The state of the key."""
        return self.cell.of[self.cell.key]

    def exists(self) -> bool:
        """Whether there is one."""
        return self.cell.key in self.cell.of


class Handle:
    """A `StatefulProcessorHandle` of processors with one value state."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def getValueState(self, name: str, schema: Any, ttl: Any = None) -> ValueCell:
        """The one state."""
        del name, schema, ttl
        return ValueCell(self.cell)


def frames_by_key(file: Path) -> list[tuple[Any, pd.DataFrame]]:
    """Key and rows, in order of first appearance."""
    return list(pq.read_table(file).to_pandas().groupby("key", sort=False))


def function_alone(function: Any, file: Path) -> float:
    """Seconds of a function of `applyInPandasWithState` over the keys of a file."""
    groups, cell = frames_by_key(file), Cell()
    started = time.perf_counter()
    for key, rows in groups:
        cell.key = key
        _exhaust(function((key,), iter((rows,)), cell))
    return time.perf_counter() - started


def processor_alone(processor: Any, file: Path, as_frames: bool) -> float:
    """Seconds of a `StatefulProcessor` over the keys of a file."""
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

"""`.applyInPandasWithState(…)`: a function over pandas frames, called for each key.

Functions written for PySpark run unchanged. As there, the key is a tuple with the types of pandas, `state.get` is a
tuple, a key that timed out is given one empty frame, and a call that changes nothing keeps the timeout.
Spark: `GroupedData.applyInPandasWithState`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from .. import _native
from ..schema import to_arrow
from ..values import dataclass
from .contract import Declared, Handle, Input, OnError, key_schema
from .groups_with_state import GroupMaps, GroupStateOperator, Timeout
from .initial import Initial
from .pandas_here import check_pandas


@dataclass(frozen=True)
class PandasWithStateOperator(Declared):
    """`.applyInPandasWithState(…)` as declared."""

    group: GroupStateOperator
    output_schema: Any
    state_schema: Any

    @property
    def name(self) -> str:
        """The name that identifies its state."""
        return self.group.name

    def bind(self, given: Input) -> BoundPandasWithState:
        """Check the schemas, the modes, that pandas is installed, and that an event-time timeout has an event time."""
        timeout, on_error = self.group.check(given)
        check_pandas(self.name, "applyInPandasWithState", ".flatMapGroupsWithState")
        return BoundPandasWithState(
            name=self.name,
            input=given,
            func=self.group.func,
            timeout=timeout,
            on_error=on_error,
            state=to_arrow(self.state_schema),
            output_schema=to_arrow(self.output_schema),
        )


@dataclass(frozen=True)
class BoundPandasWithState(GroupMaps):
    """`applyInPandasWithState` over a known input."""

    name: str
    input: Input
    func: Callable[..., Any]
    timeout: Timeout
    on_error: OnError
    state: pa.Schema
    output_schema: pa.Schema
    kind: str = "pandas-with-state"

    @property
    def initial(self) -> Initial:
        """Keys with their states, which only `init(initial_state=…)` accepts."""
        return Initial(key_schema(self.input), self.state)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's function."""
        return (self.func,)

    @property
    def makes_frames(self) -> bool:
        """Yes."""
        return True

    def frames(self, rows: pa.RecordBatch, keys: pa.RecordBatch) -> Any:
        """Make the object that makes the frames of a visit and calls the function. This imports pandas."""
        from .pandas_frames import FrameFunction, Frames

        key_by_key = self.on_error == "quarantine"
        return Frames(FrameFunction(self.func, self.output_schema, self.input.time_zone, key_by_key), rows, keys)

    def open(self) -> Handle:
        """Make the Rust operator, which calls the function through frames."""
        return _native.pandas_with_state(self, function=self.func, frames=self.frames, timeout=self.timeout)

"""A processor that calls functions of a test, and a pipeline around it."""

from __future__ import annotations

from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import InvalidInput
from tidemill.testing import Tester


class Processor(tm.StatefulProcessor):
    """Call the given functions to initialise, for the rows of a key, and for a timer. Missing functions do nothing."""

    def __init__(self, init=None, rows=None, timer=None):
        self.steps = init, rows, timer

    def init(self, handle: Any) -> None:
        self.handle = handle
        if self.steps[0] is not None:
            self.steps[0](self, handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        return iter([]) if self.steps[1] is None else self.steps[1](self, key, rows)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        return self.steps[2](self, key, expiredTimerInfo.getExpiryTimeInMs())


def declared(processor: Any, mode: str = "None", output: Any = "text string", watermark: bool = False, **more: Any):
    p = tm.Pipeline("p")
    rows = p.read(tm.Rows("k string, id int, ts timestamp"))
    rows = rows.withWatermark("ts", "1 second") if watermark else rows
    rows.groupBy("k").transformWithState(processor, output, more.pop("outputMode", "update"), mode, **more)
    return p


def once(init: Any, rows: Any, mode: str = "None") -> Any:
    """The outputs of one row of key `a`."""
    return Tester(declared(Processor(init, rows), mode)).batch([("a", 1, None)], batch_time_ms=5).outputs


def raised(init: Any, rows: Any, mode: str = "None") -> str:
    with pytest.raises(InvalidInput) as caught:
        once(init, rows, mode)
    return str(caught.value)


def value(self, handle):
    self.value = handle.getValueState("count", "n int, s string")

"""Keep the highest temperature of each sensor, and forget a sensor after a silent hour (`transformWithStateInPandas`).

A `StatefulProcessor` over pandas frames, as in PySpark, with a value state and a processing-time timer.

Prints:

    [('attic', 31.5, 'open'), ('cellar', 12.0, 'open')]
    [('attic', 33.0, 'open')]
    [('cellar', 12.0, 'silent')]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tidemill as tm
from tidemill.testing import Tester

HOUR_MS = 3_600_000


class Greatest(tm.StatefulProcessor):
    """Keeps the highest temperature of a sensor."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.greatest = handle.getValueState("greatest", "degrees double")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        degrees = max(float(frame["degrees"].max()) for frame in rows)
        if self.greatest.exists():
            degrees = max(degrees, self.greatest.get()[0])
        self.greatest.update((degrees,))
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + HOUR_MS)
        yield pd.DataFrame({"sensor": [key[0]], "degrees": [degrees], "state": ["open"]})

    def handleExpiredTimer(self, key: tuple[str], timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        import pandas as pd

        yield pd.DataFrame({"sensor": [key[0]], "degrees": [self.greatest.get()[0]], "state": ["silent"]})
        self.greatest.clear()


p = tm.Pipeline("alarms")
p.read(tm.Rows("sensor string, degrees double")).groupBy("sensor").transformWithStateInPandas(
    Greatest(), "sensor string, degrees double, state string", outputMode="update", timeMode="ProcessingTime"
)

if __name__ == "__main__":
    tester = Tester(p)
    print(sorted(tester.batch([("attic", 30.0), ("cellar", 12.0), ("attic", 31.5)], batch_time_ms=0).outputs))
    print(tester.batch([("attic", 33.0), ("attic", 29.0)], batch_time_ms=HOUR_MS // 2).outputs)
    print(tester.sweep(HOUR_MS).outputs)

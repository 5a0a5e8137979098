"""Keep late rows, and rows on which a function fails, in quarantine, with the reason.

`late="quarantine"` keeps late rows. If a function raises, `on_error="quarantine"` keeps all rows that the key had in
the batch, and leaves the key's state unchanged. The other keys are applied.

Prints:

    batch 0: 2 applied, 0 late, 0 quarantined, {'ann': 10, 'bob': 20}
    batch 1: 1 applied, 1 late, 2 quarantined, {'ann': 10, 'bob': 25}
      99: late for operator `totals`: at or before the watermark `source.at`, 2024-05-01T09:07:00.000Z
      5: function `add` of operator `totals` raised `ValueError: amount -1` for key `'ann'`
      -1: function `add` of operator `totals` raised `ValueError: amount -1` for key `'ann'`
    batch 2: 1 applied, 0 late, 0 quarantined, {'ann': 17, 'bob': 25}
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import tidemill as tm
from tidemill.testing import Tester


def add(row: Any, state: tm.State) -> None:
    """Keep a running total. Negative amounts are an error."""
    if row.amount < 0:
        raise ValueError(f"amount {row.amount}")
    state.update((state.getOption or 0) + row.amount)


p = tm.Pipeline("payments")
payments = p.read(tm.Rows("user string, at timestamp, amount int")).withWatermark("at", "5 minutes", late="quarantine")
payments.groupBy("user").mapWithState(
    tm.StateSpec.function(add).timeout("1 day", clock="event"), "bigint", "string", name="totals", on_error="quarantine"
)


def at(minute: int) -> datetime:
    """Return a minute in the hour of the payments."""
    return datetime(2024, 5, 1, 9, minute, tzinfo=UTC)


if __name__ == "__main__":
    tester = Tester(p)
    for number, rows in enumerate(
        (
            [("ann", at(10), 10), ("bob", at(12), 20)],
            [("ann", at(13), 5), ("bob", at(3), 99), ("ann", at(14), -1), ("bob", at(15), 5)],
            [("ann", at(16), 7)],
        )
    ):
        done = tester.batch(rows)
        counts = done.metrics
        print(
            f"batch {number}: {counts.applied_rows} applied, {counts.late_rows} late, "
            f"{counts.quarantined_rows} quarantined, {dict(sorted(done.state.items()))}"
        )
        for row in tester.repository.quarantine(number).to_pylist():
            print(f"  {json.loads(row['text'])['amount']}: {row['reason']}")

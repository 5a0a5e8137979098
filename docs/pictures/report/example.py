"""The example whose report the pictures show: a shop with late and broken rows, a rewind, a fix on a branch.

Everything is computed from the number of the day, so the report is the same every time, apart from times that a clock
measures; `example()` replaces these.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import tidemill as tm
from tidemill.report.data import GraphCommit, Report

START = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)
BEFORE_THE_REWIND, DAYS = 42, 64
WITHOUT_RUNS = range(17, 22)
"""Days on which nothing ran, so that files waited."""
SCHEMA = "at timestamp, customer string, cents bigint, refund boolean"


def example() -> Report:
    """Return the report of the example."""
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        Path("orders").mkdir()
        r = tm.open(pipeline("cents"), root="lake")
        r.init()
        for number in range(BEFORE_THE_REWIND):
            _arrive(number, rows_are_broken=number == 39)
            if number in WITHOUT_RUNS:
                continue
            r.run(engine="local", batch_time=_ms(_time(number)))
        r.tag("april", 29)
        Path("orders/039.csv").unlink()
        r.rewind(38, reason="039.csv had amounts in euros", without=["039.csv"])
        for number in range(BEFORE_THE_REWIND, DAYS):
            _arrive(number)
            r.run(engine="local", batch_time=_ms(_time(number)))
        fixed = tm.open(pipeline("CASE WHEN refund THEN -cents ELSE cents END"), root="lake")
        fixed.replay(48, into="net-of-refunds", engine="local")
        found = r.report(keys=[("totals", "customer-07")])
    return _with_fixed_times(found)


def runs(folder: Path, root: str, days: int) -> None:
    """Run the pipeline once a day in `folder`. The orders of one more day wait."""
    with _inside(str(folder)):
        Path("orders").mkdir()
        r = tm.open(pipeline("cents"), root=root)
        r.init()
        for number in range(days):
            _arrive(number)
            r.run(engine="local", batch_time=_ms(_time(number)))
        _arrive(days)


@contextlib.contextmanager
def _inside(folder: str):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def pipeline(amount: str, folder: str = ".") -> tm.Pipeline:
    """Return the pipeline in a folder. `amount` says how an order counts."""
    p = tm.Pipeline("shop")
    orders = p.read(tm.Files(f"{folder}/orders", format="csv", schema=SCHEMA, mode="PERMISSIVE", maxFilesPerTrigger=1))
    orders = orders.sql(f"SELECT *, {amount} AS net FROM rows").withWatermark("at", "6 hours", late="quarantine")
    totals = orders.groupBy("customer").agg(orders=tm.count(), total=tm.sum("net"), name="totals")
    totals.write(tm.Parquet(f"{folder}/customer-totals"))
    hours = orders.groupBy(tm.window("at", "1 day")).agg(orders=tm.count(), revenue=tm.sum("net"), name="daily")
    hours.write(tm.Json(f"{folder}/daily"))
    return p


def _time(number: int) -> datetime:
    return START + timedelta(days=number)


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def _arrive(number: int, rows_are_broken: bool = False) -> None:
    """Write the orders of a day: more on weekdays, some of them late, a few unreadable."""
    weekday = _time(number).weekday()
    rows = (60 if weekday < 5 else 25) + (number * 37) % 23 + number // 2
    lines = []
    for row in range(rows):
        at = _time(number) - timedelta(minutes=(row * 1439) // rows)
        if row < (number * 7) % 5 and number % 3 == 0:
            at -= timedelta(days=3)
        customer = f"customer-{(row * row + number * 3) % (20 + number * 2):02d}"
        cents = (100 if not rows_are_broken else 1) * (5 + (row * 13 + number) % 60)
        lines.append(f"{at:%Y-%m-%d %H:%M:%S},{customer},{cents},{str(row % 17 == 3).lower()}")
    if number % 9 == 4:
        lines[-1] = f"{_time(number):%Y-%m-%d %H:%M:%S},customer-01,12 euros,false"
    Path(f"orders/{number:03d}.csv").write_text("\n".join(lines) + "\n")


def _with_fixed_times(report: Report) -> Report:
    made = _ms(_time(DAYS - 1) + timedelta(hours=3))

    def fixed(one: GraphCommit) -> GraphCommit:
        durations = {"addBatch": 900 + one.rows * 14 + (one.version * 7919) % 700, "walCommit": 150 + one.version % 90}
        return dataclasses.replace(
            one, committed_ms=one.batch_time_ms + 42_000, durations_ms=durations if one.durations_ms else {}
        )

    marks = [
        dataclasses.replace(one, behind_now_ms=None if one.time_ms is None else made - one.time_ms)
        for one in report.watermarks
    ]
    assert report.head is not None
    return dataclasses.replace(
        report,
        made_ms=made,
        uri="s3://lake/tidemill/shop",
        head=fixed(report.head),
        watermarks=marks,
        commits=[*map(fixed, report.commits)],
        others=[*map(fixed, report.others)],
    )

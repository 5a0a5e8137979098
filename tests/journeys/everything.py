"""A repository with most kinds of state and history, for tests that compare two ways of reading it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tidemill as tm

HOUR_MS = 3_600_000
SCHEMA = "k string, v int, d decimal(8,2), x double, at timestamp"
DAYS = (
    ["a,1,1.50,0.5,2026-01-01T10:00:00Z", "b,2,2.25,1.5,2026-01-01T10:20:00Z", "a,5,0.10,2.5,2026-01-01T10:05:00Z"],
    ["a,3,9.00,,2026-01-01T12:00:00Z", "oops,x,1,1,1", "c,7,1.00,4.5,2026-01-01T12:30:00Z"],
    ["b,4,0.01,0.25,2026-01-01T08:00:00Z", "d,9,,1.0,2026-01-01T16:00:00Z"],
    ["a,6,3.33,1.25,2026-01-01T16:30:00Z"],
)


class Pages(tm.StatefulProcessor):
    """Keeps a value, a list and a map, and a timer that clears the list."""

    def init(self, handle: Any) -> None:
        """Declare the variables."""
        self.handle = handle
        self.count = handle.getValueState("count", "n int")
        self.seen = handle.getListState("seen", "v int")
        self.by = handle.getMapState("by", "v int", "times int")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Note every row."""
        for row in rows:
            self.count.update(((self.count.get() or (0,))[0] + 1,))
            self.seen.appendValue((row.v,))
            self.by.updateValue((row.v,), ((self.by.getValue((row.v,)) or (0,))[0] + 1,))
            self.handle.registerTimer(int(row.at.timestamp() * 1000) + HOUR_MS)
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        """Emit how many were seen."""
        yield (*key, sum(1 for _ in self.seen.get()))
        self.seen.clear()


def _last(key: str, row: Any, state: Any) -> Any:
    if state.isTimingOut:
        return (key, None)
    state.update({"v": row.v, "x": row.x})
    return (key, row.v)


def _fails_at_nine(key: str, row: Any, state: Any) -> Any:
    if row is not None and row.v == 9:
        raise ValueError("nine")
    if not state.isTimingOut:
        state.update(row.v)
    return key


def pipeline(folder: Path, totals: str = "totals") -> tm.Pipeline:
    """The pipeline; the operator of running totals has the name `totals`."""
    p = tm.Pipeline("everything")
    rows = p.read(
        tm.Files(str(folder / "in"), format="csv", schema=SCHEMA, mode="PERMISSIVE", maxFilesPerTrigger=1), name="days"
    )
    timed = rows.withWatermark("at", "10 minutes", late="quarantine")
    rows.groupBy("k").agg(
        n=tm.count(), known=tm.count("x"), total=tm.sum("v"), money=tm.sum("d"), mean=tm.mean("d"), avg=tm.mean("v"),
        least=tm.min("x"), first=tm.first("v"), last=tm.last("d"), top=tm.max_by("v", "x"), sd=tm.stddev("v"),
        about=tm.approx_count_distinct("v"), all=tm.collect_set("v", 2), name=totals,
    ).write(tm.Json(str(folder / "out/totals")), name="totals-out")  # fmt: skip
    hourly = timed.groupBy("k", tm.window("at", "1 hour")).agg(
        n=tm.count(), mean=tm.mean("d"), outputMode="append", name="hourly"
    )
    hourly.groupBy("window").agg(keys=tm.count(), best=tm.max("mean"), name="of-window", outputMode="append").write(
        tm.Parquet(str(folder / "out/windows")), name="windows"
    )
    timed.groupBy(tm.session_window("at", "30 minutes"), "k").agg(
        n=tm.count(), first=tm.first("v"), last=tm.last("v"), outputMode="append", name="visits"
    )
    slow = tm.StateSpec.function(_last).timeout("2 hours", clock="event")
    timed.groupBy("k").mapWithState(slow, "v int, x double", "k string, v int", name="latest")
    soon = tm.StateSpec.function(_fails_at_nine).timeout("30 seconds", clock="batch")
    rows.groupBy("k").mapWithState(soon, "int", "string", name="recent", on_error="quarantine")
    timed.groupBy("k").transformWithState(
        Pages(), outputStructType="k string, n int", outputMode="append", timeMode="EventTime", name="pages"
    )
    timed.dropDuplicatesWithinWatermark(["k"], name="distinct")
    return p


def make(folder: Path, root: str, options: Any = None) -> None:
    """Make the repository: batches, a sweep, a rewind, a migration that renames, a branch, tags and quarantine."""
    (folder / "in").mkdir()
    r = tm.open(pipeline(folder), root, storage_options=options)
    r.init()
    for number, lines in enumerate(DAYS[:3]):
        (folder / f"in/{number}.csv").write_text("".join(f"{line}\n" for line in lines))
        r.run(engine="local", batch_time=100_000 * number + 1_000)  # 0, 2, 4, and sweeps between them
    r.tag("noon", 1)
    r.rewind(0, "a bad day", without=["1.csv"])
    r.run(engine="local", batch_time=600_000)
    branch_at = r.head
    assert branch_at is not None
    r.branch("fix", at=branch_at.version)
    renamed = tm.open(pipeline(folder, "sums"), root, storage_options=options)
    renamed.migrate(rename={"totals": "sums"}, reason="a better name")
    (folder / "in/3.csv").write_text("".join(f"{line}\n" for line in DAYS[3]))
    renamed.run(engine="local", batch_time=700_000)
    renamed.sweep(engine="local", batch_time=900_000)
    fix = tm.open(pipeline(folder), root, branch="fix", storage_options=options)
    fix.run(engine="local", batch_time=800_000)
    fix.tag("tried")

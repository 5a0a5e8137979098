"""Two pipelines with operators of every kind, over files with late rows, and what a user sees after a run.

A run must end with the same result however it is interrupted, and with any number of tasks in each batch.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import tidemill as tm

SCHEMA = "user string, n int, v double, ts timestamp"
ORIGIN = datetime(2024, 1, 1, tzinfo=UTC)
STEP_S, DELAY = 20, "10 seconds"


def make_files(folder: Path, files: int, rows: int, seed: int = 5) -> Path:
    """Write JSON lines whose event times advance by 20 s per file. Some are late, some repeated; the last ends all."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    for number in range(files):
        lines = [_row(chance, number * STEP_S + chance.choice([-45, -12, -6, -1, 0, 3, 7, 14])) for _ in range(rows)]
        lines += lines[:2]
        if number == files - 1:
            lines.append(_row(chance, 10_000) | {"user": "end"})
        (folder / f"{number:04d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def _row(chance: random.Random, second: int) -> dict[str, Any]:
    value = chance.uniform(-9, 9) * 10.0 ** chance.choice([-9, 0, 9])
    time = (ORIGIN + timedelta(seconds=second)).isoformat()
    return {"user": chance.choice([*"abcdefg", None]), "n": chance.randrange(3), "v": value, "ts": time}


def by_file_name(plan: Any) -> int:
    """The batch time: that of the last file's rows, a step later."""
    return round(ORIGIN.timestamp() + STEP_S * (1 + int(Path(plan.splits[-1].path).stem))) * 1000


def mapped(batch_time: Any, user: Any, row: Any, state: Any) -> Any:
    """A sum that depends on the order of rows; says goodbye."""
    total = (state.getOption or 0.0) if not state.isTimingOut else state.get
    if state.isTimingOut:
        return (user, total, True)
    state.update(total / 2 + row.v)
    return (user, state.get, False)


def grouped(key: Any, rows: Iterator[Any], state: Any) -> Iterator[Any]:
    """Counts, removes at every fifth row, arms an event-time timeout."""
    if state.hasTimedOut:
        yield (key, state.get.n if state.exists else -1, "silent")
        state.remove()
        return
    times = [row.ts for row in rows]
    n = (state.get.n if state.exists else 0) + len(times)
    if n % 5 == 0 and state.exists:
        state.remove()
        yield (key, n, "removed")
        return
    state.update((n,))
    state.setTimeoutTimestamp(round(max(times).timestamp() * 1000) + 30_000)
    yield (key, n, "counted")


class Visits(tm.StatefulProcessor):
    """A value, a list and a map, and a timer a key."""

    def init(self, handle: Any) -> None:
        """Its variables."""
        self.handle = handle
        self.count = handle.getValueState("count", "n long")
        self.last = handle.getListState("last", "v double")
        self.by_n = handle.getMapState("byN", "n int", "hits long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Each row into all of them."""
        count = self.count.get()[0] if self.count.exists() else 0
        for row in rows:
            count += 1
            self.last.appendValue((row.v,))
            hits = self.by_n.getValue((row.n,))[0] if self.by_n.containsKey((row.n,)) else 0
            self.by_n.updateValue((row.n,), (hits + 1,))
        if count % 4 == 0:
            self.last.clear()
        self.count.update((count,))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 25_000)
        yield tm.Row(user=key[0], count=count, kind="rows")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        """Forgets the map; at the third row too the list."""
        self.by_n.clear()
        yield tm.Row(user=key[0], count=len(list(self.last.get())), kind="timer")

    def close(self) -> None:
        """Nothing to close."""


def halved(rows: Any, state: Any, context: Any) -> Any:
    """Whole tables: the number of rows a key, halved at each batch."""
    import pyarrow as pa

    counts = {row["n"]: row["c"] // 2 for row in state.to_pylist()}
    for n in rows["n"].to_pylist():
        counts[n] = counts.get(n, 0) + 1
    made = pa.table({"n": pa.array(list(counts), pa.int32()), "c": pa.array(list(counts.values()), pa.int64())})
    return made, made


def pipeline(folder: Path, sink: str = "memory://published") -> tm.Pipeline:
    """An operator of every kind on one stream, and three behind another one; a sink of files."""
    p = tm.Pipeline("every")
    p.batch_time(by_file_name)
    rows = p.read(tm.Files(str(folder), format="json", schema=SCHEMA, maxFilesPerTrigger=1)).withWatermark("ts", DELAY)
    by_user = rows.groupBy("user")
    by_user.mapWithState(
        tm.StateSpec.function(mapped).timeout("15 seconds", clock="event"),
        stateSchema="double", outputSchema="user string, total double, closed boolean", name="mapped",
    ).groupBy("closed").agg(total=tm.sum("total"), users=tm.collect_set("user", 9), name="behind-mapped")  # fmt: skip
    by_user.flatMapGroupsWithState(
        grouped, "user string, n long, what string", "n long", "append", "EventTimeTimeout", name="grouped"
    ).write(tm.Parquet(sink), name="grouped")
    by_user.transformWithState(
        Visits(), "user string, count long, kind string", "append", "EventTime", name="processor"
    ).groupBy("kind").agg(n=tm.count(), users=tm.approx_count_distinct("user"), name="behind-processor")
    rows.dropDuplicates(["user", "ts"], name="first")
    within = rows.dropDuplicatesWithinWatermark(["user", "n"], name="first-within")
    within.groupBy(tm.window("ts", "20 seconds", "10 seconds"), "n").agg(
        v=tm.sum("v"), mean=tm.mean("v"), outputMode="append", name="windows-behind"
    )
    rows.groupBy(tm.window("ts", "15 seconds")).agg(
        v=tm.sum("v"), users=tm.count(), outputMode="update", name="windows"
    )
    rows.groupBy(tm.session_window("ts", "8 seconds"), "user").agg(v=tm.sum("v"), name="sessions")
    rows.groupBy("n").agg(v=tm.sum("v"), least=tm.min("v"), deviation=tm.stddev("v"), name="by-n")
    rows.groupBy("n").apply_batch(halved, stateSchema="c long", outputSchema="n int, c long", name="halved")
    return p


def least_and_greatest(key: Any, rows: Iterator[Any], state: Any) -> Any:
    """`mapGroupsWithState`: one row a key and batch, also when it has been silent for long."""
    if state.hasTimedOut:
        least, most = state.get
        state.remove()
        return (*key, least, most, True)
    values = [row.v for row in rows]
    old = tuple(state.get) if state.exists else (values[0], values[0])
    state.update((min(old[0], *values), max(old[1], *values)))
    state.setTimeoutDuration(15_000)
    return (*key, *state.get, False)


def sums(key: tuple[Any, ...], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """`applyInPandasWithState`: a sum that depends on the order of rows, and a goodbye."""
    import pandas as pd

    if state.hasTimedOut:
        (total,) = state.get
        state.remove()
        yield pd.DataFrame({"n": [key[0]], "total": [total], "closed": [True]})
        return
    total, last_ms = state.get[0] if state.exists else 0.0, 0
    for frame in frames:
        last_ms = max(last_ms, round(frame["ts"].max().timestamp() * 1000))
        for value in frame["v"]:
            total = total / 2 + value
    state.update((total,))
    state.setTimeoutTimestamp(last_ms + 25_000)
    yield pd.DataFrame({"n": [key[0]], "total": [total], "closed": [False]})


class Kept(tm.StatefulProcessor):
    """Frames: a value that lives long, a list that does not, a timer by batch time, and what it began with."""

    def init(self, handle: Any) -> None:
        """Its variables."""
        self.handle = handle
        self.total = handle.getValueState("total", "v double")
        self.lately = handle.getListState("lately", "v double", 45_000)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """A total to begin with."""
        self.total.update((float(initialState["v"].sum()),))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Each row into both."""
        import pandas as pd

        total = self.total.get()[0] if self.total.exists() else 0.0
        for frame in rows:
            for value in frame["v"]:
                total = total / 2 + value
                self.lately.appendValue((float(value),))
        self.total.update((total,))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 30_000)
        yield pd.DataFrame({"n": [key[0]], "total": [total], "lately": [len(list(self.lately.get()))]})

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        """Emit the state of the key."""
        import pandas as pd

        yield pd.DataFrame({"n": [key[0]], "total": [self.total.get()[0]], "lately": [-1]})

    def close(self) -> None:
        """Nothing to close."""


def frames_pipeline(folder: Path, sink: str = "memory://published") -> tm.Pipeline:
    """Functions over groups and frames, timeouts by batch time, a time to live, an initial state, a union."""
    import pyarrow as pa

    p = tm.Pipeline("frames")
    p.batch_time(by_file_name)

    def source(name: str) -> Any:
        files = tm.Files(str(folder), format="json", schema=SCHEMA, maxFilesPerTrigger=1)
        return p.read(files, name=name).withWatermark("ts", DELAY)

    one = source("one")
    one.groupBy("user", "n").mapGroupsWithState(
        least_and_greatest, "user string, n int, least double, most double, silent boolean",
        "least double, most double", "ProcessingTimeTimeout", name="extremes",
    ).write(tm.Parquet(sink), name="extremes")  # fmt: skip
    both = one.unionByName(source("two"))
    both.groupBy("n").applyInPandasWithState(
        sums, "n int, total double, closed boolean", "total double", "append", "EventTimeTimeout", name="sums"
    )
    begin = pa.table({"n": pa.array([0, 0, 7], pa.int32()), "v": [1.0, 2.0, 4.0]})
    both.groupBy("n").transformWithStateInPandas(
        Kept(), "n int, total double, lately int", "append", "ProcessingTime", initialState=begin, name="kept"
    ).groupBy("lately").agg(rows=tm.count(), total=tm.sum("total"), name="behind-kept")
    return p


FRAMES = {"extremes", "sums", "kept", "behind-kept"}

OPERATORS = {
    "mapped", "behind-mapped", "grouped", "processor", "behind-processor", "first", "first-within", "windows-behind",
    "windows", "sessions", "by-n", "halved",
}  # fmt: skip


def results(repository: Any) -> dict[str, Any]:
    """State, outputs, counts and watermarks of all versions, as text that is equal only to the last bit."""
    versions = range(repository.head.version + 1)
    operators = list(repository.opened.job.operators)
    outputs = list(repository.opened.job.outputs)
    assert set(operators) in (OPERATORS, FRAMES)
    found: dict[str, Any] = {f"state {name}": _exact(repository.state(name).to_pylist()) for name in operators}
    for name in outputs:
        without = "_seq" if name == "halved" else ""  # of rows of `apply_batch`, `_seq` depends on the number of tasks
        found[f"outputs {name}"] = [_exact(repository.outputs(v, name).to_pylist(), without) for v in versions]
    found["counts"] = [commit.counts for commit in repository.commits()]
    found["watermarks"] = [commit.watermarks for commit in repository.commits()]
    return found


def _exact(rows: list[dict[str, Any]], without: str = "updated_at") -> list[str]:
    return [repr({name: value for name, value in row.items() if name != without}) for row in rows]

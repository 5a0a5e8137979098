"""One pipeline with everything in it whose result may not depend on tasks or engine, and how results are compared."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tidemill as tm

BLOCK_ROWS = 97  # small, so that a file has many blocks
START_US = 1_700_000_000_000_000


def make_files(folder: Path, files: int = 6, rows: int = 900) -> Path:
    """Parquet files of floats of very different size, some nulls and NaNs, event times that jump and lag."""
    chance = random.Random(11)
    for number in range(files):
        count = rows + 37 * number
        values = [chance.uniform(-1, 1) * 10 ** chance.randint(-12, 12) for _ in range(count)]
        keys = [chance.choice([None, *(f"user-{i}" for i in range(60))]) for _ in range(count)]
        times = [START_US + number * 600_000_000 + chance.randint(-900_000_000, 600_000_000) for _ in range(count)]
        table = pa.table(
            {
                "user": keys,
                "shop": pa.array([chance.randint(0, 7) for _ in range(count)], pa.int32()),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "value": [None if chance.random() < 0.02 else v for v in values],
            }
        )
        pq.write_table(table, folder / f"{number:03d}.parquet", row_group_size=200)
    return folder


LITTLE_MEMORY = {"tidemill.task_memory_bytes": "64 KiB"}
"""So little that `auto` cuts each batch into many more ranges than cores, and that most rows wait in a file."""


def running(batch_time, user, row, state):
    """A float sum that depends on the order of rows; says goodbye when the user has been silent."""
    total, n = tuple(state.get) if state.exists else (0.0, 0)
    if state.isTimingOut:
        return (user, total, n, batch_time, True)
    total, n = total + (row.value or 0.0), n + 1
    state.update((total, n))
    return (user, total, n % 5, batch_time, False)


def pipeline(folder: Path) -> tm.Pipeline:
    """Two operators on one read, one behind another, a keyless sink, late rows, timeouts, a time of its own."""
    p = tm.Pipeline("same")
    p.batch_time(lambda plan: START_US // 1000 + 600_000 * (int(Path(plan.splits[-1].path).stem) + 1))
    rows = p.read(
        tm.Files(str(folder), schema="user string, shop int, ts timestamp, value double", maxFilesPerTrigger=2)
    ).withWatermark("ts", "5 minutes", late="drop")
    totals = rows.groupBy("user").mapWithState(
        tm.StateSpec.function(running).timeout("3 minutes", clock="event"), name="running",
        stateSchema="total double, n long",
        outputSchema="user string, total double, bucket long, at long, closed boolean",
    )  # fmt: skip
    totals.groupBy("bucket").agg(total=tm.sum("total"), n=tm.count(), last=tm.last("user"), name="buckets")
    rows.groupBy("shop").agg(value=tm.sum("value"), mean=tm.mean("value"), least=tm.min("value"), name="shops")
    once = rows.dropDuplicates(["user", "shop"], name="once")
    both = rows.unionByName(once.map_batches(lambda batch: batch, "user string, shop int, ts timestamp, value double"))
    both.groupBy("user").agg(first=tm.first("value"), last=tm.last("shop"), n=tm.count(), name="both")
    third = rows.sql("SELECT shop, value FROM rows WHERE shop = 3")
    third.write(tm.Parquet(str(folder.parent / "three")), name="three")
    return p


def result(
    folder: Path, root: str, engine: str, tasks, spark=None, pipeline=pipeline, conf=None
) -> dict[str, pa.Table]:
    """State and outputs of every operator and sink, in canonical order, after a run over all files."""
    repository = tm.open(pipeline(folder), root=root, conf={"tidemill.block_rows": BLOCK_ROWS, **(conf or {})})
    repository.init()
    progress = repository.run(spark=spark, engine=engine, tasks=tasks, adopt_sink=True)  # runs share a sink
    assert sum(one.numInputRows for one in progress) == 900 * 6 + 37 * 15
    cut = [one.stateOperators[0]["numShufflePartitions"] for one in progress]
    assert cut == [tasks] * len(progress) if tasks != "auto" else max(cut) >= 16
    assert all(one.peakMemoryBytes > 10 * 1024**2 for one in progress)
    found = {f"state {name}": repository.state(name) for name in repository.opened.job.operators}
    found |= {f"outputs {name}": repository.outputs(sink=name) for name in repository.opened.job.outputs}
    late = pa.table({"late": [one.late_rows for one in progress], "applied": [one.applied_rows for one in progress]})
    return {**found, "counts": late}


def same(first: dict[str, pa.Table], second: dict[str, pa.Table]) -> None:
    """Equal to the last bit (an IPC stream holds floats as their bits)."""
    assert first.keys() == second.keys()
    for name, table in first.items():
        assert table.num_rows > 0, name
        assert table.schema == second[name].schema, name
        assert _bits(table) == _bits(second[name]), name


def _bits(table: pa.Table) -> list:
    return [
        [None if v is None else v.hex() if isinstance(v, float) else v for v in column.to_pylist()]
        for column in table.columns
    ]

"""Several delays on one column of a source, and behind an operator that passes the time on, beside a naive loop."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidemill as tm
from tests.world import World, run, state

START, DAY_S, HOUR_S, WINDOW_S = datetime(2026, 1, 1, tzinfo=UTC), 300, 20, 10
SCHEMA = "id int, k string, at timestamp"
Row = tuple[int, str, int]


def build(p: tm.Pipeline, world: World) -> None:
    """Counts with two delays from one read, and duplicates removed within the long one before windows of the short."""
    rows = world.read(p)
    long, short = (rows.withWatermark("at", f"{seconds} seconds") for seconds in (DAY_S, HOUR_S))
    once = long.dropDuplicates(["id", "at"], name="once")
    hourly = once.withWatermark("at", f"{HOUR_S} seconds")
    hourly.groupBy(tm.window("at", f"{WINDOW_S} seconds")).agg(n=tm.count(), outputMode="append", name="windows")
    short.groupBy(tm.window("at", f"{WINDOW_S} seconds")).agg(n=tm.count(), outputMode="append", name="all")


def batches(seed: int) -> list[list[Row]]:
    chance = random.Random(seed)
    made = []
    for number in range(6):
        now = 400 + 40 * number
        made.append(
            [(chance.randrange(30), chance.choice("abc"), now - chance.choice([0, 1, 5, 19, 50, 290, 350]))
             for _ in range(chance.randrange(1, 40))]
        )  # fmt: skip
    return made


def expected(rows_of: list[list[Row]]) -> list[dict[str, int]]:
    """Late rows of each operator in each batch."""
    found, newest, newest_once = [], 0, 0
    seen: set[tuple[int, int]] = set()
    for rows in rows_of:
        long, short = newest - DAY_S, newest - HOUR_S
        hourly = newest_once - HOUR_S
        late_once = [row for row in rows if newest and row[2] <= long]
        passed = []
        for row in (row for row in rows if row not in late_once):
            if (row[0], row[2]) not in seen:
                seen.add((row[0], row[2]))
                passed.append(row)
        ended = lambda at, mark: (at // WINDOW_S + 1) * WINDOW_S <= mark  # noqa: E731
        found.append(
            {
                "once": len(late_once),
                "windows": sum(ended(row[2], hourly) for row in passed if newest_once),
                "all": sum(ended(row[2], short) for row in rows if newest),
            }
        )
        newest = max([newest, *(row[2] for row in rows)])
        newest_once = max([newest_once, *(row[2] for row in passed)])
        seen = {one for one in seen if one[1] > newest - DAY_S}
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tasks", [1, 3])
def test_each_operator_waits_for_its_own_time(tasks: int, seed: int, tmp_path: Path) -> None:
    world, rows_of = World(tmp_path, build, schema=SCHEMA), batches(seed)
    for rows in rows_of:
        world.arrive([(number, key, (START + timedelta(seconds=at)).isoformat()) for number, key, at in rows])
    r = world.open()
    run(r, tasks=tasks)
    found = [
        {name: one.late_rows for name, one in r.commit(number).operators.items()} for number in range(len(rows_of))
    ]
    wanted = expected(rows_of)
    assert found == wanted
    assert sum(one["once"] for one in wanted) and sum(one["windows"] for one in wanted)
    assert set(r.head.watermarks) == {"source.at", "source.at#2", "once.at"}
    assert r.verify(deep=True).problems == []


def test_the_first_delay_keeps_its_name_and_the_same_one_is_one() -> None:
    rows = tm.Pipeline("p").read(tm.Rows(SCHEMA))
    names = [rows.withWatermark("at", delay)._node.event_time.watermark for delay in ("1 day", "1 hour", "1 day")]
    assert names == ["source.at", "source.at#2", "source.at"]
    with pytest.raises(tm.InvalidInput, match="already has a watermark on `at` with this delay"):
        rows.select("at").withWatermark("at", "1 hour")


def enriched(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(1, "n", pc.multiply(batch.column("n"), 10))


def shortened(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.slice(0, 0)


def chain(fn: Any) -> Any:
    def make(p: tm.Pipeline, world: World) -> None:
        once = world.read(p, schema="k string, n int").dropDuplicates(["k", "n"], name="once")
        once.map_batches(fn, "k string, n int").groupBy("k").agg(n=tm.sum("n"), last=tm.last("n"), name="sums")

    return make


@pytest.mark.parametrize("tasks", [1, 3])
def test_map_batches_behind_an_operator_keeps_rows_and_their_order(tasks: int, tmp_path: Path) -> None:
    world = World(tmp_path, chain(enriched))
    world.arrive([("a", 3), ("b", 1), ("a", 3), ("a", 2), ("b", 7), ("b", 5)])
    world.run(tasks=tasks)
    r = world.open()
    assert state(r, "sums") == {"a": 50, "b": 130}
    assert {row["k"]: row["last"] for row in r.state("sums").to_pylist()} == {"a": 20, "b": 50}


def test_map_batches_behind_an_operator_returns_a_row_for_each_row(tmp_path: Path) -> None:
    world = World(tmp_path, chain(shortened))
    world.arrive([("a", 3)])
    with pytest.raises(tm.InvalidInput, match="returned 0 rows for 1 rows, expected one for each"):
        world.run()

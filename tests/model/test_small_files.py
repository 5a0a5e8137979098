"""Many small files read and sent together give what each gives alone: rows, state, counts, quarantine, ledger."""

from __future__ import annotations

import csv
import gzip
import io
import os
import random
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import Build, World, state
from tidemill.batch import input, scatter
from tidemill.batch.input import Several

SCHEMA = "k string, v double, ts timestamp"
START_S = 1_700_000_000


def moment(second: int) -> str:
    """A time as text."""
    return f"2023-11-{14 + second // 86400:02d} {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def make_files(folder: Path, chance: random.Random, files: int) -> None:
    """Small files: mostly good ones, empty ones, records that are no rows, late rows, folders, gzip, another header."""
    for number in range(files):
        kind = chance.choice(["csv"] * 40 + ["empty", "reject", "gzip", "shuffled"] * 4 + ["late", "future"])
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        columns = ["ts", "k", "v"] if kind == "shuffled" else ["k", "v", "ts"]
        writer.writerow(columns)
        for _ in range(0 if kind == "empty" else chance.randrange(1, 9)):
            second = number * 20 - (chance.randrange(4000) if kind == "late" else chance.randrange(30)) + 5000
            value = chance.uniform(-1, 1) * 10 ** chance.randint(-12, 12)
            row = {"k": f"k{chance.randrange(5)}", "v": value, "ts": moment(second)}
            if kind == "future":
                row["ts"] = "2031-01-01 00:00:00"
            if kind == "reject" and chance.random() < 0.5:
                row["v"] = "much"
            writer.writerow([row[name] for name in columns])
        place = folder / (f"day={number // 17}" if number % 3 == 0 else "")
        place.mkdir(exist_ok=True)
        data = out.getvalue().encode()
        (place / f"{number:04d}.csv").write_bytes(gzip.compress(data) if kind == "gzip" else data)


def small(folder: Path, build: Build, root: str = "root", **options: Any) -> World:
    """A world of small files, of which a batch reads 40."""
    options = {"maxFilesPerTrigger": 40, "header": True, "mode": "PERMISSIVE", **options}
    return World(folder, build, name="small", root=root, schema=SCHEMA, **options)


def rows_of(p: tm.Pipeline, world: World) -> tm.Stream:
    p.batch_time(lambda plan: (START_S + 40_000) * 1000)
    return world.read(p)


def sums(p: tm.Pipeline, world: World) -> None:
    """Sums of floats, which depend on the order of adding."""
    rows = rows_of(p, world)
    rows.groupBy("k").agg(total=tm.sum("v"), mean=tm.mean("v"), first=tm.first("v"), last=tm.last("v"), name="sums")
    rows.groupBy("k").dropDuplicates(name="seen")


def late_rows(p: tm.Pipeline, world: World) -> None:
    """A watermark: late rows and those ahead of the batch time are quarantined."""
    marked = rows_of(p, world).withWatermark("ts", "5 minutes", late="quarantine", maxAhead="1 hour")
    marked.groupBy(tm.window("ts", "10 minutes"), "k").agg(total=tm.sum("v"), name="windows")


def dropped_rows(p: tm.Pipeline, world: World) -> None:
    """A watermark whose late rows are dropped, for one of two operators."""
    rows = rows_of(p, world)
    rows.withWatermark("ts", "20 seconds", late="drop").groupBy("k").dropDuplicatesWithinWatermark(name="recent")
    rows.groupBy("k").agg(total=tm.sum("v"), name="sums")


def twice(p: tm.Pipeline, world: World) -> None:
    """Rows that reach an operator by two branches."""
    rows = rows_of(p, world)
    rows.unionByName(rows).groupBy("k").agg(total=tm.sum("v"), name="sums")


def done(world: World, tasks: int) -> dict[str, Any]:
    """Everything that a run over all files leaves, but for names and times."""
    repository = world.open()
    repository.run(engine="local", tasks=tasks)
    commits = repository.commits()
    found: dict[str, Any] = {"commits": [seen(commit) for commit in commits]}
    for name in commits[-1].operators:
        found[name] = repository.state(name).to_pylist()
    for commit in commits:
        for name in commit.operators:
            found[f"{name} of {commit.version}"] = repository.outputs(commit.version, sink=name).to_pylist()
        rejects = repository.quarantine(commit.version).to_pylist()
        found[f"quarantine of {commit.version}"] = sorted(rejects, key=str)
    for file in world.inbox.rglob("*.csv"):
        os.utime(file)
    assert repository.run(engine="local") == [], "by their fingerprints the touched files are the same"
    return found


def seen(commit: Any) -> tuple[Any, ...]:
    """What a commit says of its batch."""
    operators = {
        name: {field: value for field, value in vars(one).items() if not field.endswith("_ms")}
        for name, one in commit.operators.items()
    }
    return commit.counts, commit.watermarks, commit.event_time, commit.rows, commit.next_deadline, operators


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files were sent together, each time."""
    found: list[int] = []
    send = scatter.send_together

    def counted(sender: Any, several: Several) -> Any:
        sent = send(sender, several)
        found.append(0 if sent is None else len(several.numbers))
        return sent

    monkeypatch.setattr(scatter, "send_together", counted)
    return found


@pytest.mark.parametrize("build", [sums, late_rows, dropped_rows, twice])
@pytest.mark.parametrize("tasks", [1, 3])
def test_together_is_as_alone(
    build: Build, tasks: int, tmp_path: Path, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        world = small(tmp_path / f"{seed}", build)
        make_files(world.inbox, random.Random(seed), 110)
        with monkeypatch.context() as patch:
            patch.setattr(scatter, "is_plain", lambda job, source: False)
            alone = done(small(world.folder, build, root="alone"), tasks)
        found = done(world, tasks)
        assert found.keys() == alone.keys()
        for name, expected in alone.items():
            assert found[name] == expected, name
    assert (max(together) > 1) == (build is not twice)


def test_a_source_whose_rows_may_be_late_is_read_alone_from_then_on(tmp_path: Path, together: list[int]) -> None:
    def late(p: tm.Pipeline, world: World) -> None:
        marked = rows_of(p, world).withWatermark("ts", "5 minutes", late="quarantine")
        marked.groupBy("k").agg(n=tm.count(), name="counts")

    world = small(tmp_path, late, maxFilesPerTrigger=600)
    for number in range(600):
        world.put(f"{number:04}", f"k,v,ts\na,1,{moment(number)}\n")
    world.put("0300", "k,v,ts\na,1,2031-01-01 00:00:00\n")
    world.run(tasks=1)
    assert together == [256, 0]
    assert state(world.open(), "counts") == {"a": 600}


def test_steps_functions_and_sinks_are_given_rows_of_one_file(tmp_path: Path, together: list[int]) -> None:
    def stepped(p: tm.Pipeline, world: World) -> None:
        rows_of(p, world).sql("SELECT k, v FROM rows").groupBy("k").agg(n=tm.count(), name="counts")

    world = small(tmp_path, stepped)
    world.arrive(*["k,v,ts\na,1,\n"] * 9)
    world.run(tasks=1)
    assert together == []
    assert state(world.open(), "counts") == {"a": 9}


def test_memory_is_bounded_by_the_rows_that_are_read_together(tmp_path: Path, together: list[int]) -> None:
    def counted(p: tm.Pipeline, world: World) -> None:
        rows_of(p, world).groupBy("k").agg(n=tm.count(), name="counts")

    world = small(tmp_path, counted)
    packed = gzip.compress(b"k,v,ts\n" + b"a,1,\n" * 50_000)
    assert len(packed) < input.TOGETHER_BYTES
    for number in range(20):
        world.put(f"{number:02}.csv.gz", packed)
    world.run(tasks=1)
    assert state(world.open(), "counts") == {"a": 1_000_000}
    assert sum(together) == 20 and max(together) <= 5

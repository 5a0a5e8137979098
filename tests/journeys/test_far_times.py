"""Times after the year 9999, which Python's `datetime` does not have: kept, read back and shown, or one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.journeys.conftest import Call
from tests.world import World, run
from tidemill.clock import now_ms
from tidemill.errors import CorruptState, Exit
from tidemill.sinks.forms import staged, unstaged
from tidemill.sinks.json_text import python_rows, rows_from_json, rows_to_json

YEAR_10000_US = 253_402_300_800_000_000
FAR_US = YEAR_10000_US + 31_536_000_000_000 + 5
FAR_DAYS = 2_933_297
SCHEMA = "k string, ts timestamp, d date"
FAR = {"last": "10000-12-31T00:00:00.000005Z", "d": "10001-02-04"}


def rows(**ts_and_days: tuple[int, int]) -> pa.Table:
    times, days = zip(*ts_and_days.values(), strict=True)
    columns = [pa.array(ts_and_days), pa.array(times, pa.timestamp("us", "UTC")), pa.array(days, pa.int32())]
    return pa.table({"k": columns[0], "ts": columns[1], "d": columns[2].cast(pa.date32())})


def pipeline(p: tm.Pipeline, world: World) -> None:
    read = world.read(p)
    read.groupBy("k").agg(last=tm.max("ts"), d=tm.max("d"), name="last").write(tm.Json(world.out))
    read.write(tm.Parquet(world.sink("by-day"), partitionBy="d"), name="by-day")


def by_time(p: tm.Pipeline, world: World) -> None:
    world.read(p).groupBy("ts", "d").agg(n=tm.count(), name="by-time")


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, pipeline, format="parquet", schema=SCHEMA)
    pq.write_table(rows(a=(1_704_067_200_000_000, 19_723)), world.inbox / "0.parquet")
    pq.write_table(rows(a=(YEAR_10000_US - 1, 2_932_896), b=(FAR_US, FAR_DAYS)), world.inbox / "1.parquet")
    world.run()
    return world


def test_a_sink_is_read_back_and_every_correction_still_works(world: World) -> None:
    r = world.open()
    found = {(row["k"], row["last"], row["d"]) for row in python_rows(r.outputs(version=1, sink="last"))}
    assert found == {("b", FAR["last"], FAR["d"]), ("a", "9999-12-31T23:59:59.999999Z", "9999-12-31")}
    days = r.outputs(version=1, sink="by-day").column("d").cast(pa.int32()).to_pylist()
    assert sorted(days) == [2_932_896, FAR_DAYS], "a folder's name is no null"
    assert r.diff(0, 1).total == 6 and r.diff(0, 1, sink="last").added == 2
    r.maintain(compact_sinks=True, reason="fewer files")
    r.rewind(0, "wrong")
    r.rewind(2, "right after all")
    assert {row["last"].replace(" ", "T")[:26] for row in world.published() if row["k"] == "b"} == {FAR["last"][:26]}
    assert not r.verify(deep=True).problems


def test_a_key_and_its_history_are_shown(world: World, call: Call) -> None:
    r = world.open()
    (one,) = r.history("last", "b")
    assert one.value == FAR and one.rows == [{"k": "b", "ts": FAR["last"], "d": FAR["d"]}]
    place = f"{world.root}/shop"
    for command in ("history", "explain"):
        status, out, err = call(command, place, "--operator", "last", "--key", "b")
        assert status == Exit.DONE and json.dumps(FAR) in out, err
    timed = World(world.folder, by_time, root="timed", format="parquet", schema=SCHEMA)
    timed.run()
    key = json.dumps([FAR["last"], FAR["d"]])
    for command in (["state"], ["history", "--no-rows"]):
        status, out, err = call(*command, f"{timed.root}/shop", "--operator", "by-time", "--key", key)
        assert status == Exit.DONE and (FAR["last"] in out or '{"n": 1}' in out), err
        status, _, err = call(
            *command, f"{timed.root}/shop", "--operator", "by-time", "--key", '["soon", "2024-01-01"]'
        )
        assert status == Exit.FAILED and "does not fit the key columns" in err
    for command in (["state", place, "--operator", "last"], ["outputs", place, "--sink", "last"]):
        status, out, err = call(*command)
        assert status == Exit.DONE and FAR["last"] in out and FAR["d"] in out, err
        assert call(*command, "--json")[0] == Exit.DONE
    assert "Traceback" not in "".join(call("report", place, "--json")[1:])


@pytest.mark.parametrize("verb", ["run", "reset"])
def test_a_batch_time_in_that_year_is_refused_whatever_the_tolerance(world: World, verb: str) -> None:
    r = world.open(conf={"tidemill.batch_time_tolerance": "3000000 days"})
    pq.write_table(rows(c=(0, 0)), world.inbox / "2.parquet")
    head = r.head
    for given in (YEAR_10000_US // 1000, FAR_US // 1000, 10**18):
        with pytest.raises(tm.InvalidInput, match=f"is {given} ms, expected a time before the year 10000"):
            run(r, batch_time=given) if verb == "run" else r.reset(batch_time=given, reason="x")
    assert world.open().head == head and len(list(r.opened.store.list("branches/main/plans/"))) == 2
    assert r.state("last", as_of=FAR_US // 1000).num_rows == 2
    assert run(world.open()) == [2] and world.open().head.batch_time_ms <= now_ms()


def test_a_function_that_gets_such_a_time_fails_its_key_by_name(world: World) -> None:
    def seen(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        state.update(1)
        return (key, str(row.ts))

    def calling(p: tm.Pipeline, world: World) -> None:
        spec = tm.StateSpec.function(seen)
        world.read(p).groupBy("k").mapWithState(spec, "int", "k string, t string", name="seen", on_error="quarantine")

    other = world.but(calling, root="other")
    assert other.run() == [0, 1]
    (row,) = other.open().quarantine().to_pylist()
    assert "outside the years 1 to 9999 that Python supports" in row["reason"] and row["row"] == 2
    world.folder.joinpath("q.json").write_bytes(rows_to_json(other.open().quarantine(export=True)))
    with pytest.raises(tm.InvalidInput, match='`q.json`.* line 1, column `ts`: found `"10000-12-31T00'):
        other.open().requeue(1, rows=str(world.folder / "q.json"), reason="again")


TIMES = pa.array([FAR_US, 0, None, YEAR_10000_US], pa.timestamp("us", "UTC"))
DATES = pa.array([FAR_DAYS, 0, None, 2_932_897], pa.int32()).cast(pa.date32())


@pytest.mark.parametrize(
    "column",
    [
        TIMES,
        TIMES.cast(pa.timestamp("us")),
        DATES,
        pa.StructArray.from_arrays([TIMES, DATES], ["t", "d"]),
        pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64())),
        pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4], pa.int32()), TIMES),
        pa.MapArray.from_arrays(pa.array([0, 1, 1, 2, 2], pa.int32()), DATES.take(pa.array([0, 3])), TIMES.slice(0, 2)),
    ],
    ids=lambda column: str(column.type),
)
def test_rows_of_json_come_back_as_they_were(column: pa.Array) -> None:
    table = pa.table({"k": pa.array(["10001-01-01", None, "T(BC)T", "x"]), "v": column})
    assert rows_from_json(rows_to_json(table), table.schema).equals(table)
    (file,) = staged(table, ".json")
    assert unstaged([(file.data, "")], table.schema, ".json", "x").equals(table)


@pytest.mark.parametrize("text", ['{"v":"soon"}\n', '{"v":"10000-13-01T00:00:00.000Z"}\n', "no json\n"])
def test_what_is_no_time_is_still_damage(text: str) -> None:
    with pytest.raises(CorruptState, match="read a JSON file that a commit names"):
        rows_from_json(text.encode(), pa.schema([("v", pa.timestamp("us", "UTC"))]))


def test_a_folder_that_is_no_date_is_damage() -> None:
    (file,) = staged(pa.table({"k": ["a"]}), ".json")
    schema = pa.schema([("k", pa.string()), ("v", pa.date32())])
    with pytest.raises(
        CorruptState, match="read the folder `v=soon/` that a commit names: found `soon`, expected date"
    ):
        unstaged([(file.data, "v=soon/")], schema, ".json", "x")

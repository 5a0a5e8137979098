"""Reading: finished values of aggregates, limits that read nothing behind them, times before the first version."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, over, run

START = datetime(2024, 1, 1, tzinfo=UTC)


class Place(World):
    """Files of (key, value, second), and a repository in memory."""

    def __init__(self, folder: Path, *operators: Callable[[tm.Stream], Any], **read: Any) -> None:
        schema = "k string, v int, ts timestamp"
        super().__init__(
            folder, over(*operators), root=f"memory://{uuid.uuid4().hex}", format="json", schema=schema, **read
        )

    def read(self, p: tm.Pipeline, *given: Any, **options: Any) -> tm.Stream:
        return super().read(p, *given, **options).withWatermark("ts", "1 hour")

    def came(self, *rows: tuple[str, int, int]) -> Path:
        (path,) = self.arrive(
            [{"k": k, "v": v, "ts": (START + timedelta(seconds=at)).isoformat()} for k, v, at in rows]
        )
        return path


def totals(rows: tm.Stream) -> None:
    rows.groupBy("k").agg(total=tm.sum("v"), name="by")


FUNCTIONS = {
    "n": tm.count(),
    "total": tm.sum("v"),
    "mean": tm.mean("v"),
    "first": tm.first("v"),
    "best": tm.max_by("v", "ts"),
    "spread": tm.stddev("v"),
}
ROWS = [("a", 1, 0), ("b", 2, 5), ("a", 3, 8), ("a", 10, 200), ("b", 7, 130), ("a", 4, 201)]


@pytest.mark.parametrize("by", ["key", "window", "session"])
def test_the_state_of_aggregates_shows_what_they_would_emit(tmp_path: Path, by: str) -> None:
    keys = {
        "key": ["k"],
        "window": ["k", tm.window("ts", "1 minute", "30 seconds")],
        "session": ["k", tm.session_window("ts", "20 seconds")],
    }[by]
    mode = None if by == "session" else "update"

    def grouped(rows: tm.Stream) -> None:
        made = rows.groupBy(*keys).agg(**FUNCTIONS, name="by", **({} if mode is None else {"outputMode": mode}))
        made.write(tm.Json(str(tmp_path / "out")))

    place = Place(tmp_path, grouped)
    place.came(*ROWS)
    r = place.open()
    run(r, tasks=2)
    state = r.state("by")
    if by == "session":
        place.came(("z", 0, 100_000))
        run(r)
    columns = [name for name in state.column_names if name not in ("updated_at", "deadline")]
    emitted = [row for row in r.outputs(sink="by").select(columns).to_pylist() if row["k"] != "z"]
    assert sorted(map(str, state.select(columns).to_pylist())) == sorted(map(str, emitted))
    assert len(emitted) == {"key": 2, "window": 8, "session": 4}[by]
    assert r.state("by", version=0, keys=None, partial=True).column_names != state.column_names


def test_values_of_state_stand_beside_their_own_times(tmp_path: Path) -> None:
    place = Place(tmp_path, totals)
    for number, key in enumerate(["a", "b", "c", "a"]):
        place.came((key, 10**number, 0))
        place.run(batch_time=1_000 * (number + 1))
    r = place.open()
    found = {row["k"]: (row["total"], row["updated_at"].timestamp()) for row in r.state("by").to_pylist()}
    assert found == {"a": (1001, 4.0), "b": (10, 2.0), "c": (100, 3.0)}
    assert sorted(r.state("by", where="total > 50").column("k").to_pylist()) == ["a", "c"]
    assert r.state("by", keys=["b"]).column("total").to_pylist() == [10]


def test_a_time_before_the_first_version_is_invalid_and_names_the_first(tmp_path: Path) -> None:
    place = Place(tmp_path, totals)
    r = place.open()
    with pytest.raises(tm.InvalidInput, match="there is no version yet"):
        r.state("by", as_of=5)
    place.came(*ROWS)
    run(r, batch_time=60_000)
    assert r.state("by", as_of=60_000).num_rows == 2
    with pytest.raises(tm.InvalidInput, match="before the first version, whose batch time is 1970-01-01T00:01:00"):
        r.state("by", as_of=59_999)


def test_initial_state_that_was_added_later_is_not_in_version_minus_one(tmp_path: Path) -> None:
    def seeded(name: str) -> Callable[[tm.Stream], Any]:
        spec = tm.StateSpec.function(lambda t, k, v, s: None).initialState([("seed", 5)])
        return lambda s: s.groupBy("k").mapWithState(spec, stateSchema="int", outputSchema="x int", name=name)

    place = Place(tmp_path, seeded("one"))
    place.open()
    place.came(*ROWS)
    run(place.open(init=False))
    later = place.but(over(seeded("one"), seeded("two"))).open()
    assert later.state("one", version=-1).num_rows == 1
    assert later.state("two", version=-1).num_rows == 0
    assert later.state("two").num_rows == 1


@pytest.fixture
def counted(tmp_path: Path, monkeypatch) -> tuple[tm.Repository, list[str]]:
    """A repository of five batches, of which the third has a bad row, and the names of the objects read from it."""
    place = Place(tmp_path, totals, mode="PERMISSIVE")
    paths = [place.came(*ROWS) for _ in range(5)]
    with paths[2].open("a") as file:
        file.write("not json\n")
    place.run()
    r = place.open(init=False)
    assert r.head.version == 4
    got: list[str] = []
    store, read = r.opened.store, r.opened.store.get
    monkeypatch.setattr(store, "get", lambda name: (got.append(name), read(name))[1])
    return r, got


def versions(got: list[str], folder: str) -> list[int]:
    return [int(name.rpartition("/")[2][:10]) for name in got if f"/{folder}/" in f"/{name}"]


def test_a_limit_of_outputs_reads_no_commit_behind_it(counted) -> None:
    r, got = counted
    assert r.outputs(limit=3).num_rows == 3
    assert versions(got, "commits") == [0, 1]
    assert len(versions(got, "output")) == 2
    got.clear()
    assert r.outputs(limit=0).num_rows == 0
    assert versions(got, "output") == []


def test_a_limit_of_quarantine_reads_only_commits_with_quarantined_rows(counted) -> None:
    r, got = counted
    assert r.quarantine(limit=5).column("version").to_pylist() == [2]
    assert versions(got, "commits") == [2]
    assert r.quarantine().column("version").to_pylist() == [2]
    assert r.quarantine(version=3).num_rows == 0


def test_status_has_the_ages_of_files_and_watermarks(tmp_path: Path) -> None:
    place = Place(tmp_path, totals)
    r = place.open()
    found = r.status()
    assert (found.head, found.oldest_waiting_s, found.since_commit_s, found.watermark_lag_s) == (-1, None, None, {})
    for age_s in (300, 7200, 60):
        then = datetime.now(UTC).timestamp() - age_s
        os.utime(place.came(*ROWS), (then, then))
    run(r, max_batches=1)
    found = r.status()
    assert found.oldest_waiting_s is not None and 7200 <= found.oldest_waiting_s < 7260
    assert found.since_commit_s is not None and 0 <= found.since_commit_s < 60
    lag = found.watermark_lag_s["source.ts"]
    watermark = r.head.watermarks["source.ts"]
    assert lag["batch_time"] == (r.head.batch_time_ms - watermark) / 1000 < lag["now"]


def test_a_version_below_minus_one_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(tm.InvalidInput, match="version=-2, expected at least -1"):
        Place(tmp_path, totals).open().state(version=-2)


def test_an_init_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    def seeded(p: tm.Pipeline, world: World) -> None:
        spec = tm.StateSpec.function(lambda t, k, v, s: None).initialState([("seed", "no number")])
        world.read(p).groupBy("k").mapWithState(spec, stateSchema="int", outputSchema="x int", name="one")

    with pytest.raises(tm.InvalidInput):
        World(tmp_path, seeded).open()
    assert not (tmp_path / "root").exists()

"""Code that declares an operator otherwise than its state was made: what counts for new rows alone, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import Build, World, over, run
from tidemill.schema import to_arrow

START = datetime(2020, 1, 1, tzinfo=UTC)


def ms(second: float) -> int:
    return int(START.timestamp() * 1000 + second * 1000)


Declared = Callable[[tm.Stream], Any]


class Place(World):
    """A folder of input and a repository, for pipelines that differ."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, schema="k string, ts timestamp")

    def opened(self, declared: Declared) -> tm.Repository:
        return self.but(over(declared)).open(init=False)

    def outputs(self, declared: Declared, *rows: tuple[str, float], at_s: float = 0) -> list[tuple[Any, ...]]:
        """Return the outputs of a batch of (key, second of event time)."""
        self.arrive([(k, f"{START + timedelta(seconds=second):%Y-%m-%d %H:%M:%S}") for k, second in rows])
        repository = self.but(over(declared)).open()
        run(repository, batch_time=ms(at_s))
        rows_out = repository.outputs(repository.head.version).drop_columns(["_batch_id", "_seq"])
        return [tuple(row.values()) for row in rows_out.to_pylist()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def within(delay: str) -> Declared:
    return lambda s: s.withWatermark("ts", delay).dropDuplicatesWithinWatermark(["k"], name="once")


def deadlines(repository: tm.Repository) -> dict[str, int]:
    state = repository.state("once").to_pydict()
    return {k: round((at - START).total_seconds()) for k, at in zip(state["k"], state["deadline"], strict=True)}


@pytest.mark.parametrize("later", ["2 seconds", "60 seconds"])
def test_a_changed_delay_applies_to_keys_first_seen_afterwards(place: Place, later: str) -> None:
    assert len(place.outputs(within("10 seconds"), ("old", 100))) == 1
    new = within(later)
    assert [k for k, _ in place.outputs(new, ("old", 101), ("new", 101))] == ["new"]
    expected = {"old": 110, "new": 101 + int(later.split()[0])}
    assert deadlines(place.opened(new)) == expected
    head = place.opened(new).head
    assert head is not None
    # It never goes back, and at once goes by the new delay where that is shorter.
    assert head.watermarks == {"source.ts": ms(99 if later == "2 seconds" else 90)}
    place.outputs(new, ("far", 110 + int(later.split()[0])))
    assert set(deadlines(place.opened(new))) == {k for k, at in expected.items() if at > 110} | {"far"}


class Counting(tm.StatefulProcessor):
    """Counts rows, with a time to live."""

    def __init__(self, ttl_ms: int | None) -> None:
        self.ttl_ms = ttl_ms

    def init(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "n bigint", self.ttl_ms)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        count = sum(1 for _ in rows) + (self.seen.get() or (0,))[0]
        self.seen.update((count,))
        yield key[0], count


def living(ttl_ms: int | None) -> Declared:
    return lambda s: s.groupBy("k").transformWithState(
        Counting(ttl_ms), "k string, n bigint", "update", "ProcessingTime", name="counting"
    )


def test_a_changed_time_to_live_applies_to_rows_written_afterwards(place: Place) -> None:
    assert place.outputs(living(10_000), ("a", 0), ("b", 0), at_s=0) == [("b", 1), ("a", 1)]
    longer = living(60_000)
    assert place.outputs(longer, ("a", 0), at_s=9) == [("a", 2)]
    # Entries written with a TTL of 10 s have expired by then, entries with 60 s have not.
    assert sorted(place.outputs(longer, ("a", 0), ("b", 0), at_s=11)) == [("a", 3), ("b", 1)]


def counted(**functions: Any) -> Declared:
    return lambda s: s.groupBy("k").agg(name="counting", **functions)


def test_a_removed_time_to_live_is_refused_by_a_run(place: Place) -> None:
    place.outputs(living(1000), ("a", 0))
    with pytest.raises(tm.InvalidInput) as caught:
        run(place.opened(living(None)))
    assert caught.value.first_line == (
        "operator `counting` has state made with `variable seen` = value with ttl, this code declares value"
    )


def test_a_renamed_aggregate_is_refused_with_both_declarations(place: Place) -> None:
    place.outputs(counted(n=tm.count()), ("a", 0))
    with pytest.raises(tm.InvalidInput) as caught:
        place.opened(counted(renamed=tm.count())).run(engine="local")
    assert caught.value.first_line == (
        "operator `counting` has state made with `n` = count(*), this code declares `renamed` = count(*)"
    )


EVERY = {
    "m": tm.mean("x"),
    "f": tm.first("x"),
    "l": tm.last("x"),
    "lo": tm.min("x"),
    "hi": tm.max("x"),
    "v": tm.var("x"),
    "s": tm.collect_set("x", 9),
    "d": tm.approx_count_distinct("x"),
    "b": tm.min_by("x", "x"),
}


@pytest.mark.parametrize("by", [tm.window("ts", "60 seconds"), tm.session_window("ts", "30 seconds")])
def test_an_added_aggregate_of_an_open_window_or_session_has_only_later_rows(place: Place, by: Any) -> None:
    mode = {} if isinstance(by, type(tm.session_window("ts", "1 second"))) else {"outputMode": "append"}

    def by_time(**functions: Any) -> Declared:
        def declared(s: tm.Stream) -> None:
            rows = s.sql("SELECT k, ts, cast(second(ts) AS int) AS x FROM rows").withWatermark("ts", "10 seconds")
            rows.groupBy(by, "k").agg(name="counting", n=tm.count(), **mode, **functions)

        return declared

    assert place.outputs(by_time(), ("a", 1), ("a", 2), ("b", 3)) == []
    assert place.outputs(by_time(**EVERY), ("a", 20)) == []
    ended = sorted(place.outputs(by_time(**EVERY), ("c", 200)), key=lambda row: row[1])
    assert [row[1:] for row in ended] == [
        ("a", 3, 20.0, 20, 20, 20, 20, None, [20], 1, 20),
        ("b", 1, None, None, None, None, None, None, [], 0, None),
    ]


def test_keys_that_were_seen_stay_seen_when_their_type_is_widened(tmp_path: Path) -> None:
    world = World(tmp_path, over(lambda s: s.dropDuplicates(["k"], name="once")))

    def kept(kind: str, *keys: int) -> list[int]:
        world.arrive([(key,) for key in keys])
        r = world.but(schema=f"k {kind}").open()
        (version,) = run(r)
        assert r.state("once").schema.field("k").type == to_arrow(f"k {kind}").field("k").type
        return sorted(r.outputs(version)["k"].to_pylist())

    assert kept("tinyint", 1, 2) == [1, 2]
    assert kept("bigint", 2, 3, 2**40) == [3, 2**40]


def test_the_output_schema_of_an_operator_may_change(tmp_path: Any) -> None:
    def emitting(output: str, emitted: Any) -> Build:
        spec = tm.StateSpec.function(lambda batch_time, key, row, state: (state.update(row.v), emitted)[1])
        return over(lambda rows: rows.groupBy("k").mapWithState(spec, "int", output, name="op"))

    world = World(tmp_path, emitting("n int", (1,)))
    world.arrive("a,1\n", "a,2\n")
    assert world.run(max_batches=1) == [0]
    changed = world.but(emitting("n string, more double", ("x", 0.5))).open(init=False)
    assert run(changed) == [1]
    assert changed.outputs(version=0).select(["n"]).to_pylist() == [{"n": 1}]
    assert changed.outputs(version=1).select(["n", "more"]).to_pylist() == [{"n": "x", "more": 0.5}]

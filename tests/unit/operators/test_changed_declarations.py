"""Code that declares an operator otherwise than its state was made: what counts for new rows alone, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm

START = datetime(2020, 1, 1, tzinfo=UTC)


def ms(second: float) -> int:
    return int(START.timestamp() * 1000 + second * 1000)


class Place:
    """A folder of input and a repository, for pipelines that differ."""

    def __init__(self, folder: Path) -> None:
        self.input, self.root = folder / "in", str(folder / "root")
        self.input.mkdir()

    def opened(self, pipeline: tm.Pipeline) -> tm.Repository:
        return tm.open(pipeline, root=self.root)

    def run(self, pipeline: tm.Pipeline, *rows: tuple[str, float], at_s: float = 0) -> list[tuple[Any, ...]]:
        """Return the outputs of a batch of (key, second of event time)."""
        repository = self.opened(pipeline)
        lines = [f"{k},{(START + timedelta(seconds=second)).strftime('%Y-%m-%d %H:%M:%S')}\n" for k, second in rows]
        (self.input / f"{len(list(self.input.iterdir()))}.csv").write_text("".join(lines))
        repository.init()
        repository.run(engine="local", batch_time=ms(at_s))
        rows_out = repository.outputs(repository.head.version).drop_columns(["_batch_id", "_seq"])
        return [tuple(row.values()) for row in rows_out.to_pylist()]

    def stream(self, pipeline: tm.Pipeline) -> tm.Stream:
        return pipeline.read(tm.Files(str(self.input), format="csv", schema="k string, ts timestamp"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def within(place: Place, delay: str) -> tm.Pipeline:
    p = tm.Pipeline("p")
    place.stream(p).withWatermark("ts", delay).dropDuplicatesWithinWatermark(["k"], name="once")
    return p


def deadlines(repository: tm.Repository) -> dict[str, int]:
    state = repository.state("once").to_pydict()
    return {k: round((at - START).total_seconds()) for k, at in zip(state["k"], state["deadline"], strict=True)}


@pytest.mark.parametrize("later", ["2 seconds", "60 seconds"])
def test_a_changed_delay_applies_to_keys_first_seen_afterwards(place: Place, later: str) -> None:
    assert len(place.run(within(place, "10 seconds"), ("old", 100))) == 1
    new = within(place, later)
    assert [k for k, _ in place.run(new, ("old", 101), ("new", 101))] == ["new"]
    expected = {"old": 110, "new": 101 + int(later.split()[0])}
    assert deadlines(place.opened(new)) == expected
    head = place.opened(new).head
    assert head is not None
    # It never goes back, and at once goes by the new delay where that is shorter.
    assert head.watermarks == {"source.ts": ms(99 if later == "2 seconds" else 90)}
    place.run(new, ("far", 110 + int(later.split()[0])))
    assert set(deadlines(place.opened(new))) == {k for k, at in expected.items() if at > 110} | {"far"}


class Counting(tm.StatefulProcessor):
    """Counts rows in a variable of a kind, with a time to live."""

    def __init__(self, kind: str, ttl_ms: int | None) -> None:
        self.kind, self.ttl_ms = kind, ttl_ms

    def init(self, handle: Any) -> None:
        if self.kind == "value":
            self.seen = handle.getValueState("seen", "n bigint", self.ttl_ms)
        elif self.kind == "list":
            self.seen = handle.getListState("seen", "n bigint", self.ttl_ms)
        else:
            self.seen = handle.getMapState("seen", "n bigint", "m bigint", self.ttl_ms)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        count = sum(1 for _ in rows)
        if self.kind == "value":
            count += (self.seen.get() or (0,))[0]
            self.seen.update((count,))
        elif self.kind == "list":
            self.seen.appendValue((count,))
        else:
            self.seen.updateValue((count,), (count,))
        yield key[0], count


def living(place: Place, kind: str, ttl_ms: int | None) -> tm.Pipeline:
    p = tm.Pipeline("p")
    grouped = place.stream(p).groupBy("k")
    grouped.transformWithState(
        Counting(kind, ttl_ms), "k string, n bigint", "update", "ProcessingTime", name="counting"
    )
    return p


def test_a_changed_time_to_live_applies_to_rows_written_afterwards(place: Place) -> None:
    assert place.run(living(place, "value", 10_000), ("a", 0), ("b", 0), at_s=0) == [("b", 1), ("a", 1)]
    longer = living(place, "value", 60_000)
    assert place.run(longer, ("a", 0), at_s=9) == [("a", 2)]
    # Entries written with a TTL of 10 s have expired by then, entries with 60 s have not.
    assert sorted(place.run(longer, ("a", 0), ("b", 0), at_s=11)) == [("a", 3), ("b", 1)]


@pytest.mark.parametrize("kind", ["value", "list", "map"])
@pytest.mark.parametrize(("before", "after"), [(None, 1000), (1000, None)])
def test_adding_or_removing_a_time_to_live_is_refused(
    place: Place, kind: str, before: int | None, after: int | None
) -> None:
    place.run(living(place, kind, before), ("a", 0))
    shown = {None: kind, 1000: f"{kind} with ttl"}
    with pytest.raises(tm.InvalidInput) as caught:
        place.opened(living(place, kind, after)).run(engine="local")
    assert caught.value.first_line == (
        f"operator `counting` has state made with `variable seen` = {shown[before]}, this code declares {shown[after]}"
    )


def counted(place: Place, **functions: Any) -> tm.Pipeline:
    p = tm.Pipeline("p")
    place.stream(p).groupBy("k").agg(name="counting", **functions)
    return p


def test_a_renamed_aggregate_is_refused_with_both_declarations(place: Place) -> None:
    place.run(counted(place, n=tm.count()), ("a", 0))
    with pytest.raises(tm.InvalidInput) as caught:
        place.opened(counted(place, renamed=tm.count())).run(engine="local")
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
    def pipeline(**functions: Any) -> tm.Pipeline:
        p = tm.Pipeline("p")
        rows = place.stream(p).sql("SELECT k, ts, cast(second(ts) AS int) AS x FROM rows")
        mode = {} if isinstance(by, type(tm.session_window("ts", "1 second"))) else {"outputMode": "append"}
        rows.withWatermark("ts", "10 seconds").groupBy(by, "k").agg(name="counting", n=tm.count(), **mode, **functions)
        return p

    assert place.run(pipeline(), ("a", 1), ("a", 2), ("b", 3)) == []
    assert place.run(pipeline(**EVERY), ("a", 20)) == []
    ended = sorted(place.run(pipeline(**EVERY), ("c", 200)), key=lambda row: row[1])
    assert [row[1:] for row in ended] == [
        ("a", 3, 20.0, 20, 20, 20, 20, None, [20], 1, 20),
        ("b", 1, None, None, None, None, None, None, [], 0, None),
    ]


def test_keys_that_were_seen_stay_seen_when_their_type_is_widened(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()

    def run(kind: str, *keys: int) -> list[int]:
        (tmp_path / "in" / f"{len(list((tmp_path / 'in').iterdir()))}.csv").write_text("".join(f"{k}\n" for k in keys))
        p = tm.Pipeline("p")
        rows = p.read(tm.Files(str(tmp_path / "in"), format="csv", schema=f"k {kind}"))
        rows.dropDuplicates(["k"], name="once")
        r = tm.open(p, root=str(tmp_path / "root"))
        r.init()
        (progress,) = r.run(engine="local")
        assert r.state("once").schema.field("k").type == rows.schema.field("k").type
        return sorted(r.outputs(progress.version)["k"].to_pylist())

    assert run("tinyint", 1, 2) == [1, 2]
    assert run("bigint", 2, 3, 2**40) == [3, 2**40]

"""The place in an error of a function: file and row, also of rows that another operator emitted."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import World, run
from tidemill import _native
from tidemill.batch import failed_rows
from tidemill.batch.sequence import group_of

SMALL = {"tidemill.block_rows": 7, "tidemill.chunk_bytes": 64}
Function = Callable[[Any, Any, Any], Any]


class Place(World):
    """Files that one batch reads. A test adds operators to `rows` before it opens the repository."""

    def __init__(self, folder: Path, files: dict[str, list[tuple[str, int]]]) -> None:
        super().__init__(folder, root=f"memory://{uuid.uuid4().hex}", maxFilesPerTrigger=None)
        for name, rows in files.items():
            self.put(name, rows)
        self.declared = tm.Pipeline(self.name)
        self.rows = self.read(self.declared)

    def pipeline(self) -> tm.Pipeline:
        return self.declared


def by_row(stream: tm.Stream, key: str, function: Function, output: str, name: str, **more: Any) -> tm.Stream:
    spec = tm.StateSpec.function(lambda batch_time, key, row, state: function(key, row, state))
    return stream.groupBy(key).mapWithState(spec, "int", output, name=name, **more)


def emitting(stream: tm.Stream) -> tm.Stream:
    """An operator that emits `v` under the name `n`, and no key column."""
    return by_row(stream, "k", lambda key, row, state: (row.v,), "n int", "first")


def refusing(wanted: int, column: str) -> Function:
    def refuse(key: Any, row: Any, state: Any) -> Any:
        if getattr(row, column) == wanted:
            raise ValueError("no")
        return (1,)

    return refuse


def failure(place: Place, tasks: int = 1, conf: dict[str, Any] | None = None) -> str:
    """Run a pipeline that fails; return the end of the error's first line."""
    r = place.open(conf=conf or {})
    with pytest.raises(tm.InvalidInput) as caught:
        run(r, tasks=tasks)
    return caught.value.first_line.partition(", processing ")[2]


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_row_that_failed_is_found_in_any_block_chunk_and_branch(tmp_path: Path, tasks: int, seed: int) -> None:
    drawn = random.Random(seed)
    rows = [(drawn.choice("abcde"), value) for value in range(100)]
    files = {"0.csv": rows[:40], "1.csv": rows[40:]}
    wanted = drawn.randrange(100)
    name, number = ("0.csv", wanted + 1) if wanted < 40 else ("1.csv", wanted - 39)
    place = Place(tmp_path, files)
    odd, even = (place.rows.sql(f"SELECT k, v FROM rows WHERE v % 2 = {rest}") for rest in (1, 0))
    by_row(odd.unionByName(even), "k", refusing(wanted, "v"), "x int", "only")
    found = failure(place, tasks, SMALL)
    assert found == f"the row (k='{rows[wanted][0]}', v={wanted}) of file `{name}`, row {number}"


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_an_emitted_row_leads_to_the_rows_of_its_key(tmp_path: Path, tasks: int, seed: int) -> None:
    drawn = random.Random(seed)
    rows = [(f"k{drawn.randrange(40)}", value) for value in range(100)]
    wanted = drawn.randrange(100)
    key = rows[wanted][0]
    places = [f"`{value // 50}.csv` row {value % 50 + 1}" for value in range(100) if rows[value][0] == key]
    place = Place(tmp_path, {"0.csv": rows[:50], "1.csv": rows[50:]})
    by_row(emitting(place.rows).sql("SELECT n FROM rows WHERE n >= 0"), "n", refusing(wanted, "n"), "x int", "second")
    listed = ", ".join(places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
    emitted = f"the row (n={wanted}) that operator `first` emitted for key `'{key}'`"
    assert failure(place, tasks, SMALL) == f"{emitted}; rows of that key in this batch: {listed}"


def all_at_once(key: Any, rows: Any, state: Any) -> Iterator[Any]:
    if sum(row.v for row in rows) == 6:
        raise ValueError("no")
    yield (1,)


def test_a_call_with_several_rows_names_them(tmp_path: Path) -> None:
    place = Place(tmp_path, {"0.csv": [("a", 1), ("b", 5), ("a", 2), ("a", 3)]})
    place.rows.groupBy("k").flatMapGroupsWithState(all_at_once, "x int", "int", name="only")
    assert failure(place) == "rows of file `0.csv`, rows 1, 3, 4"


def test_keys_that_numpy_shows_are_found_too(tmp_path: Path) -> None:
    def in_frames(key: Any, frames: Any, state: Any) -> Any:
        if key == (5,):
            raise ValueError("no")
        return iter(())

    place = Place(tmp_path, {"0.csv": [("a", 1), ("b", 5), ("a", 2), ("a", 5)]})
    place.rows.groupBy("v").applyInPandasWithState(in_frames, "x int", "n int", "append", "NoTimeout", name="only")
    assert failure(place) == "rows of file `0.csv`, rows 2, 4"


def test_a_window_that_ended_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path, {"0.csv": [("a", 1), ("b", 5), ("b", 100)]})
    timed = place.rows.sql("SELECT k, v, make_timestamp(1000000 * CAST(v AS bigint)) AS t FROM rows").withWatermark(
        "t", "0 seconds"
    )
    counted = timed.groupBy(tm.window("t", "10 seconds"), "k").agg(v=tm.max("v"), name="first", outputMode="append")
    by_row(counted.sql("SELECT v FROM rows"), "v", refusing(5, "v"), "x int", "second")
    assert failure(place) == (
        "the row (v=5) that operator `first` emitted when the watermark moved, "
        "for key `(1970-01-01 00:00:00, 'b')`; rows of that key in this batch: `0.csv` row 2"
    )


def test_a_call_with_rows_of_several_upstream_keys_names_these(tmp_path: Path) -> None:
    place = Place(tmp_path, {"0.csv": [("a", 1), ("b", 3), ("a", 2), ("c", 9)]})
    totals = place.rows.groupBy("k").agg(v=tm.sum("v"), name="first").sql("SELECT v, v < 5 AS small FROM rows")
    totals.groupBy("small").flatMapGroupsWithState(all_at_once, "x int", "int", name="second")
    found = failure(place)
    start, _, listed = found.partition("; rows of these keys in this batch: ")
    assert start in {
        f"rows that operator `first` emitted for keys among {two}" for two in ("`'a'`, `'b'`", "`'b'`, `'a'`")
    }
    assert sorted(listed.split(", ")) == ["`0.csv` row 1", "`0.csv` row 2", "`0.csv` row 3"]


def test_a_row_that_a_timeout_emitted_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path, {"0.csv": [("a", 1)]})

    def first(batch_time: int, key: str, row: Any, state: Any) -> Any:
        if state.isTimingOut:
            return (-1,)
        state.update(1)
        return (1,)

    spec = tm.StateSpec.function(first).timeout("1 second")
    emitted = place.rows.groupBy("k").mapWithState(spec, "int", "n int", name="first")
    by_row(emitted, "n", refusing(-1, "n"), "x int", "second")
    place.run(batch_time=1_700_000_000_000)
    place.put("1.csv", "b,2\n")
    with pytest.raises(tm.InvalidInput) as caught:
        place.run(batch_time=1_700_000_009_000)
    assert caught.value.first_line.endswith(
        "the row (n=-1) that operator `first` emitted when a timeout fired, for a key without rows in this batch"
    )


def test_of_two_keys_in_one_group_the_one_that_the_emitted_row_shows_is_named(tmp_path: Path) -> None:
    known: dict[int, str] = {}
    for number in range(10_000):
        key = f"k{number}"
        other = known.setdefault(group_of(_native.key_hashes(pa.record_batch({"k": [key]}))[0].as_py()), key)
        if other != key:
            break
    place = Place(tmp_path, {"0.csv": [(other, 1), (key, 2)]})
    shown = by_row(place.rows, "k", lambda key, row, state: (key, row.v), "k string, n int", "first")
    by_row(shown, "n", refusing(2, "n"), "x int", "second")
    assert failure(place) == (
        f"the row (n=2, k='{key}') that operator `first` emitted for key `'{key}'`; "
        "rows of that key in this batch: `0.csv` row 2"
    )
    place = Place(tmp_path, {})
    by_row(emitting(place.rows), "n", refusing(2, "n"), "x int", "second")
    assert failure(place).startswith("the row (n=2) that operator `first` emitted for keys among `'k")


def test_behind_two_operators_the_files_of_the_batch_are_named(tmp_path: Path) -> None:
    place = Place(tmp_path, {"0.csv": [("a", 1)]})
    second = by_row(emitting(place.rows), "n", lambda key, row, state: (row.n,), "m int", "second")
    by_row(second, "m", refusing(1, "m"), "x int", "third")
    assert failure(place) == "the row (m=1) that operator `second` emitted from the files `0.csv`"


@pytest.mark.parametrize("limit", ["LARGEST_READ", "_MOST_ROWS"])
def test_beyond_its_limits_there_is_no_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    place = Place(tmp_path, {"0.csv": [("a", 1)] * 3})
    by_row(emitting(place.rows), "n", refusing(1, "n"), "x int", "second")
    monkeypatch.setattr(failed_rows, limit, 2)
    assert failure(place) == "the row (n=1) that operator `first` emitted from the files `0.csv`"


def test_a_search_that_fails_leaves_the_error_as_it_is(tmp_path: Path) -> None:
    place = Place(tmp_path, {"0.csv": [("a", 1)]})

    def remove(key: Any, row: Any, state: Any) -> Any:
        (place.inbox / "0.csv").unlink()
        raise ValueError("no")

    by_row(place.rows, "k", remove, "x int", "only")
    assert failure(place) == "the row (k='a', v=1) of file `0.csv`"


def test_an_emitted_row_in_quarantine_has_the_place_of_the_row_that_it_was_emitted_for(tmp_path: Path) -> None:
    place = Place(tmp_path, {"0.csv": [("a", 1), ("a", 2)]})
    by_row(emitting(place.rows), "n", refusing(2, "n"), "x int", "second", on_error="quarantine")
    place.run()
    (row,) = place.open().quarantine().to_pylist()
    assert (row["row"], row["file"], row["text"]) == (2, "0.csv", '{"n": 2}')

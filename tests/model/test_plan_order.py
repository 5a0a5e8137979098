"""The order in which rows reach an operator behind others, beside a naive loop over the rows of the plan."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, run, state
from tidemill.batch.places import MANY_ROWS

SCHEMA = "k string, g string, n int"
Row = tuple[str, str, int]
Batch = list[Row]


def each(key: Any, row: Any, kept: Any) -> Any:
    """Emit the row, with how many rows of its key came before."""
    kept.update((kept.getOption or 0) + 1)
    return (row.k, row.g, row.n)


def whole(key: Any, rows: Iterable[Any], kept: Any) -> Any:
    """Emit the rows of a key once all of them are known, greatest first."""
    kept.update((kept.getOption or 0) + 1)
    return [(row.k, row.g, row.n) for row in sorted(rows, key=lambda row: -row.n)]


def logged(key: Any, row: Any, kept: Any) -> Any:
    """Write down the rows of a key in the order in which they come."""
    kept.update(f"{kept.getOption or ''} {row.k}{row.n}")
    return (row.k, row.g, row.n)


def log(rows: tm.Stream, name: str = "log") -> tm.Stream:
    spec = tm.StateSpec.function(logged)
    return rows.groupBy("g").mapWithState(spec, stateSchema="string", outputSchema=SCHEMA, name=name)


def by_row(rows: tm.Stream) -> tm.Stream:
    spec = tm.StateSpec.function(each)
    return rows.groupBy("k").mapWithState(spec, stateSchema="int", outputSchema=SCHEMA, name="first")


def by_key(rows: tm.Stream) -> tm.Stream:
    return rows.groupBy("k").flatMapGroupsWithState(
        whole, stateSchema="int", outputSchema=SCHEMA, outputMode="append", name="first"
    )


def without_duplicates(rows: tm.Stream) -> tm.Stream:
    return rows.dropDuplicates(["k", "n"], name="first")


FIRST: dict[str, Callable[[tm.Stream], tm.Stream]] = {
    "each row": by_row, "all rows of a key": by_key, "first of a key": without_duplicates,
}  # fmt: skip


def naive(first: str, batches: list[Batch]) -> list[Batch]:
    """The rows that the first operator emits, in the order of the plan."""
    if first == "each row":
        return batches
    if first == "first of a key":
        seen: set[tuple[str, int]] = set()
        return [
            [row for row in rows if not ((row[0], row[2]) in seen or seen.add((row[0], row[2])))] for rows in batches
        ]
    found = []
    for rows in batches:
        last = {row[0]: place for place, row in enumerate(rows)}
        of = {key: sorted((row for row in rows if row[0] == key), key=lambda row: -row[2]) for key in last}
        found.append([row for key in sorted(last, key=lambda key: last[key]) for row in of[key]])
    return found


def log_of(batches: list[Batch]) -> dict[str, str]:
    """What `logged` writes down."""
    found: dict[str, str] = {}
    for k, g, n in (row for rows in batches for row in rows):
        found[g] = f"{found.get(g, '')} {k}{n}"
    return found


def made(seed: int, batches: int = 3, files: int = 3) -> list[list[Batch]]:
    """Rows of some files of each batch."""
    chance = random.Random(seed)
    row = lambda: (chance.choice("abcdefgh"), chance.choice("xyz"), chance.randrange(100))  # noqa: E731
    return [[[row() for _ in range(chance.randrange(60))] for _ in range(files)] for _ in range(batches)]


def ran(folder: Path, build: Any, given: list[list[Batch]], tasks: Any, **conf: Any) -> tm.Repository:
    world = World(
        folder, build, schema=SCHEMA, maxFilesPerTrigger=len(given[0]), conf={"tidemill.block_rows": 7, **conf}
    )
    world.arrive(*(file for files in given for file in files))
    r = world.open()
    assert run(r, tasks=tasks) == list(range(len(given)))
    return r


def plan(given: list[list[Batch]]) -> list[Batch]:
    return [[row for file in files for row in file] for files in given]


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_rows_reach_the_next_operator_in_the_order_of_the_plan(first: str, tasks: int, tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        rows = FIRST[first](world.read(p)).sql("SELECT k, g, n FROM rows WHERE n % 10 <> 3")
        log(rows)
        rows.groupBy("g").agg(first=tm.first("n"), last=tm.last("n"), by=tm.max_by("n", "k"), name="ends")
        log(log(rows, "again"), "chained")

    given = made(len(first))
    r = ran(tmp_path, build, given, tasks)
    wanted = [[row for row in rows if row[2] % 10 != 3] for rows in naive(first, plan(given))]
    assert state(r, "log") == state(r, "chained") == log_of(wanted)
    flat: dict[str, list[int]] = {}
    for _, g, n in (row for rows in wanted for row in rows):
        flat.setdefault(g, []).append(n)
    ends = {row["g"]: (row["first"], row["last"]) for row in r.state("ends").to_pylist()}
    assert ends == {g: (numbers[0], numbers[-1]) for g, numbers in flat.items()}


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_a_union_behind_operators_has_the_order_of_the_plan(tasks: int, tmp_path: Path) -> None:
    """Rows that were read, and rows that two operators emitted for them. Of one row, the read one comes first."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p)
        again = rows.sql("SELECT upper(k) AS k, g, n FROM rows")
        once = rows.dropDuplicates(["k", "n"], name="once").sql("SELECT k || '1' AS k, g, n FROM rows")
        each = by_row(again)
        log(rows.unionByName(once).unionByName(each))

    given = made(11)
    r = ran(tmp_path, build, given, tasks)
    batches = plan(given)
    firsts = naive("first of a key", batches)
    found: dict[str, str] = {}
    for rows, kept in zip(batches, firsts, strict=True):
        left = list(kept)
        for k, g, n in rows:
            text = f" {k}{n}"
            if left and left[0] == (k, g, n):
                left.pop(0)
                text += f" {k}1{n}"
            found[g] = found.get(g, "") + text + f" {k.upper()}{n}"
    assert state(r, "log") == found


@pytest.mark.parametrize("tasks", [1, 2])
def test_many_rows_of_a_block_keep_the_order_of_the_plan(tasks: int, tmp_path: Path) -> None:
    """A chunk of many rows says their block in its head, one of a small file in a column."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p)
        once = rows.dropDuplicates(["k", "n"], name="once").sql("SELECT k || '1' AS k, g, n FROM rows")
        once.groupBy("g").agg(first=tm.first("n"), last=tm.last("n"), name="behind")
        both = rows.unionByName(once)
        both.groupBy("g").agg(first=tm.first("k"), last=tm.last("k"), all=tm.count(), name="union")

    chance = random.Random(tasks)
    row = lambda: (chance.choice("abcdefgh"), f"g{chance.randrange(900)}", chance.randrange(4000))  # noqa: E731
    given = [[row() for _ in range(count)] for count in (MANY_ROWS + 1, 40, 2 * MANY_ROWS)]
    r = ran(tmp_path, build, [given], tasks, **{"tidemill.block_rows": MANY_ROWS + 1})
    seen: set[tuple[str, int]] = set()
    behind: dict[str, list[int]] = {}
    union: dict[str, list[str]] = {}
    for k, g, n in (row for file in given for row in file):
        union.setdefault(g, []).append(k)
        if (k, n) not in seen:
            seen.add((k, n))
            union[g].append(f"{k}1")
            behind.setdefault(g, []).append(n)
    found = {row["g"]: (row["first"], row["last"]) for row in r.state("behind").to_pylist()}
    assert found == {g: (numbers[0], numbers[-1]) for g, numbers in behind.items()}
    found = {row["g"]: (row["first"], row["last"], row["all"]) for row in r.state("union").to_pylist()}
    assert found == {g: (keys[0], keys[-1], len(keys)) for g, keys in union.items()}


@pytest.mark.parametrize("tasks", [1, 3])
def test_what_timers_emit_comes_after_all_rows_by_time(tasks: int, tmp_path: Path) -> None:
    def timed(time: Any, key: Any, row: Any, kept: Any) -> Any:
        if kept.isTimingOut:
            return (key, "x", -1)
        kept.update(1)
        return (row.k, row.g, row.n)

    def build(p: tm.Pipeline, world: World) -> None:
        p.batch_time(lambda plan: 1_000_000 + 60_000 * plan.number)
        spec = tm.StateSpec.function(timed).timeout("150 seconds", clock="batch")
        log(world.read(p).groupBy("k").mapWithState(spec, stateSchema="int", outputSchema=SCHEMA, name="timed"))

    given = [[[(key, "x", number)]] for number, key in enumerate("dacb")] + [[[("e", "x", 9)]], [[("f", "x", 9)]]]
    given += [[[("g", "x", 9)]], [[("h", "x", 9)]]]
    r = ran(tmp_path, build, given, tasks)
    # Each key is due three batches after its row: with 60 seconds a batch, after 150 seconds.
    assert state(r, "log") == {"x": " d0 a1 c2 b3 d-1 e9 a-1 f9 c-1 g9 b-1 h9 e-1"}


def test_several_that_are_due_in_one_batch_come_by_time(tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        times = [0, 1, 2, 3, 4, 5, 100]
        p.batch_time(lambda plan: 1_000_000 + 1_000 * times[plan.number])

        def timed(time: Any, key: Any, row: Any, kept: Any) -> Any:
            if kept.isTimingOut:
                return (key, "x", -1)
            kept.update(1)
            return None

        spec = tm.StateSpec.function(timed).timeout("10 seconds", clock="batch")
        log(world.read(p).groupBy("k").mapWithState(spec, stateSchema="int", outputSchema=SCHEMA, name="timed"))

    given = [[[(key, "x", number)]] for number, key in enumerate("dacbfe")] + [[[("z", "x", 0)]]]
    for tasks in (1, 4):
        r = ran(tmp_path / str(tasks), build, given, tasks)
        assert state(r, "log") == {"x": " d-1 a-1 c-1 b-1 f-1 e-1"}


def test_small_splits_and_little_memory_change_nothing(tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        log(world.read(p).dropDuplicates(["k", "n"], name="first"))

    given = made(5, batches=2, files=40)
    wanted = log_of(naive("first of a key", plan(given)))
    assert state(ran(tmp_path / "one", build, given, 1), "log") == wanted
    little = ran(tmp_path / "little", build, given, "auto", **{"tidemill.task_memory_bytes": "64 KiB"})
    assert state(little, "log") == wanted


def test_rows_with_one_place_have_one_order_for_any_number_of_tasks(tmp_path: Path) -> None:
    """A function emits several rows for a row, duplicates of which are removed, and the order of the rest matters."""

    def words(key: Any, rows: Iterable[Any], kept: Any) -> Any:
        return [(word, 1) for row in rows for word in row.g.split()]

    def build(p: tm.Pipeline, world: World) -> None:
        made = world.read(p).groupBy("k").flatMapGroupsWithState(
            words, stateSchema="int", outputSchema="word string, one int", outputMode="append", name="words"
        )  # fmt: skip
        once = made.dropDuplicates(["word"], name="once")
        once.groupBy("one").agg(first=tm.first("word"), last=tm.last("word"), name="ends")
        itself = world.read(p, "again").sql("SELECT k, g AS word FROM rows")
        upper = itself.sql("SELECT k, upper(word) AS word FROM rows")
        twice = itself.unionByName(upper).dropDuplicates(["word"], name="twice")
        twice.groupBy("k").agg(first=tm.first("word"), last=tm.last("word"), name="both")

    given = [[[("ann", "the quick brown fox jumps over the lazy dog", 1)] * 2]]
    done = [ran(tmp_path / str(tasks), build, given, tasks) for tasks in (1, 2, 5)]
    found = [[r.state(name).select([0, 1, 2]).to_pylist() for name in ("ends", "both")] for r in done]
    assert found[0] == found[1] == found[2]

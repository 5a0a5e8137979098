"""`diff` and `changes` between random versions of two branches, beside whole states joined in Python.

The branch repeats versions of `main` with another function, or runs on by itself; both rewind now and then. The model
reads whole states and outputs; the engine must find the same differences from the segments that are not shared.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import Build, World
from tidemill.reading.diff_outputs import OutputDiff
from tidemill.reading.diff_state import StateDiff

pytestmark = pytest.mark.slow("long random runs")

Key = tuple[Any, ...]


def totals(factor: int) -> Build:
    """Totals of doubles by two key columns, with a timeout; keys go when their total is above 11."""

    def total(key: Any, row: Any, state: Any) -> tuple[Any, ...] | None:
        before = state.getOption
        new = (before.total if before else 0.0) + factor * row.v
        if new > 11:
            state.remove()
        else:
            state.update((new, f"{row.v}"))
        return (*key, new)

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p)
        spec = tm.StateSpec.function(total)
        rows.groupBy("k", "j").mapWithState(
            spec, name="totals", stateSchema="total double, last string", outputSchema="k string, j int, total double"
        )
        rows.groupBy("j").agg(n=tm.count(), mean=tm.mean("v"), name="by-j")

    return build


class Branches(World):
    """Two branches with some versions each."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, totals(1), schema="k string, j int, v double")
        self.chance = chance

    def live(self, r: tm.Repository) -> None:
        """Let files arrive, and run; now and then rewind or maintain."""
        for _ in range(self.chance.randint(1, 3)):
            rows = [(self.chance.choice("abcdef"), self.chance.randint(0, 3), self.chance.choice([1, 5, 6.5]))
                    for _ in range(self.chance.randint(1, 6))]  # fmt: skip
            self.arrive(rows)
        r.run(engine="local", tasks=self.chance.choice([1, 3]))
        head = r.head
        assert head is not None
        if head.version > 3 and self.chance.random() < 0.3:
            r.rewind(self.chance.randint(head.version - 2, head.version - 1), "a test")
            r.run(engine="local")
        if self.chance.random() < 0.2:
            r.maintain()


def state(r: tm.Repository, version: int | str, operator: str, key: list[str]) -> dict[Key, dict[str, Any]]:
    rows = r.state(operator, version=version).to_pylist()
    return {
        tuple(row[name] for name in key): {
            name: value for name, value in row.items() if name not in (*key, "updated_at", "deadline")
        }
        for row in rows
    }


def naive(before: dict[Key, Any], after: dict[Key, Any]) -> dict[Key, tuple[Any, Any]]:
    return {
        key: (before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }


def as_dict(table: Any, key: list[str]) -> dict[Key, tuple[Any, Any]]:
    rows = table.to_pylist()
    found = {tuple(row[name] for name in key): (row["before"], row["after"]) for row in rows}
    assert len(found) == len(rows), "each key once"
    return found


def outputs(r: tm.Repository, branch: str, version: int, sink: str) -> Counter[Any]:
    """The rows of the effective history of a version, read version by version."""
    opened = tm.open(r.opened.pipeline, root=r.opened.root, branch=branch)
    if version < 0:
        return Counter()
    undone = [range(first, last + 1) for first, last in opened.commit(version).replaced]
    rows = [
        row
        for one in range(version + 1)
        if not any(one in span for span in undone)
        for row in opened.outputs(version=one, sink=sink).drop_columns(["_batch_id", "_seq"]).to_pylist()
    ]
    return Counter(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("seed", range(2))
def test_diff_finds_what_a_full_join_finds(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    world = Branches(tmp_path, chance)
    r = world.open()
    for _ in range(3):
        world.live(r)
    assert r.head is not None
    fork = chance.randint(0, r.head.version)
    same = chance.random() < 0.3
    r.branch("fix", at=fork)
    fix = world.but(totals(1 if same else 2)).open("fix")
    fix.run(engine="local")
    world.live(fix)
    world.live(r)
    heads = {"main": r.head.version, "fix": fix.head.version if fix.head is not None else -1}
    specs = [(branch, chance.randint(-1, heads[branch])) for branch in ("main", "fix") for _ in range(5)]
    for (branch_a, a), (branch_b, b) in [(chance.choice(specs), chance.choice(specs)) for _ in range(8)]:
        one, other = f"{branch_a}@{a}", f"{branch_b}@{b}"
        for operator, key in (("totals", ["k", "j"]), ("by-j", ["j"])):
            expected = naive(state(r, one, operator, key), state(r, other, operator, key))
            found = r.diff(one, other, operator=operator)
            assert isinstance(found, StateDiff)
            assert as_dict(found.table, key) == expected, (one, other)
            added = sum(before is None for before, _ in expected.values())
            removed = sum(after is None for _, after in expected.values())
            assert (found.added, found.removed, found.changed) == (added, removed, len(expected) - added - removed)
            assert (found.before, found.after, found.not_compared) == (one, other, [])
            assert as_dict(r.changes(operator, one, other), key) == expected
            few = r.diff(one, other, operator=operator, limit=2)
            assert isinstance(few, StateDiff) and few.total == found.total
            assert few.table.equals(found.table.slice(0, 2))
        rows = r.diff(one, other, sink="totals")
        assert isinstance(rows, OutputDiff)
        before, after = outputs(r, branch_a, a, "totals"), outputs(r, branch_b, b, "totals")
        assert Counter(tuple(row.values()) for row in rows.added_rows.to_pylist()) == after - before
        assert Counter(tuple(row.values()) for row in rows.removed_rows.to_pylist()) == before - after
        assert (rows.added, rows.removed) == ((after - before).total(), (before - after).total())


def test_changes_by_version_are_those_of_each_version_of_the_effective_history(tmp_path: Path) -> None:
    world = Branches(tmp_path, random.Random(7))
    r = world.open()
    for _ in range(4):
        world.live(r)
    head = r.head
    assert head is not None and head.replaced, "the seed has a rewind"
    history = [-1, *(v for v in range(head.version + 1) if not any(a <= v <= b for a, b in head.replaced))]
    start = history[2]
    expected = []
    for before, version in itertools.pairwise(history[2:]):
        changed = naive(state(r, before, "totals", ["k", "j"]), state(r, version, "totals", ["k", "j"]))
        expected += [(version, "main", *key, *values) for key, values in changed.items()]
    table = r.changes("totals", start, head.version, each=True)
    found = [tuple(row.values()) for row in table.to_pylist()]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert [row[0] for row in found] == sorted(row[0] for row in found)
    keys = [("a", 0), ("b", 1), ("nothing", 9)]
    few = r.changes("totals", start, head.version, each=True, keys=keys)
    assert [tuple(row.values()) for row in few.to_pylist()] == [row for row in found if row[2:4] in keys]
    undone = next(first for first, _ in head.replaced)
    with pytest.raises(tm.InvalidInput, match="is not in the effective history of the second one"):
        r.changes("totals", undone, head.version, each=True)


@pytest.mark.parametrize("seed", range(2))
def test_history_has_every_version_of_the_effective_history_that_changed_the_key(tmp_path: Path, seed: int) -> None:
    world = Branches(tmp_path, random.Random(seed + 40))
    r = world.open()
    for _ in range(5):
        world.live(r)
    r.branch("fix", at=2)
    fix = world.but(totals(2)).open("fix")
    fix.run(engine="local")
    fix.rewind(1, "a test")
    fix.run(engine="local")
    for branch in (r, fix):
        head = branch.head
        assert head is not None
        effective = [v for v in range(head.version + 1) if not any(a <= v <= b for a, b in head.replaced)]
        states = {v: state(branch, v, "totals", ["k", "j"]) for v in [-1, *effective]}
        removed = 0
        for key in [*{key for one in states.values() for key in one}, ("nothing", 9)]:
            expected = [
                (version, states[version].get(key))
                for before, version in itertools.pairwise([-1, *effective])
                if states[before].get(key) != states[version].get(key)
            ]
            found = branch.history("totals", key)
            assert [(one.version, one.value) for one in found] == expected, key
            removed += sum(value is None for _, value in expected)
            for one in found:
                assert one.kind == "batch", (one, head.replaced)
                (name,) = one.files
                lines = (world.inbox / name).read_text().splitlines()
                rows = [line.split(",") for line in lines]
                assert one.rows == [{"k": k, "j": int(j), "v": float(v)} for k, j, v in rows if (k, int(j)) == key]
                assert one.rows and not one.unread and one.kind == "batch"
        assert removed or branch is fix, "the seed removes keys"

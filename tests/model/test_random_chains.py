"""Random graphs of operators, steps and unions beside a naive loop: states, the order of rows, and all counts."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.exhaustive import examples
from tests.world import World, run, state
from tidemill.values import dataclass

SCHEMA, BAD = "k string, g string, n int", 13
Row = tuple[str, str, int]
Placed = tuple[tuple[int, int], Row]
"""A row with its place, and the number of the operator that emitted it; -1 if it was read."""
Batch = list[Placed]


@dataclass(frozen=True)
class Flow:
    """A stream, and what it is in each batch of the naive loop."""

    stream: tm.Stream
    batches: list[Batch]
    ends: frozenset[int]
    """The operators whose rows it has; -1 for the source."""


class Graph:
    """A random pipeline. `counts` has by operator, for each batch, the rows that reached it and those that failed."""

    def __init__(self, seed: int, given: list[list[Row]]) -> None:
        self.seed, self.given = seed, given
        self.counts: dict[str, list[tuple[int, int]]] = {}
        self.logs: dict[str, dict[str, list[list[str]]]] = {}

    def build(self, p: tm.Pipeline, world: World) -> None:
        chance = random.Random(self.seed)
        self.counts, self.logs = {}, {}
        rows = [[((place, -1), row) for place, row in enumerate(batch)] for batch in self.given]
        flows = [Flow(world.read(p), rows, frozenset((-1,)))]
        makers: list[Callable[[random.Random, list[Flow]], Flow | None]] = [self._filter, self._once, self._each]
        for _ in range(chance.randrange(3, 7)):
            made = chance.choice([*makers, self._union, self._each, self._union])(chance, flows)
            flows += [] if made is None else [made]
        for flow in flows[-3:]:
            self._log(flow)

    def _filter(self, chance: random.Random, flows: list[Flow]) -> Flow:
        flow, left = chance.choice(flows), chance.randrange(5)
        stream = flow.stream.sql(f"SELECT k, g, n FROM rows WHERE n % 5 <> {left}")
        return Flow(stream, [[one for one in rows if one[1][2] % 5 != left] for rows in flow.batches], flow.ends)

    def _once(self, chance: random.Random, flows: list[Flow]) -> Flow:
        flow, number = chance.choice(flows), len(self.counts)
        name, seen = f"once{number}", set[tuple[str, int]]()
        self.counts[name] = [(len(rows), 0) for rows in flow.batches]
        batches: list[Batch] = []
        for rows in flow.batches:
            batches.append([])
            for (place, _), row in rows:
                if (row[0], row[2]) not in seen:
                    seen.add((row[0], row[2]))
                    batches[-1].append(((place, number), row))
        return Flow(flow.stream.dropDuplicates(["k", "n"], name=name), batches, frozenset((number,)))

    def _each(self, chance: random.Random, flows: list[Flow]) -> Flow:
        """A row for a row, with its key upside down. A key with a bad row fails, with all its rows of the batch."""
        flow, number = chance.choice(flows), len(self.counts)
        name, by = f"each{number}", chance.choice("kg")
        at = "kg".index(by)

        def each(key: Any, row: Any, kept: Any) -> Any:
            if row.n == BAD:
                raise ValueError("unlucky")
            kept.update((kept.getOption or 0) + 1)
            return (row.k.swapcase(), row.g, row.n)

        spec = tm.StateSpec.function(each)
        stream = flow.stream.groupBy(by).mapWithState(spec, "int", SCHEMA, name=name, on_error="quarantine")
        self.counts[name], batches = [], []
        for rows in flow.batches:
            bad = {row[at] for _, row in rows if row[2] == BAD}
            good = [one for one in rows if one[1][at] not in bad]
            self.counts[name].append((len(rows), len(rows) - len(good)))
            batches.append([((place, number), (row[0].swapcase(), *row[1:])) for (place, _), row in good])
        return Flow(stream, batches, frozenset((number,)))

    def _union(self, chance: random.Random, flows: list[Flow]) -> Flow | None:
        """Of one place, the row that was read comes first, then those of the operators in the order of the code."""
        one, other = chance.choice(flows), chance.choice(flows)
        if one.ends & other.ends:
            return None
        batches = [sorted([*a, *b], key=lambda row: row[0]) for a, b in zip(one.batches, other.batches, strict=True)]
        return Flow(one.stream.unionByName(other.stream), batches, one.ends | other.ends)

    def _log(self, flow: Flow) -> None:
        name, found = f"log{len(self.counts)}", dict[str, dict[Any, list[str]]]()

        def logged(key: Any, row: Any, kept: Any) -> Any:
            kept.update(f"{kept.getOption or ''} {row.k}{row.n}")

        spec = tm.StateSpec.function(logged)
        flow.stream.groupBy("g").mapWithState(spec, "string", SCHEMA, name=name)
        self.counts[name] = [(len(rows), 0) for rows in flow.batches]
        for batch, rows in enumerate(flow.batches):
            for at, (k, g, n) in rows:
                found.setdefault(g, {}).setdefault((batch, at), []).append(f"{k}{n}")
        self.logs[name] = {g: [sorted(of_place) for of_place in places.values()] for g, places in found.items()}


def made(seed: int) -> list[list[list[Row]]]:
    """Rows of the files of some batches."""
    chance = random.Random(seed + 1_000)

    def row() -> Row:
        return chance.choice("abcdef"), chance.choice("xyz"), chance.choice([*range(10), *range(10), BAD])

    return [[[row() for _ in range(chance.randrange(25))] for _ in range(2)] for _ in range(3)]


def in_groups(tokens: list[str], like: list[list[str]]) -> list[list[str]]:
    """Rows that one operator emitted for one row of the plan come in the order of the hashes of their keys."""
    rest = iter(tokens)
    found = [sorted(token for _, token in zip(group, rest, strict=False)) for group in like]
    return [*found, *([one] for one in rest)]


@pytest.mark.parametrize("seed", range(examples(45)))
def test_states_order_and_counts_are_those_of_a_plain_loop(seed: int, tmp_path: Path) -> None:
    given = made(seed)
    graph = Graph(seed, [[row for file in files for row in file] for files in given])
    world = World(
        tmp_path, graph.build, schema=SCHEMA, maxFilesPerTrigger=2, conf={"tidemill.block_rows": 4 + seed % 5}
    )
    world.arrive(*(file for files in given for file in files))
    r = world.open()
    assert run(r, tasks=1 + seed % 4) == [0, 1, 2]
    for name, log in graph.logs.items():
        found = {g: in_groups(text.split(), log[g]) for g, text in state(r, name).items()}
        assert found == log, name
    for version in range(3):
        operators = r.commit(version).operators
        found = {name: (one.reached_rows, one.quarantined_rows) for name, one in operators.items()}
        assert found == {name: counts[version] for name, counts in graph.counts.items()}, version
        assert all(one.applied_rows + one.quarantined_rows == one.reached_rows for one in operators.values())
    assert len(r.quarantine().to_pylist()) == sum(failed for of in graph.counts.values() for _, failed in of)
    assert r.verify(deep=True).problems == []

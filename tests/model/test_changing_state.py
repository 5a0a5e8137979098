"""Random deploys beside a naive model: fields are added, widened, renamed and dropped, aggregates added, keys widened.

Earlier versions are read again, with the columns that they had. One repository runs in one task, another in three; both
hold the same bits.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import World

WIDER = {"tinyint": "smallint", "smallint": "int", "int": "bigint", "float": "double"}
STEPS, KEYS, BITE = 9, 40, 7


def by_file_name(plan: Any) -> int:
    return 60_000 * (1 + int(re.sub(r"\D", "", Path(plan.splits[0].path).stem)))


@dataclass
class Code:
    """What the user's code declares now."""

    name: str = "sums"
    key: str = "tinyint"
    fields: dict[str, str] = field(default_factory=lambda: {"f0": "tinyint", "f1": "float"})
    aggregates: int = 1

    def build(self, p: tm.Pipeline, world: World) -> None:
        fields = tuple(self.fields)

        def add(row: Any, state: Any) -> None:
            """Add to every field; a multiple of `BITE` removes the key."""
            before = state.getOption
            if row.n % BITE == 0:
                if before is not None:
                    state.remove()
                return
            known = {name: None if before is None else getattr(before, name) for name in fields}
            state.update({name: row.n if value is None else (value + row.n) % 100 for name, value in known.items()})

        p.batch_time(by_file_name)
        rows = world.read(p, schema=f"k {self.key}, n int")
        schema = ", ".join(f"{name} {kind}" for name, kind in self.fields.items())
        rows.groupBy("k").mapWithState(tm.StateSpec.function(add), schema, "string", name=self.name)
        functions = {
            "n": tm.count(),
            "total": tm.sum("n"),
            "first": tm.first("n"),
            "mean": tm.mean("n"),
            "spread": tm.var("n"),
            "seen": tm.collect_set("n", 1000),
            "about": tm.approx_count_distinct("n"),
            "top": tm.max_by("n", "n"),
        }
        rows.groupBy("k").agg(name="counts", **dict(list(functions.items())[: self.aggregates]))


@dataclass
class Model:
    """What the state must be: rows of `sums`, and for each aggregate the values since it was added."""

    sums: dict[int, dict[str, Any]] = field(default_factory=dict)
    values: dict[int, list[list[int]]] = field(default_factory=dict)

    def batch(self, code: Code, rows: list[tuple[int, int]]) -> None:
        for k, n in rows:
            seen = self.values.setdefault(k, [])
            seen += [[] for _ in range(code.aggregates - len(seen))]
            for values in seen[: code.aggregates]:
                values.append(n)
            if n % BITE == 0:
                self.sums.pop(k, None)
                continue
            before = self.sums.get(k, {})
            self.sums[k] = {name: n if before.get(name) is None else (before[name] + n) % 100 for name in code.fields}

    def counts(self, code: Code) -> dict[int, tuple[Any, ...]]:
        found = {}
        for k, values in self.values.items():
            of_each = [*values, *([] for _ in range(code.aggregates - len(values)))]
            finish = (
                len,
                lambda v: sum(v) if v else None,
                lambda v: v[0] if v else None,
                lambda v: sum(v) / len(v) if v else None,
                lambda v: None if len(v) < 2 else sum((one - sum(v) / len(v)) ** 2 for one in v) / (len(v) - 1),
                lambda v: list(dict.fromkeys(v)),
                lambda v: len(set(v)),
                lambda v: max(v) if v else None,
            )
            found[k] = tuple(finish[at](of_each[at]) for at in range(code.aggregates))
        return found


def changed(code: Code, model: Model, chance: random.Random) -> tuple[dict[str, Any], dict[str, str]]:
    """Deploy something else, and return the functions and renames of the migration that it needs."""
    what = chance.choice(
        ["add", "widen", "aggregate", "key", "rename field", "drop field", "rename operator", "nothing"]
    )
    names, fields = list(code.fields), dict(code.fields)
    if what == "add":
        at, name = chance.randrange(len(names) + 1), f"f{chance.randrange(10**6)}"
        items = list(fields.items())
        code.fields = dict([*items[:at], (name, chance.choice(["tinyint", "float", "bigint"])), *items[at:]])
    elif what == "widen":
        name = chance.choice(names)
        code.fields[name] = WIDER.get(fields[name], fields[name])
    elif what == "aggregate":
        code.aggregates = min(8, code.aggregates + chance.randrange(1, 3))
    elif what == "key":
        code.key = WIDER.get(code.key, code.key)
    elif what == "rename field":
        old, new = chance.choice(names), f"f{chance.randrange(10**6)}"
        code.fields = {new if name == old else name: kind for name, kind in fields.items()}
        for row in model.sums.values():
            row[new] = row.pop(old, None)
        return {code.name: lambda t: t.rename_columns([new if name == old else name for name in t.column_names])}, {}
    elif what == "drop field" and len(names) > 1:
        gone = chance.choice(names)
        del code.fields[gone]
        return {code.name: lambda t: t.drop_columns([gone])}, {}
    elif what == "rename operator":
        old, code.name = code.name, f"sums-{chance.randrange(10**6)}"
        return {}, {old: code.name}
    return {}, {}


def read(r: tm.Repository, operator: str, version: int) -> pa.Table:
    return r.state(operator, version=version)


def same_rows(found: dict[int, tuple[Any, ...]], expected: dict[int, tuple[Any, ...]]) -> None:
    assert found.keys() == expected.keys()
    for k, values in expected.items():
        for one, other in zip(found[k], values, strict=True):
            assert one == (pytest.approx(other, rel=1e-9) if isinstance(other, float) else other), k


@pytest.mark.parametrize("seed", range(3))
def test_random_deploys_keep_the_state_of_the_model(seed: int, tmp_path: Path) -> None:
    chance, code, model = random.Random(seed), Code(), Model()
    worlds = {tasks: World(tmp_path, code.build, name="changing", root=f"root-{tasks}") for tasks in (1, 3)}
    opened = {tasks: world.open() for tasks, world in worlds.items()}
    before: dict[int, dict[str, pa.Table]] = {}
    for step in range(STEPS):
        functions, renames = changed(code, model, chance) if step else ({}, {})
        rows = [(chance.randrange(KEYS), chance.randrange(1, 100)) for _ in range(chance.choice([5, 60]))]
        worlds[1].arrive(rows)
        for tasks, world in worlds.items():
            opened[tasks] = world.open(init=False)
            if functions or renames:
                assert opened[tasks].check().status != "compatible"
                commit = opened[tasks].migrate(functions, rename=renames, reason="a test", tasks=tasks)
                assert (commit.kind, commit.reason) == ("migrate", "a test")
            assert opened[tasks].check().status == "compatible"
            assert [p.numInputRows for p in opened[tasks].run(engine="local", tasks=tasks)] == [len(rows)]
        model.batch(code, rows)
        one, three = opened[1], opened[3]
        assert one.head is not None
        versions = {name: read(one, name, one.head.version) for name in (code.name, "counts")}
        assert versions == {name: read(three, name, one.head.version) for name in versions}
        sums = versions[code.name].select(["k", *code.fields]).to_pylist()
        expected = {k: tuple(row.get(name) for name in code.fields) for k, row in model.sums.items()}
        same_rows({row.pop("k"): tuple(row.values()) for row in sums}, expected)
        counts = versions["counts"].drop_columns(["updated_at", "deadline"]).to_pylist()
        same_rows({row.pop("k"): tuple(row.values()) for row in counts}, model.counts(code))
        before[one.head.version] = versions
        for version, tables in before.items() if step % 3 == 2 else ():
            assert {name: read(three, name, version) for name in tables} == tables, version
    assert opened[3].verify(deep=True).problems == []

"""Every operator, every change of the type of its column: refused, or as if all rows had been read with the new type.

The model is a repository that starts afresh with the new type. One repository holds all operators, so that `check`
judges each of them; another only those that it accepts, and these must equal the model.
"""

from __future__ import annotations

import functools
import json
import random
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.protocol.tied import fault

ROWS = 40


class Counted(tm.StatefulProcessor):
    """Counts rows by a user key that has the type of the column."""

    def __init__(self, kind: str) -> None:
        """`kind` is the type of the user key."""
        self.kind = kind

    def init(self, handle: Any) -> None:
        """Declare the variable."""
        self.seen = handle.getMapState("seen", f"v {self.kind}", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Count the rows."""
        for row in rows:
            if row.v is not None:
                before = self.seen.getValue((row.v,))[0] if self.seen.containsKey((row.v,)) else 0
                self.seen.updateValue((row.v,), (before + 1,))
        yield tm.Row(k=key[0])

    def close(self) -> None:
        """Nothing to close."""


def user_keys(rows: Any, kind: str) -> Any:
    counted = Counted(kind)
    return rows.groupBy("k").transformWithState(counted, "k string", "Append", "None", name="user-keys")


AGGREGATES: dict[str, Callable[[], Any]] = {
    "count": lambda: tm.count("v"),
    "sum": lambda: tm.sum("v"),
    "mean": lambda: tm.mean("v"),
    "var": lambda: tm.var("v"),
    "stddev": lambda: tm.stddev("v"),
    "min": lambda: tm.min("v"),
    "max": lambda: tm.max("v"),
    "first": lambda: tm.first("v"),
    "last": lambda: tm.last("v"),
    "min-by": lambda: tm.min_by("n", "v"),
    "max-by": lambda: tm.max_by("v", "n"),
    "collect-set": lambda: tm.collect_set("v", limit=100),
    "approx-count-distinct": lambda: tm.approx_count_distinct("v"),
}
OPERATORS: dict[str, Callable[[Any, str], Any]] = {
    **{name: lambda rows, _, name=name: rows.groupBy("k").agg(v=AGGREGATES[name](), name=name) for name in AGGREGATES},
    **{
        f"{name}-by-window": lambda rows, _, name=name: rows.groupBy(tm.window("ts", "10 minutes"), "k").agg(
            v=AGGREGATES[name](), name=f"{name}-by-window"
        )
        for name in ("sum", "max", "collect-set")
    },
    **{
        f"{name}-by-session": lambda rows, _, name=name: rows.groupBy(tm.session_window("ts", "2 minutes"), "k").agg(
            v=AGGREGATES[name](), name=f"{name}-by-session"
        )
        for name in ("mean", "first", "approx-count-distinct")
    },
    "key": lambda rows, _: rows.groupBy("v").agg(c=tm.count(), name="key"),
    "key-of-windows": lambda rows, _: rows.groupBy(tm.window("ts", "10 minutes"), "v").agg(
        c=tm.count(), name="key-of-windows"
    ),
    "key-of-sessions": lambda rows, _: rows.groupBy("v", tm.session_window("ts", "2 minutes")).agg(
        c=tm.count(), name="key-of-sessions"
    ),
    "duplicates": lambda rows, _: rows.groupBy("k", "v").dropDuplicates(name="duplicates"),
    "duplicates-within": lambda rows, _: rows.groupBy("v").dropDuplicatesWithinWatermark(name="duplicates-within"),
    "user-keys": user_keys,
}
ORDINARY = frozenset(OPERATORS)
HASHED = frozenset(("approx-count-distinct", "approx-count-distinct-by-session"))
UNTIED = frozenset(("count",))
"""Their state does not depend on the type."""
NUMBERS = frozenset(("count", "mean", "mean-by-session", "var", "stddev"))
"""Their state is a double, whatever the number is."""
SUMS = frozenset(("sum", "sum-by-window"))


@dataclass(frozen=True)
class Change:
    """A column that gets another type. `values` are texts of CSV, or values of JSON, that both types have."""

    before: str
    after: str
    values: tuple[Any, ...]
    accepted: frozenset[str] = UNTIED


WHOLE = tuple(str(n) for n in range(1, 30))
TENTHS = tuple(f"{n}.{n % 10}" for n in range(30))
DAYS = tuple(f"2024-01-{day:02d}" for day in range(1, 29))
TIMES = tuple(f"{day} 01:30:00" for day in DAYS)
CHANGES = [
    Change("tinyint", "smallint", WHOLE, ORDINARY),
    Change("tinyint", "bigint", WHOLE, ORDINARY - HASHED),
    Change("smallint", "int", WHOLE, ORDINARY),
    Change("int", "bigint", WHOLE, ORDINARY - HASHED),
    Change("bigint", "int", WHOLE, NUMBERS | SUMS),
    Change("int", "float", WHOLE),
    Change("int", "double", WHOLE, NUMBERS),
    Change("double", "int", WHOLE, NUMBERS),
    Change("bigint", "double", ("9007199254740993", "9007199254740995", "1", "3"), NUMBERS),
    Change("int", "decimal(10,0)", WHOLE, UNTIED | {"var", "stddev"}),
    Change("bigint", "decimal(18,0)", WHOLE, UNTIED | {"var", "stddev"} | HASHED),
    Change("bigint", "decimal(19,0)", WHOLE, UNTIED | {"var", "stddev"}),
    Change("float", "double", TENTHS),
    Change("double", "float", TENTHS),
    Change("decimal(5,2)", "decimal(9,2)", TENTHS, ORDINARY),
    Change("decimal(9,2)", "decimal(18,2)", TENTHS, ORDINARY),
    Change("decimal(18,2)", "decimal(30,2)", TENTHS, ORDINARY - HASHED),
    Change("decimal(20,2)", "decimal(30,2)", TENTHS, ORDINARY),
    Change("decimal(30,2)", "decimal(38,2)", TENTHS, ORDINARY),
    Change("decimal(9,2)", "decimal(5,2)", TENTHS, UNTIED | {"var", "stddev"} | HASHED),
    Change("decimal(9,2)", "decimal(9,3)", TENTHS, UNTIED | {"var", "stddev"}),
    Change("decimal(9,2)", "double", TENTHS, UNTIED | {"var", "stddev"}),
    Change("decimal(9,2)", "float", TENTHS),
    Change("date", "timestamp", DAYS),
    Change("timestamp", "timestamp_ntz", TIMES),
    Change("timestamp_ntz", "timestamp", TIMES),
    Change("string", "int", WHOLE),
    Change("int", "string", WHOLE),
    Change("string", "date", DAYS),
    Change("string", "binary", DAYS, UNTIED | HASHED),
    Change("boolean", "string", ("true", "false")),
]


def structs(**fields: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True))


INTEGERS, FRACTIONS = tuple(n // 3 for n in range(12)), tuple(n % 5 / 10 for n in range(12))
BOTH = structs(a=INTEGERS, b=FRACTIONS)
NESTED = [
    Change("struct<a: int>", "struct<a: bigint>", structs(a=INTEGERS), ORDINARY),
    Change("struct<a: int>", "struct<a: int, b: double>", BOTH),
    Change("struct<a: int, b: double>", "struct<a: int>", BOTH),
    Change("struct<a: float>", "struct<a: double>", structs(a=FRACTIONS)),
    Change("array<int>", "array<bigint>", tuple([n, n + 1] for n in INTEGERS), ORDINARY),
    Change("array<float>", "array<double>", tuple([n, 0.3] for n in FRACTIONS)),
    Change("array<struct<a: int>>", "array<struct<a: int, b: double>>", tuple([one] for one in BOTH)),
    Change("map<string,int>", "map<string,bigint>", tuple({"x": n} for n in INTEGERS), ORDINARY),
    Change("map<string,float>", "map<string,double>", tuple({"x": n} for n in FRACTIONS)),
]  # fmt: skip


def repository(folder: Path, kind: str, operators: Iterable[str], root: str) -> tm.Repository:
    """Return a repository over the files of `folder` in which `v` has this type, with these operators."""
    p = tm.Pipeline("changes", timeZone="Europe/Berlin")
    form: Any = "json" if "<" in kind else "csv"
    files = tm.Files(
        str(folder),
        format=form,
        schema=f"k string, n int, ts timestamp, v {kind}",
        maxFilesPerTrigger=1,
        mode="FAILFAST",
    )
    rows = p.read(files).withWatermark("ts", "10 days")
    for name in operators:
        OPERATORS[name](rows, kind)
    return tm.open(p, root=root)


@functools.cache
def is_possible(name: str, kind: str) -> bool:
    """Whether an operator accepts a column of this type at all."""
    p = tm.Pipeline("possible")
    try:
        OPERATORS[name](p.read(tm.Rows(f"k string, n int, ts timestamp, v {kind}")).withWatermark("ts", "1 day"), kind)
    except tm.InvalidInput:
        return False
    return True


def write(folder: Path, number: int, change: Change) -> None:
    """Write a file of random rows. Values occur several times, also in several files."""
    chance = random.Random(f"{change.before} {change.after} {number}")
    folder.mkdir(exist_ok=True)
    lines = []
    for n in range(ROWS):
        k, ts, v = chance.choice("ab"), f"2024-01-01 00:{chance.randrange(60):02d}:00", chance.choice(change.values)
        row = {"k": k, "n": n + number * ROWS, "ts": ts, "v": v}
        lines.append(json.dumps(row) if "<" in change.before else ",".join(map(str, row.values())))
    (folder / f"{number}.{'json' if '<' in change.before else 'csv'}").write_text("\n".join(lines) + "\n")


def comparable(state: pa.Table) -> list[str]:
    """Return state so that equal state is equal, to the last bit of a float."""
    return sorted(map(repr, state.drop_columns(["updated_at", "deadline"]).to_pylist()))


def memory() -> str:
    return f"memory://{uuid.uuid4().hex}"


def first_batch(folder: Path, change: Change, operators: list[str], root: str) -> None:
    """Read the first file with the old type."""
    r = repository(folder, change.before, operators, root)
    r.init()
    r.run(engine="local")


def judged(r: tm.Repository) -> dict[str, list[Any]]:
    """Return the differences that `check` refuses, by operator."""
    found: dict[str, list[Any]] = {}
    for one in r.check().differences:
        if one.status != "compatible":
            found.setdefault(one.operator, []).append(one)
    return found


@pytest.mark.parametrize("change", [*CHANGES, *NESTED], ids=lambda one: f"{one.before} to {one.after}")
def test_a_change_of_type_is_refused_or_gives_the_state_of_a_fresh_start(tmp_path: Path, change: Change) -> None:
    folder, root = tmp_path / "in", memory()
    names = [name for name in OPERATORS if is_possible(name, change.before) and is_possible(name, change.after)]
    write(folder, 1, change)
    first_batch(folder, change, names, root)
    changed = repository(folder, change.after, names, root)
    refused = judged(changed)
    accepted = [name for name in names if name not in refused]
    assert set(accepted) == change.accepted.intersection(names)
    for name, differences in refused.items():
        assert all(one.message.startswith(f"operator `{name}` has ") and one.hint for one in differences)
    if refused:
        with pytest.raises(tm.InvalidInput) as error:
            changed.run(engine="local")
        first = next(iter(refused.values()))[0]
        assert (error.value.message, error.value.hint) == (first.message, first.hint)
        root = memory()
        first_batch(folder, change, accepted, root)
    _same_as_fresh(folder, change, accepted, root)


def test_every_operator_accepts_a_number() -> None:
    assert all(is_possible(name, "int") for name in OPERATORS)


def _same_as_fresh(folder: Path, change: Change, accepted: list[str], root: str) -> None:
    write(folder, 2, change)
    new, fresh = repository(folder, change.after, accepted, root), repository(folder, change.after, accepted, memory())
    assert new.check().status == "compatible"
    new.run(engine="local")
    fresh.init()
    fresh.run(engine="local")
    assert new.head.version == fresh.head.version == 1
    for name in accepted:
        state, expected = new.state(name), fresh.state(name)
        assert state.num_rows and state.schema == expected.schema
        assert comparable(state) == comparable(expected), name


FAMILIES = {
    "0 1 7 100 -3": "tinyint smallint int bigint decimal(3,0) decimal(18,0) decimal(19,0) decimal(38,0) decimal(5,1) "
    "float double string binary",
    "0.1 -2.5 7.0": "decimal(5,1) decimal(5,2) decimal(9,2) decimal(18,2) decimal(19,2) decimal(38,2) float double "
    "string binary",
    "1970-01-02 2024-07-01": "date timestamp timestamp_ntz string binary",
    "true false": "boolean string binary",
}


@pytest.mark.parametrize("texts", FAMILIES)
def test_sketches_of_two_types_are_equal_exactly_if_the_rule_says_so(tmp_path: Path, texts: str) -> None:
    """The engine hashes the same values as each type."""
    kinds = FAMILIES[texts].split()
    columns = [f"c{n}" for n in range(len(kinds))]
    (tmp_path / "1.csv").write_text("".join(",".join(["a", *[text] * len(kinds)]) + "\n" for text in texts.split()))
    p = tm.Pipeline("hashes", timeZone="Europe/Berlin")
    schema = ", ".join(["k string", *map(" ".join, zip(columns, kinds, strict=True))])
    rows = p.read(tm.Files(str(tmp_path), format="csv", schema=schema, mode="FAILFAST"))
    sketches = {column: tm.approx_count_distinct(column) for column in columns}
    rows.groupBy("k").agg(**sketches, name="sketches")
    r = tm.open(p, root=memory())
    r.init()
    r.run(engine="local")
    (found,) = r.state("sketches", partial=True).select(columns).to_pylist()
    for column, kind in zip(columns, kinds, strict=True):
        for other, another in zip(columns, kinds, strict=True):
            is_same = fault("approx_count_distinct", kind, another) is None
            assert (found[column] == found[other]) == is_same, (kind, another)

"""State that depends on the type of a column: the column may not change to a type whose equal values differ."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.protocol.compatible import compare_operator


def shop(folder: Path, schema: str, operator: Any) -> tm.Repository:
    p = tm.Pipeline("shop")
    operator(p.read(tm.Files(str(folder / "in"), format="csv", schema=schema)))
    return tm.open(p, root=str(folder / "root"))


def put(folder: Path, name: str, text: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text(text)


def distinct(rows: Any) -> Any:
    return rows.groupBy("k").agg(n=tm.approx_count_distinct("v"), name="distinct")


def kept(rows: Any) -> Any:
    return rows.groupBy("k").agg(n=tm.collect_set("v", limit=10), name="kept")


def by_value(rows: Any) -> Any:
    return rows.groupBy("v").agg(n=tm.count(), name="by-value")


def first_rows(rows: Any) -> Any:
    return rows.groupBy("v").dropDuplicates(name="first-rows")


@pytest.mark.parametrize(
    ("operator", "before", "after", "what"),
    [
        (distinct, "int", "bigint", "input"),
        (distinct, "float", "double", "input"),
        (kept, "float", "double", "state"),
        (by_value, "float", "double", "key"),
        (first_rows, "float", "double", "key"),
    ],
)
def test_a_type_whose_equal_values_would_differ_is_refused(
    tmp_path: Path, operator: Any, before: str, after: str, what: str
) -> None:
    put(tmp_path, "1.csv", "a,1\na,2\n")
    r = shop(tmp_path, f"k string, v {before}", operator)
    r.init()
    r.run(engine="local")
    changed = shop(tmp_path, f"k string, v {after}", operator)
    found = changed.check()
    assert found.status == "needs migration"
    assert {(one.what, one.before, one.after) for one in found.differences if one.status != "compatible"} == {
        (what, before, after)
    }
    put(tmp_path, "2.csv", "a,1\n")
    with pytest.raises(tm.InvalidInput, match=r"operator `[a-z-]+` has "):
        changed.run(engine="local")


@pytest.mark.parametrize("operator", [by_value, first_rows, kept])
def test_a_wider_integer_is_the_same_value(tmp_path: Path, operator: Any) -> None:
    put(tmp_path, "1.csv", "a,1\na,2\n")
    r = shop(tmp_path, "k string, v int", operator)
    r.init()
    r.run(engine="local")
    put(tmp_path, "2.csv", "a,1\na,3000000000\n")
    wider = shop(tmp_path, "k string, v bigint", operator)
    assert wider.check().status == "compatible"
    wider.run(engine="local")
    state = wider.state().to_pylist()
    values = state[0]["n"] if operator is kept else [row["v"] for row in state]
    assert sorted(values) == [1, 2, 3_000_000_000]


def test_a_recorded_type_of_an_input_is_compared() -> None:
    rules = {"n": "approx_count_distinct(v, 9)"}
    recorded: dict[str, Any] = {"kind": "aggregate", "key": ["k"], "maps": {}, "output": "", "rules": rules}
    (one,) = compare_operator("distinct", recorded | {"inputs": {"n": "int"}}, recorded | {"inputs": {"n": "bigint"}})
    assert (one.what, one.status) == ("input", "needs migration")


def test_a_watermark_that_moved_to_another_column_is_a_difference(tmp_path: Path) -> None:
    def by(column: str) -> Any:
        return lambda rows: (
            rows.withWatermark(column, "1 hour").groupBy("k").agg(n=tm.count(), name="n"),
            rows.withWatermark(column, "1 hour").groupBy("k").dropDuplicatesWithinWatermark(name="seen"),
        )

    schema = "k string, made timestamp, sent timestamp"
    put(tmp_path, "1.csv", "a,2024-01-01 00:00:00,2024-01-02 00:00:00\n")
    r = shop(tmp_path, schema, by("made"))
    r.init()
    r.run(engine="local")
    assert r.check().differences == []
    (one,) = shop(tmp_path, schema, by("sent")).check().differences
    assert (one.what, one.before, one.after, one.status) == ("watermark", "source.made", "source.sent", "compatible")


def test_a_migration_gives_a_float_key_the_double_that_was_meant(tmp_path: Path) -> None:
    put(tmp_path, "1.csv", "a,0.1\na,0.5\n")
    r = shop(tmp_path, "k string, v float", by_value)
    r.init()
    r.run(engine="local")

    def rounded(rows: pa.Table) -> pa.Table:
        values = [round(value, 6) for value in rows.column("v").to_pylist()]
        return rows.set_column(rows.schema.get_field_index("v"), "v", pa.array(values, pa.float64()))

    doubled = shop(tmp_path, "k string, v double", by_value)
    doubled.migrate({"by-value": rounded}, reason="amounts are doubles now")
    put(tmp_path, "2.csv", "a,0.1\n")
    doubled.run(engine="local")
    assert sorted((row["v"], row["n"]) for row in doubled.state().to_pylist()) == [(0.1, 2), (0.5, 1)]


AGGREGATES = {
    "sum": lambda: tm.sum("v"),
    "min": lambda: tm.min("v"),
    "max": lambda: tm.max("v"),
    "mean": lambda: tm.mean("v"),
    "first": lambda: tm.first("v"),
    "last": lambda: tm.last("v"),
    "min_by": lambda: tm.min_by("k", "v"),
    "max_by": lambda: tm.max_by("v", "v"),
    "collect_set": lambda: tm.collect_set("v", limit=100),
    "approx_count_distinct": lambda: tm.approx_count_distinct("v"),
}


def aggregated(name: str) -> Any:
    return lambda rows: rows.groupBy("k").agg(n=AGGREGATES[name](), name="aggregated")


def keyed(rows: Any) -> Any:
    return rows.groupBy("v").agg(n=tm.count(), name="keyed")


def deduplicated(rows: Any) -> Any:
    return rows.groupBy("k", "v").dropDuplicates(name="deduplicated")


OPERATORS = {name: aggregated(name) for name in AGGREGATES} | {"key": keyed, "dropDuplicates": deduplicated}
CHANGES = [
    ("tinyint", "smallint"),
    ("tinyint", "bigint"),
    ("smallint", "int"),
    ("int", "bigint"),
    ("float", "double"),
    ("decimal(5,2)", "decimal(9,2)"),
    ("decimal(18,2)", "decimal(30,2)"),
]
REFUSED = {
    ("approx_count_distinct", "tinyint", "bigint"),
    ("approx_count_distinct", "int", "bigint"),
    ("approx_count_distinct", "float", "double"),
    ("approx_count_distinct", "decimal(5,2)", "decimal(9,2)"),
    ("approx_count_distinct", "decimal(18,2)", "decimal(30,2)"),
    *((name, "float", "double") for name in OPERATORS if name not in ("sum", "mean")),
}


def comparable(state: pa.Table) -> list[dict[str, Any]]:
    """Return state so that equal state is equal: sets have no order."""
    rows = [
        {name: sorted(v) if isinstance(v, list) else v for name, v in row.items()}
        for row in state.drop_columns(["updated_at", "deadline"]).to_pylist()
    ]
    return sorted(rows, key=repr)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_change_of_type_is_refused_or_gives_the_state_of_a_fresh_start(
    tmp_path: Path, name: str, before: str, after: str
) -> None:
    """The model: a repository that reads all files with the new type."""
    chance = random.Random(f"{name} {before}")
    is_whole = before.endswith("int")
    values = [str(n) if is_whole else f"{n}.{n % 10}0" for n in range(1, 60)]
    texts = ["".join(f"{chance.choice('ab')},{chance.choice(values)}\n" for _ in range(60)) for _ in range(2)]
    put(tmp_path, "1.csv", texts[0])
    r = shop(tmp_path, f"k string, v {before}", OPERATORS[name])
    r.init()
    r.run(engine="local")
    changed = shop(tmp_path, f"k string, v {after}", OPERATORS[name])
    is_refused = (name, before, after) in REFUSED
    assert (changed.check().status == "compatible") != is_refused
    put(tmp_path, "2.csv", texts[1])
    if is_refused:
        with pytest.raises(tm.InvalidInput):
            changed.run(engine="local")
        return
    changed.run(engine="local")
    p = tm.Pipeline("fresh")
    OPERATORS[name](p.read(tm.Files(str(tmp_path / "in"), format="csv", schema=f"k string, v {after}")))
    fresh = tm.open(p, root=str(tmp_path / "fresh"))
    fresh.init()
    fresh.run(engine="local")
    found, expected = comparable(changed.state()), comparable(fresh.state())
    if (before, after) == ("float", "double"):  # a sum of floats was a sum of rounded numbers
        assert [row["n"] for row in found] == pytest.approx([row["n"] for row in expected], rel=1e-6)
    else:
        assert found == expected


def test_float_keys_of_maps_in_the_state_stay_float(tmp_path: Path) -> None:
    def of(kind: str) -> Any:
        def track(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
            state.update([(0.5, 1)])
            return (key,)

        return lambda rows: rows.groupBy("k").mapWithState(
            tm.StateSpec.function(track), f"map<{kind},int>", "k string", name="counts"
        )

    put(tmp_path, "1.csv", "a,1\n")
    r = shop(tmp_path, "k string, v int", of("float"))
    r.init()
    r.run(engine="local")
    found = shop(tmp_path, "k string, v int", of("double")).check()
    assert found.status == "needs migration"


def test_check_names_a_type_that_was_not_recorded() -> None:
    rules = {"n": "approx_count_distinct(v, 9)"}
    recorded: dict[str, Any] = {"kind": "aggregate", "key": ["k"], "maps": {}, "output": "", "rules": rules}
    (one,) = compare_operator("distinct", recorded, recorded | {"inputs": {"n": "bigint"}})
    assert (one.what, one.field, one.after, one.status) == ("input", "n", "bigint", "compatible")
    assert "did not record its type" in one.outcome

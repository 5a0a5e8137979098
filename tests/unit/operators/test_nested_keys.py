"""Pipelines keyed by structs, lists and maps: state, its keys, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.errors import InvalidInput

SCHEMA = "s struct<name: string, x: double>, tags array<string>, m map<string, int>, n int"


def stream(p: tm.Pipeline) -> Any:
    return p.read(tm.Rows(SCHEMA))


def count(batch_time: int, key: Any, row: Any, state: tm.State) -> tuple[Any, int]:
    state.update((state.getOption or 0) + row.n)
    return (repr(key), state.get)


def test_map_with_state_by_a_struct_keeps_a_state_a_struct() -> None:
    p = tm.Pipeline("nested")
    spec = tm.StateSpec.function(count)
    stream(p).groupBy("s").mapWithState(spec, stateSchema="bigint", outputSchema="key string, n long")
    t = tm.testing.Tester(p)
    t.batch([(("a", -0.0), None, None, 1), (("a", math.nan), None, None, 2), (None, None, None, 3)])
    t.restart()
    result = t.batch([(("a", 0.0), None, None, 10), (("a", math.nan), None, None, 20), (("a", None), None, None, 30)])
    outputs = {("Row(name='a', x=nan)", 22), ("Row(name='a', x=0.0)", 11), ("Row(name='a', x=None)", 30)}
    assert set(result.outputs) == outputs
    found = {str(key): value for key, value in result.state.items()}
    assert found == {
        "Row(name='a', x=0.0)": 11,
        "Row(name='a', x=nan)": 22,
        "None": 3,
        "Row(name='a', x=None)": 30,
    }
    asked = t.repository.state(keys=[("a", -0.0), {"name": "a", "x": math.nan}, None, ("b", 1.0)])
    assert sorted(asked["state"].to_pylist()) == [3, 11, 22]


def test_keys_of_several_columns_may_hold_lists_and_maps() -> None:
    p = tm.Pipeline("nested")
    stream(p).groupBy("tags", "m").agg(n=tm.sum("n"))
    t = tm.testing.Tester(p)
    t.batch([(None, ["a"], {"p": 1, "q": 2}, 1), (None, [], {}, 2)])
    result = t.batch([(None, ["a"], {"q": 2, "p": 1}, 10), (None, None, {}, 20)])
    assert {key: value.n for key, value in result.state.items()} == {
        (("a",), (("p", 1), ("q", 2))): 11,
        ((), ()): 2,
        (None, ()): 20,
    }


def test_operations_on_maps_that_spark_lacks_are_refused() -> None:
    p = tm.Pipeline("nested")
    with pytest.raises(InvalidInput, match=r"dropDuplicates cannot compare the column `m` of type map<string, ?int>"):
        stream(p).dropDuplicates(["n", "m"])
    grouped = stream(tm.Pipeline("nested")).groupBy("n")
    with pytest.raises(InvalidInput, match=r"needs a column of a type that has no map in it, found map<string,int>"):
        grouped.agg(all=tm.collect_set("m", 3))
    p = tm.Pipeline("nested")
    stream(p).groupBy("n").agg(all=tm.collect_set("s", 3))
    result = tm.testing.Tester(p).batch([(("a", 0.0), None, None, 1), (("a", -0.0), None, None, 1)])
    assert result.outputs == [(1, [{"name": "a", "x": 0.0}])]


@pytest.mark.parametrize(
    ("key", "kind", "values"),
    [
        ("tags", "array<string>", [["b"], ["a"], ["b"], None, []]),
        ("m", "map<string, int>", [[("p", 1)], [("q", 2)], [("p", 1)], None, []]),
        ("s", "struct<name: string, x: double>", [("a", -0.0), ("b", 1.0), ("a", 0.0), None, (None, None)]),
    ],
)
def test_apply_batch_by_nested_keys(key: str, kind: str, values: list[Any]) -> None:
    def step(rows: Any, state: Any, context: Any) -> Any:
        counts: dict[str, Any] = {repr(row[key]): row for row in state.to_pylist()}
        for row in rows.to_pylist():
            of = repr(row[key]).replace("-0.0", "0.0")
            counts[of] = {key: row[key], "c": counts.get(of, {"c": 0})["c"] + 1}
        made = pa.Table.from_pylist(list(counts.values()), schema=state.schema)
        return made, made

    p = tm.Pipeline("nested")
    p.read(tm.Rows(f"{key} {kind}")).groupBy(key).apply_batch(step, "c long", f"{key} {kind}, c long")
    one, three = tm.testing.Tester(p), tm.testing.Tester(p, tasks=3)
    for _ in range(2):
        rows = [(value,) for value in values]
        assert one.batch(rows).outputs == three.batch(rows).outputs
    assert sorted(c for _, c in three.batch([(values[0],)]).outputs) == [5]


@pytest.mark.parametrize("twice", [[("a", -0.0), ("a", 0.0)], [("a", math.nan), ("a", math.nan)]])
def test_a_repeated_nested_key_is_named(twice: list[Any]) -> None:
    p = tm.Pipeline("nested")
    spec = tm.StateSpec.function(count).initialState([(key, 1) for key in [("b", None), *twice]])
    stream(p).groupBy("s").mapWithState(spec, stateSchema="bigint", outputSchema="key string, n long", name="op")
    with pytest.raises(InvalidInput, match=r"initial state of operator `op` has the key .*'name': 'a'.* in 2 rows"):
        tm.testing.Tester(p).batch([])


def test_an_initial_state_by_a_struct() -> None:
    p = tm.Pipeline("nested")
    spec = tm.StateSpec.function(count).initialState([(("a", 0.0), 5), (tm.Row(name="b", x=None), 6), (None, 7)])
    stream(p).groupBy("s").mapWithState(spec, stateSchema="bigint", outputSchema="key string, n long")
    result = tm.testing.Tester(p).batch([((name, x), None, None, 10) for name, x in (("a", -0.0), ("b", None))])
    assert sorted(n for _, n in result.outputs) == [15, 16]
    assert sorted(result.state.values()) == [7, 15, 16]

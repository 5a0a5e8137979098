"""No argument of a caller crashes the process, poisons a state map or changes it halfway."""

from __future__ import annotations

import datetime
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy
import pandas
import polars
import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.errors import InvalidInput

pytestmark = pytest.mark.slow("hostile input")


@pytest.fixture
def states() -> tm.StateMap:
    made = tm.StateMap("string", "n bigint, tags array<string>")
    made.put("ann", (1, ["a"]), 1)
    return made


class Raising(Exception):
    pass


def raising(*_: Any, **__: Any) -> Any:
    raise Raising


HOSTILE = {
    name: type("Hostile", (base,), dict.fromkeys(methods, raising))
    for name, base, methods in [
        ("an object", object, ["__str__", "__repr__", "__hash__", "__eq__"]),
        ("an object with a dtype", object, ["tolist", "__repr__"]),
        ("a tuple", tuple, ["__iter__", "__len__", "__getitem__", "__repr__"]),
        ("a list", list, ["__iter__", "__len__", "__getitem__", "__repr__"]),
        ("a dict", dict, ["__iter__", "__len__", "__getitem__", "keys", "items", "__repr__"]),
        ("a buffer", bytes, ["__buffer__", "__repr__", "__bytes__"]),
        ("a number", int, ["__int__", "__index__", "__repr__", "__hash__", "__eq__"]),
    ]
}
HOSTILE["an object with a dtype"].dtype = "O"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", HOSTILE)
def test_errors_of_an_objects_methods_reach_the_caller(states: tm.StateMap, name: str) -> None:
    hostile = HOSTILE[name]({"zzz": 1}) if name == "a dict" else HOSTILE[name]()
    for call in (
        lambda: states.get(hostile),
        lambda: states.put(hostile, (1, []), 1),
        lambda: states.remove(hostile),
        lambda: hostile in states,
        lambda: states.put("bob", hostile, 1),
        lambda: states.put("bob", (1, [hostile]), 1),
        lambda: states.put("bob", (hostile, None, None), 1),
        lambda: states.get_many(hostile),
        lambda: states.put_many(hostile, hostile, 1),
    ):
        with pytest.raises((InvalidInput, Raising)):
            call()
    assert list(states.get_all()) == [("ann", (1, ["a"]), 1)]


def test_an_object_may_change_the_map_while_it_is_read(states: tm.StateMap) -> None:
    class Meddling:
        dtype = "O"

        def tolist(self) -> str:
            states.put("meddler", (2, []), 2)
            states.copy()
            list(states.get_all())
            return "bob"

    meddler: Any = Meddling()
    assert states.get(meddler) is None
    states.put(meddler, (3, []), 3)
    states.remove(meddler)
    assert sorted(key for key, _, _ in states.get_all()) == ["ann", "meddler"]


def test_subclasses_are_accepted_by_value_and_misfits_are_refused() -> None:
    class Text(str):
        __slots__ = ()

        def __hash__(self) -> int:
            raise Raising

        def __eq__(self, other: object) -> bool:
            raise Raising

    class Number(int):
        pass

    texts, numbers = tm.StateMap("string", "int"), tm.StateMap("bigint", "int")
    texts.put(Text("a"), Number(1), 1)
    ((key, state, _),) = texts.get_all()
    assert (texts.get("a"), type(key), type(state)) == (1, str, int)
    for huge in (2**63, -(2**63) - 1, 10**5000, True, 1.0, "1", "\ud800"):
        with pytest.raises(InvalidInput):
            numbers.put(huge, 1, 1)
    with pytest.raises(InvalidInput, match="cannot use"):
        texts.put("\ud800", 1, 1)
    with pytest.raises(InvalidInput, match="updated_ms"):
        numbers.put(1, 1, 2**63)
    with pytest.raises(InvalidInput, match="cannot store None as a state"):
        numbers.put(1, None, 1)
    assert len(numbers) == 0


def test_whole_arrays_of_other_libraries(states: tm.StateMap) -> None:
    numbers = tm.StateMap("k bigint", "name string")
    keys, names = polars.DataFrame({"k": [1, 2]}), polars.DataFrame({"name": ["a", "b"]})
    numbers.put_many(keys, names, 1, polars.Series([10, None]))
    assert numbers.get_many(duckdb.sql("SELECT 2::BIGINT AS k"))["name"].to_pylist() == ["b"]
    assert numbers.get_many(polars.Series([1]))["name"].to_pylist() == ["a"]
    assert [row[3] for row in numbers.get_due(10)] == [10]
    numbers.remove_many(keys.head(1))
    assert numbers.get_many(keys)["name"].to_pylist() == [None, "b"]
    with pytest.raises(InvalidInput, match=r"expected keys of \(k int64\), found \(k double\)"):
        numbers.get_many(polars.DataFrame({"k": [1.5]}))
    with pytest.raises(InvalidInput, match="deadlines_ms must be whole ms"):
        numbers.put_many(keys, names, 1, ["soon", "late"])
    with pytest.raises(InvalidInput):
        numbers.put_many(keys, names, 1, [1])
    with pytest.raises(InvalidInput):
        numbers.put_many(keys, names.head(1), 1)
    assert len(numbers) == 1


def into_itself() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(100_000):
        made = [made]
    return made


class TakesAway(datetime.tzinfo):
    """Empties a list while it is being looked at."""

    def __init__(self, looked_at: list[Any]) -> None:
        self.looked_at = looked_at

    def utcoffset(self, _: datetime.datetime | None) -> datetime.timedelta:
        if self.looked_at:
            self.looked_at.clear()
            gc.collect()
        return datetime.timedelta(0)

    def dst(self, _: datetime.datetime | None) -> None:
        return None

    def tzname(self, _: datetime.datetime | None) -> str:
        return "away"


def times_that_go() -> list[Any]:
    made: list[Any] = []
    zone = TakesAway(made)
    made.extend(datetime.datetime(2020, 1, 1 + day % 20, tzinfo=zone) for day in range(100_000))
    return made


class Index:
    def __init__(self, looked_at: list[Any]) -> None:
        self.looked_at = looked_at

    def __index__(self) -> int:
        self.looked_at.clear()
        return 7


def in_numpy() -> Any:
    made = numpy.empty(1, dtype=object)
    made[0] = into_itself()
    return made


@pytest.mark.parametrize(
    "deadlines",
    [
        into_itself,
        deep,
        lambda: [into_itself()],
        lambda: iter([into_itself()]),
        in_numpy,
        times_that_go,
        lambda: pandas.Series([into_itself()]),
        lambda: 5,
        lambda: [True],
        lambda: numpy.array([True]),
        lambda: pa.array([True]),
        lambda: [10**5000],
        lambda: [2**63],
    ],
)
def test_invalid_deadlines_are_refused(deadlines: Callable[[], Any]) -> None:
    numbers = tm.StateMap("bigint", "bigint")
    with pytest.raises(InvalidInput, match="deadlines_ms must be"):
        numbers.put_many(pa.array([1]), pa.array([1]), 0, deadlines())
    assert len(numbers) == 0


@pytest.mark.parametrize("given", [into_itself, deep, lambda: {"of itself": into_itself()}, in_numpy])
def test_objects_of_pandas_that_are_nested_too_deep_are_refused(given: Callable[[], Any]) -> None:
    states = tm.StateMap("k array<string>", "v bigint")
    for frame in (pandas.DataFrame({"k": [given()]}), pandas.Series([given()], name="k")):
        with pytest.raises(InvalidInput, match="keys have a cell with more than 50 nested lists or dicts"):
            states.get_many(frame)


def test_deadlines_of_every_valid_kind_are_accepted() -> None:
    going: list[Any] = []
    going.append(Index(going))
    for deadlines in (
        [7],
        iter([7]),
        numpy.array([7]),
        [numpy.int32(7)],
        numpy.array([7], "datetime64[ms]"),
        numpy.array([7], object),
        pandas.Series([7]),
        pandas.Series([7], dtype="Int64"),
        pandas.Series([7], dtype=object),
        polars.Series([7]),
        pa.chunked_array([[7]]),
        going,
    ):
        numbers = tm.StateMap("bigint", "bigint")
        numbers.put_many(pa.array([1]), pa.array([1]), 0, deadlines)
        assert [row[3] for row in numbers.get_due(7)] == [7], deadlines


def test_a_list_may_change_while_it_is_read() -> None:
    rows = tm.Rows("k string, v array<timestamp>")
    assert len(rows.table([("a", times_that_go())]).column("v")[0]) == 100_000
    endless = into_itself()
    with pytest.raises(InvalidInput, match="column `v` is array<timestamp>"):
        rows.table([("a", endless)])


def test_an_object_without_a_repr_is_still_refused(tmp_path: Path) -> None:
    states = tm.StateMap("bigint", "bigint")

    class Hidden:
        __repr__ = raising

    for wrong in (10**5000, deep(), Hidden()):
        with pytest.raises(InvalidInput, match="updated_ms is a .* whose repr raises"):
            states.put(1, 1, wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="threshold_ms is a .* whose repr raises"):
            states.get_by_time(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="delta_chain_threshold is a int whose repr raises"):
        tm.StateMap("bigint", "bigint", -(10**5000))
    for path in (5, b"x.parquet", "x\0"):
        with pytest.raises(InvalidInput, match="is not a valid path"):
            states.write_base(path)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="is not a valid path"):
            tm.StateMap.read(path)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="found the root None"):
        tm.StateStore(None, "op", 0, key="bigint", state="bigint")  # type: ignore[arg-type]


def test_invalid_and_consumed_capsules_are_refused(states: tm.StateMap) -> None:
    class Exports:
        def __init__(self, capsules: Any) -> None:
            self.capsules = capsules

        def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
            return self.capsules

    keys = pa.record_batch([pa.array(["ann"])], names=["key"])
    used = keys.__arrow_c_array__()
    assert states.get_many(Exports(used))["n"].to_pylist() == [1]
    for capsules in (used, (used[1], used[0]), used[:1], (1, 2), None, keys.schema.__arrow_c_schema__()):
        with pytest.raises(InvalidInput, match="exports no Arrow data"):
            states.get_many(Exports(capsules))
        with pytest.raises((InvalidInput, TypeError, ValueError, AttributeError)):
            states._map.get_many(Exports(capsules))  # type: ignore[arg-type]
    assert states.get("ann") == (1, ["a"])


def test_threads_may_put_get_and_copy_at_once() -> None:
    states = tm.StateMap("bigint", "bigint")
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(3000):
                states.put(number * 10_000 + step, step, 1)
                assert states.get(number * 10_000 + step) == step
                if step % 500 == 0:
                    states.copy().put(-1, 1, 1)
                    many = pa.array(range(number * 10_000, number * 10_000 + 10), pa.int64())
                    states.put_many(many, pa.array(range(10), pa.int64()), 1)
                    len(states)
        except (AssertionError, tm.TidemillError, RuntimeError) as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(states) == 18_000
    assert states.get(-1) is None


def test_threads_may_write_one_file_at_once(tmp_path: Path) -> None:
    states = tm.StateMap("bigint", "bigint")
    states.put_many(pa.array(range(1000), pa.int64()), pa.array(range(1000), pa.int64()), 1)
    faults: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                states.write_base(tmp_path / "base")
                states.write_delta(tmp_path / "delta")
        except tm.TidemillError as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["base", "delta"]
    assert len(tm.StateMap.read([tmp_path / "base"])) == len(tm.StateMap.read([tmp_path / "delta"])) == 1000


def test_more_keys_than_the_buffer_holds_are_all_stored() -> None:
    states = tm.StateMap("string", "bigint")
    for number in range(40_000):
        states.put(str(number % 25_000), number, number)
    states.remove("7")
    assert len(states) == 24_999
    assert (states.get("24999"), states.get("14999"), states.get("7")) == (24_999, 39_999, None)

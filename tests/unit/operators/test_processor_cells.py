"""`transformWithState`: the Python types of cells, and which values are accepted in output and state."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.operators.processors import Processor, once, raised, value
from tidemill.testing import Tester

CELLS = (
    "at timestamp, wall timestamp_ntz, times array<timestamp>, by map<timestamp, struct<t: timestamp>>, "
    "part struct<n: int, deep: struct<m: map<string, array<int>>>>"
)
MOMENTS = [
    datetime(1800, 7, 1, 12, 34, 56, 789, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2020, 3, 29, 0, 59, 59, tzinfo=UTC),
    datetime(2020, 11, 1, 5, 30, tzinfo=UTC),
    datetime(2020, 11, 1, 6, 30, tzinfo=UTC),
    datetime(9998, 12, 31, tzinfo=UTC),
]


def zoned(processor, columns, output, zone="UTC", initial=None, key=("k",), mode="None"):
    p = tm.Pipeline("p", zone)
    stream = p.read(tm.Rows(f"k string, {columns}")).groupBy(*key)
    stream.transformWithState(processor, output, "update", mode, initial)
    return p


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "America/New_York", "Europe/London", "Asia/Kathmandu"])
def test_rows_keys_and_initial_state_have_arrows_types_in_the_pipelines_zone(zone):
    table = tm.Rows(f"k string, {CELLS}").table(
        [(str(n), at, None, [at, None], {at: {"t": at}}, {"n": n, "deep": None}) for n, at in enumerate(MOMENTS)]
        + [("x", None, datetime(2020, 1, 1), None, None, {"n": None, "deep": {"m": {"a": [1, None], "b": None}}})]
    )
    here = pa.schema([in_zone(field, zone) for field in table.schema])
    expected = sorted(repr(list(row.values())) for row in table.cast(here).to_pylist())
    found = []

    class Looking(Processor):
        def __deepcopy__(self, memo):
            return self

        def handleInitialState(self, key, initialState, timerValues):
            found.append(("initial", key, initialState))

        def handleInputRows(self, key, rows, timerValues):
            found.extend(("rows", key, row) for row in rows)
            return iter([])

    Tester(zoned(Looking(), CELLS, "text string", zone, table, key=("k", "at", "part"))).batch(table)
    for kind in ("initial", "rows"):
        rows = [row for one, _, row in found if one == kind]
        assert sorted(repr(list(row)) for row in rows) == expected
        assert {type(row).__name__ for row in rows} == {"Row"}
    assert [repr(key) for _, key, _ in found] == [repr((row.k, row.at, row.part)) for _, _, row in found]


def in_zone(field: pa.Field, zone: str) -> pa.Field:
    """The field with instants in that zone."""
    kind = field.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return field.with_type(pa.timestamp("us", zone))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(in_zone(kind.value_field, zone)))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(in_zone(kind.key_field, zone), in_zone(kind.item_field, zone)))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([in_zone(kind.field(n), zone) for n in range(kind.num_fields)]))
    return field


def test_the_key_of_a_timer_is_a_row_with_naive_times_as_variables_have_them():
    def rows(self, key, rows):
        self.handle.registerTimer(1)
        return iter([])

    def timer(self, key, expiry_ms):
        yield (repr(key),)

    p = zoned(
        Processor(None, rows, timer), CELLS, "text string", "Asia/Kathmandu", None, ("k", "at"), mode="ProcessingTime"
    )
    outputs = Tester(p).batch([("a", MOMENTS[4], None, None, None, None)], batch_time_ms=5).outputs
    assert outputs == [("Row(k='a', at=datetime.datetime(2020, 11, 1, 12, 15))",)]


def test_cells_of_a_row_may_be_emitted_and_stored_unchanged():
    def init(self, handle):
        self.kept = handle.getValueState("kept", CELLS)
        self.list = handle.getListState("list", CELLS)
        self.map = handle.getMapState("map", "at timestamp", CELLS)

    def rows(self, key, rows):
        for row in rows:
            self.kept.update(row[1:])
            self.list.put([row[1:]])
            self.list.appendValue(row[1:])
            self.map.updateValue((row.at,), row[1:])
            assert repr([self.kept.get()] * 2) == repr(list(self.list.get()))
            assert repr(list(self.map.iterator())) == repr([((self.kept.get()[0],), self.kept.get())])
            yield row

    at = MOMENTS[3]
    given = ("a", at, datetime(2020, 1, 1), [at], {at: {"t": at}}, {"n": 1, "deep": {"m": {"a": [1]}}})
    p = zoned(Processor(init, rows), CELLS, f"k string, {CELLS}", "America/New_York")
    (found,) = Tester(p).batch([given]).outputs
    assert found == ("a", at, datetime(2020, 1, 1), [at], [(at, {"t": at})], {"n": 1, "deep": {"m": [("a", [1])]}})


@pytest.mark.parametrize(
    ("pairs", "shown"),
    [
        ([("a", 1), ("b", None)], {"a": 1, "b": None}),
        ((("a", 1),), {"a": 1}),
        ([], {}),
        ([("a", 1), ("b", 2), ("a", 3)], {"a": 3, "b": 2}),
    ],
)
def test_a_map_may_be_given_as_pairs_and_the_last_of_equal_keys_counts(pairs, shown):
    def init(self, handle):
        self.map = handle.getValueState("map", "m map<string, int>")

    def rows(self, key, rows):
        self.map.update((pairs,))
        yield (pairs, repr(self.map.get()))

    p = zoned(Processor(init, rows), "n int", "m map<string, int>, text string")
    assert Tester(p).batch([("a", 1)]).outputs == [(list(shown.items()), repr((shown,)))]


def test_keys_of_pairs_may_be_unhashable():
    def rows(self, key, rows):
        yield ([({"u": 1}, "x"), ({"u": 2}, "y")],)

    p = zoned(Processor(None, rows), "n int", "m map<struct<u: int>, string>")
    assert Tester(p).batch([("a", 1)]).outputs == [([({"u": 1}, "x"), ({"u": 2}, "y")],)]


@pytest.mark.parametrize("found", [[("a",)], [["a", 1]], ["ab"], [("a", 1), None], {"a"}, "ab"])
def test_only_dicts_and_pairs_are_maps(found):
    def init(self, handle):
        self.map = handle.getValueState("map", "m map<string, int>")

    text = raised(init, lambda self, key, rows: [self.map.update((found,))])
    assert f"field `m` is `{type(found).__name__}` {found!r}, expected `map<string,int>`" in text


@pytest.mark.parametrize(
    "key",
    [("a",), ["a"], {"k": "a"}, "a", {"a"}, iter("a"), (one for one in "a"), {"a": 1}.keys()],
    ids=lambda one: type(one).__name__,
)
def test_any_iterable_of_its_cells_is_a_key_of_a_map_state(key):
    def init(self, handle):
        self.map = handle.getMapState("map", "k string", "n int")

    def rows(self, _, rows):
        self.map.updateValue(key, range(7, 8))
        yield (repr((self.map.getValue("a"), self.map.containsKey(k for k in "a"), list(self.map.keys()))),)
        self.map.removeKey("a")
        yield (repr(self.map.exists()),)

    class Shared(Processor):
        def __deepcopy__(self, memo):
            return self

    p = zoned(Shared(init, rows), "n int", "text string")
    assert sorted(Tester(p).batch([("x", 1)]).outputs) == [("(Row(n=7), True, [('a',)])",), ("False",)]


def test_any_iterable_of_its_cells_is_a_value():
    def rows(self, key, rows):
        self.value.update(cell for cell in (5, "five"))
        yield (repr(self.value.get()),)

    assert once(value, rows) == [("(5, 'five')",)]


@pytest.mark.parametrize("found", ["abc", "", itertools.count(), b"", range(3)], ids=repr)
def test_an_iterable_with_another_number_of_cells_is_refused(found):
    def init(self, handle):
        self.map = handle.getMapState("map", "k string, j string", "n int")

    def rows(self, key, rows):
        self.map.containsKey(found)

    class Shared(Processor):
        def __deepcopy__(self, memo):
            return self

    with pytest.raises(tm.InvalidInput) as caught:
        Tester(zoned(Shared(init, rows), "n int", "text string")).batch([("a", 1)])
    assert "map state `map` of operator `transform-with-state` cannot store the key: found `" in str(caught.value)
    assert f"`{type(found).__name__}`" in str(caught.value)
    assert "expected (k string, j string)" in str(caught.value)


def test_an_iterator_that_raises_is_the_users_error():
    def rows(self, key, rows):
        self.value.update(1 // cell for cell in (1, 0))

    assert "raised `ZeroDivisionError" in raised(value, rows)

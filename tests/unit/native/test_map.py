"""The binding of keys, runs and state maps: types, errors and threads, as Python sees them.

Tests in Rust, beside the engine, cover what it computes.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill._native import MapSchema, Run, StateMap, key_hashes, merge_count
from tidemill.errors import CorruptState, InvalidInput

END = 2**64 - 1
NOTHING = pa.schema([])
KEY = pa.schema([("user", pa.string()), ("day", pa.int32())])
VALUE = pa.schema([("total", pa.float64()), ("tags", pa.list_(pa.string()))])
KEY_CELLS: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, None, False],
    pa.int8(): [-128, None, 127],
    pa.int16(): [-1, None, 1],
    pa.int32(): [-1, None, 1],
    pa.int64(): [-(2**63), None, 2**63 - 1],
    pa.float32(): [0.5, None, float("inf")],
    pa.float64(): [0.5, None, 1e300],
    pa.string(): ["", None, "日本"],
    pa.binary(): [b"", None, b"\xff\x00"],
    pa.date32(): [date(1969, 12, 31), None, date(2026, 1, 1)],
    pa.timestamp("us", "UTC"): [datetime(1969, 1, 1, tzinfo=UTC), None, datetime(2026, 1, 1, tzinfo=UTC)],
    pa.timestamp("us"): [datetime(1969, 1, 1), None, datetime(2026, 1, 1)],
    pa.decimal128(38, 10): [Decimal("-1.5"), None, Decimal("12345678901234567890.0123456789")],
}
NESTED_CELLS: dict[pa.DataType, list[Any]] = {
    pa.list_(pa.float32()): [[0.5, None], None, []],
    pa.map_(pa.string(), pa.int64()): [[("a", 1)], None, []],
    pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.list_(pa.string()))]): [
        {"x": 1, "y": ["a"]},
        None,
        {"x": 2, "y": None},
    ],
}


def rows(schema: pa.Schema, *cells: tuple[Any, ...]) -> pa.RecordBatch:
    columns = list(zip(*cells, strict=True)) or [[] for _ in schema]
    return pa.record_batch([pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def spend() -> MapSchema:
    return MapSchema("spend", KEY, NOTHING, VALUE)


def filled() -> StateMap:
    state = StateMap.open(spend(), [], 0, END)
    keys = rows(KEY, ("ann", 1), ("bob", 1), (None, None))
    values = rows(VALUE, (1.5, ["a"]), (2.5, None), (None, []))
    state.put_many(keys, values, 1000, pa.array([5000, None, 6000], pa.int64()))
    return state


def reopened(state: StateMap, *older: Run) -> StateMap:
    delta = state.delta()
    assert delta is not None
    return StateMap.open(spend(), [*older, Run.read(spend(), delta.write(), "s")], 0, END)


def by_user(batch: pa.RecordBatch) -> dict[str | None, dict[str, Any]]:
    return {row["user"]: row for row in batch.to_pylist()}


@pytest.fixture(params=["in memory", "from a segment"])
def state(request: pytest.FixtureRequest) -> StateMap:
    return filled() if request.param == "in memory" else reopened(filled())


def test_scan_gives_the_live_rows_in_the_columns_of_the_schema(state: StateMap) -> None:
    found = state.scan()
    assert found.schema.names == ["user", "day", "total", "tags", "updated_at", "deadline"]
    assert found.schema.field("deadline").type == pa.timestamp("ms", "UTC")
    assert by_user(found)["ann"] == {
        "user": "ann",
        "day": 1,
        "total": 1.5,
        "tags": ["a"],
        "updated_at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "deadline": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC),
    }
    assert len(state) == 3


def test_get_many_answers_in_the_order_asked(state: StateMap) -> None:
    found, values = state.get_many(rows(KEY, (None, None), ("ann", 2), ("ann", 1), (None, None)))
    assert found.to_pylist() == [True, False, True, True]
    assert values.schema.names == ["total", "tags", "updated_at", "deadline"]
    assert values.column("tags").to_pylist() == [[], None, ["a"], []]
    assert values.column("updated_at").null_count == 1


def test_remove_hides_and_put_without_deadline_clears_it(state: StateMap) -> None:
    state.remove_many(rows(KEY, ("bob", 1), ("eve", 1)))
    state.put_many(rows(KEY, ("ann", 1)), rows(VALUE, (9.0, None)), 2000)
    assert set(by_user(state.scan())) == {"ann", None}
    assert state.next_deadline() == 6000
    assert state.get_due(5999).num_rows == 0
    assert state.get_due(6000).column("user").to_pylist() == [None]


def test_a_copy_and_its_original_do_not_see_each_other(state: StateMap) -> None:
    fork = state.copy()
    fork.remove_many(rows(KEY, ("ann", 1)))
    state.remove_many(rows(KEY, ("bob", 1)))
    assert set(by_user(fork.scan())) == {"bob", None}
    assert set(by_user(state.scan())) == {"ann", None}


def test_delta_holds_the_changes_since_open() -> None:
    state = reopened(filled())
    assert state.delta() is None
    state.remove_many(rows(KEY, ("bob", 1)))
    delta = state.delta()
    assert delta is not None
    assert [(row["user"], row["deleted"], row["total"]) for row in delta.rows().to_pylist()] == [("bob", True, None)]
    assert delta.first_due is None


def test_merge_keeps_or_drops_tombstones() -> None:
    first = filled().delta()
    assert first is not None
    state = reopened(filled())
    state.remove_many(rows(KEY, ("bob", 1)))
    second = state.delta()
    assert second is not None
    ((_, _, kept),) = Run.merge([first, second], 0, END, "nothing", 2**31 - 1)
    assert len(kept) == 3
    ((lo, hi, merged),) = Run.merge([first, second], 0, END, "tombstones", 2**31 - 1)
    assert (lo, hi) == (0, END)
    assert set(by_user(merged.rows())) == {"ann", None}
    assert merged.first_due is not None and merged.first_due[0] == 5000
    assert merged.nbytes > 0
    with pytest.raises(InvalidInput, match="`drop` of a merge must be `tombstones` or `nothing`, found `all`"):
        Run.merge([first], 0, END, "all", 2**31 - 1)


def test_within_shows_the_rows_of_a_range_of_hashes() -> None:
    run = filled().delta()
    assert run is not None
    middle = sorted(key_hashes(run.rows().select(["user", "day"])).to_pylist())[1]
    low, high = run.within(0, middle), run.within(middle + 1, END)
    assert (len(low), len(high)) == (2, 1)
    assert low.rows().to_pylist() + high.rows().to_pylist() == run.rows().to_pylist()
    assert len(StateMap.open(spend(), [run], 0, middle)) == 2


@pytest.mark.parametrize("kind", KEY_CELLS, ids=str)
def test_every_key_type_is_found_again_from_a_segment(kind: pa.DataType) -> None:
    keys = pa.schema([("key", kind)])
    schema = MapSchema("m", keys, keys.set(0, pa.field("sub", kind)), keys.set(0, pa.field("value", kind)))
    state = StateMap.open(schema, [], 0, END)
    column = pa.array(KEY_CELLS[kind], kind)
    asked = pa.record_batch([column, column], ["key", "sub"])
    state.put_many(asked, pa.record_batch([column], ["value"]), 1)
    delta = state.delta()
    assert delta is not None
    again = StateMap.open(schema, [Run.read(schema, delta.write(), "s")], 0, END)
    found, values = again.get_many(asked)
    assert found.to_pylist() == [True] * 3
    assert values.column("value").equals(column)


@pytest.mark.parametrize("kind", NESTED_CELLS, ids=str)
def test_nested_values_come_back_from_a_segment(kind: pa.DataType) -> None:
    schema = MapSchema("m", pa.schema([("key", pa.int64())]), NOTHING, pa.schema([("value", kind)]))
    state = StateMap.open(schema, [], 0, END)
    column = pa.array(NESTED_CELLS[kind], kind)
    keys = pa.record_batch([pa.array([1, 2, 3])], ["key"])
    state.put_many(keys, pa.record_batch([column], ["value"]), 1)
    state.remove_many(pa.record_batch([pa.array([4])], ["key"]))
    delta = state.delta()
    assert delta is not None
    run = Run.read(schema, delta.write(), "s")
    assert run.rows().equals(delta.rows())
    _, values = StateMap.open(schema, [run], 0, END).get_many(keys)
    assert values.column("value").to_pylist() == column.to_pylist()


def test_a_key_of_no_columns_is_one_key() -> None:
    schema = MapSchema("total", NOTHING, NOTHING, pa.schema([("n", pa.int64())]))
    state = StateMap.open(schema, [], 0, END)
    nothing = pa.record_batch([pa.array([1, 2])], ["n"]).select([])
    state.put_many(nothing, pa.record_batch([pa.array([1, 2])], ["n"]), 1)
    assert state.scan().column("n").to_pylist() == [2]
    found, values = state.get_many(nothing)
    assert (found.to_pylist(), values.column("n").to_pylist()) == ([True, True], [2, 2])
    assert key_hashes(nothing).to_pylist() == [0, 0]


def test_a_segment_is_plain_parquet_to_others() -> None:
    run = filled().delta()
    assert run is not None
    data = run.write()
    assert data == run.write()
    table = pq.read_table(io.BytesIO(data))
    assert table.to_pylist() == run.rows().to_pylist()
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    column = metadata.row_group(0).column(2)
    assert (column.path_in_schema, column.compression, column.has_dictionary_page) == ("total", "ZSTD", False)
    assert "BYTE_STREAM_SPLIT" in column.encodings
    assert metadata.metadata[b"tidemill.format"] == b"1"


def test_duckdb_reads_a_segment(tmp_path: Any) -> None:
    run = filled().delta()
    assert run is not None
    (tmp_path / "s.parquet").write_bytes(run.write())
    query = "SELECT user, total, tags, deleted FROM read_parquet(?) WHERE day = 1 ORDER BY user"
    found = duckdb.execute(query, [str(tmp_path / "s.parquet")]).fetchall()
    assert found == [("ann", 1.5, ["a"], False), ("bob", 2.5, None, False)]


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_segments_are_corrupt_state_that_names_them(data: st.DataObject) -> None:
    run = filled().delta()
    assert run is not None
    good = run.write()
    cut = data.draw(st.integers(0, len(good) - 1))
    with pytest.raises(CorruptState, match="cannot read segment `state/s.parquet` of state map `spend`"):
        Run.read(spend(), good[:cut], "state/s.parquet")


def test_columns_of_other_names_types_and_kinds_are_refused() -> None:
    state = filled()
    day_first = pa.schema([KEY.field("day"), KEY.field("user")])
    expected = r"state map `spend` expected the columns \(user, day\), found \(day, user\)"
    with pytest.raises(InvalidInput, match=expected):
        state.get_many(rows(day_first, (1, "ann")))
    wide = pa.schema([KEY.field("user"), ("day", pa.int64())])
    with pytest.raises(InvalidInput, match="cannot look up keys of"):
        state.get_many(rows(wide, ("ann", 1)))
    odd = pa.record_batch([pa.array([1]), pa.array([None], pa.list_(pa.string()))], ["total", "tags"])
    with pytest.raises(InvalidInput, match="column `total` has type Int64, expected Float64"):
        state.put_many(rows(KEY, ("ann", 1)), odd, 1)
    with pytest.raises(InvalidInput, match="expected an Arrow object"):
        state.get_many([("ann", 1)])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="deadlines must be int64"):
        state.put_many(rows(KEY, ("ann", 1)), rows(VALUE, (1.0, None)), 1, pa.array([1.5]))  # type: ignore[arg-type]
    assert len(state) == 3


def test_invalid_schemas_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"`m` cannot be keyed by `k` of type List\(UInt32\)"):
        MapSchema("m", pa.schema([("k", pa.list_(pa.uint32()))]), NOTHING, NOTHING)
    with pytest.raises(InvalidInput, match=r"`m` cannot store `v\[\]` of type LargeUtf8"):
        MapSchema("m", NOTHING, NOTHING, pa.schema([("v", pa.list_(pa.large_string()))]))
    with pytest.raises(InvalidInput, match="two columns named `deadline`") as caught:
        MapSchema("m", pa.schema([("deadline", pa.int64())]), NOTHING, NOTHING)
    assert caught.value.hint == "rename the column"
    with pytest.raises(InvalidInput, match="the key range is empty"):
        StateMap.open(spend(), [], 2, 1)


def test_small_runs_are_merged_before_large_ones() -> None:
    assert [merge_count(rows) for rows in ([5], [10] * 8, [10] * 9, [1000, *[10] * 8])] == [1, 1, 9, 8]


def test_sliced_and_misaligned_arrays_are_read_as_they_are() -> None:
    decimals = pa.array([Decimal(n) for n in range(5)], pa.decimal128(20, 0)).slice(1, 3)
    moved = pa.Array.from_buffers(decimals.type, 4, [None, decimals.buffers()[1].slice(16)])
    whole = [key_hashes(pa.record_batch([column], ["d"])).to_pylist() for column in (decimals, moved)]
    assert whole[0] == whole[1][:3]


def run_all(*work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_may_share_a_map() -> None:
    state = StateMap.open(spend(), [], 0, END)

    def put(user: str) -> Callable[[], None]:
        def work() -> None:
            for day in range(50):
                state.put_many(rows(KEY, (user, day)), rows(VALUE, (1.0, None)), day)
                state.scan()

        return work

    run_all(*(put(user) for user in "abcd"))
    assert len(state) == 200


def users(first: int, count: int) -> pa.RecordBatch:
    names = pa.array([f"u{number}" for number in range(first, first + count)])
    return pa.record_batch([names, pa.array([0] * count, pa.int32())], schema=KEY)


def changed_map(count: int) -> tuple[StateMap, int]:
    """Return a map that was opened with `count` live rows, then changed, and its length at `open`."""
    whole = StateMap.open(spend(), [], 0, END)
    values = pa.record_batch([pa.nulls(count, f.type) for f in VALUE], schema=VALUE)
    whole.put_many(users(0, count), values, 1)
    run = whole.delta()
    assert run is not None
    state = StateMap.open(spend(), [run], 0, END)
    before = len(state)
    state.remove_many(users(990, 5))
    state.remove_many(users(10**6, 3))
    state.put_many(users(994, 1), rows(VALUE, (1.0, None)), 2)
    return state, before


@pytest.mark.parametrize("count", [1000, 300_000])
def test_the_live_change_is_the_change_of_the_length_since_open(count: int) -> None:
    state, before = changed_map(count)
    assert state.live_change() == len(state) - before == -4


@pytest.mark.slow("measure times")
def test_the_time_of_the_live_change_does_not_grow_with_the_map() -> None:
    def least_ms(state: StateMap) -> float:
        times = []
        for _ in range(20):
            started = time.perf_counter()
            state.live_change()
            times.append(time.perf_counter() - started)
        return min(times) * 1000

    (small, _), (large, _) = changed_map(1000), changed_map(300_000)
    assert least_ms(large) < 20 * max(least_ms(small), 0.001)

"""Puts of single keys are buffered: the limits by count and by bytes hold, and no put is lost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill._native import Codec, MapSchema, SingleKeys, StateMap, key_hashes

NOTHING = pa.schema([])


def single_keys(state: pa.DataType, most_bytes: int) -> tuple[SingleKeys, StateMap]:
    schema = MapSchema("m", pa.schema([("key", pa.int64())]), NOTHING, pa.schema([("state", state)]))
    states = StateMap.open(schema, [], 0, 2**64 - 1)
    return SingleKeys(Codec(schema, True, True, "UTC"), states, most_bytes), states


def sealed(states: StateMap) -> int:
    """How many keys the map has by itself."""
    return len(states)


def test_puts_are_flushed_when_their_text_reaches_the_limit() -> None:
    for text, data in (("é" * 200, pa.string()), (b"x" * 400, pa.binary())):
        keys, states = single_keys(data, 1700)
        waited = []
        for key in range(10):
            keys.put(key, text, 1)
            waited.append(key + 1 - sealed(states))
        assert waited == [1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
        assert [keys.get(key) for key in range(11)] == [text] * 10 + [None]
        assert len(keys.flush()) == 10


def test_the_size_of_a_nested_state_includes_its_content() -> None:
    entries = pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.string())])))
    keys, states = single_keys(entries, 3000)
    value: Any = {"k" * 100: [{"x": "y" * 800}], "l" * 100: [None]}
    for key in range(4):
        keys.put(key, value, 1)
    assert sealed(states) == 3
    assert [keys.get(key) for key in range(4)] == [keys.get(0)] * 4


def test_a_key_that_is_put_again_counts_once() -> None:
    keys, states = single_keys(pa.string(), 1700)
    for _ in range(50):
        keys.put(1, "x" * 400, 1)
    for _ in range(50):
        keys.remove(2)
    assert sealed(states) == 0
    keys.put(3, "x" * 400, 1)
    keys.put(4, "x" * 400, 1)
    keys.put(5, "x" * 400, 1)
    assert sealed(states) == 4


def test_a_state_above_the_limit_is_stored_at_once_after_the_buffered_puts() -> None:
    keys, states = single_keys(pa.string(), 1000)
    keys.put(1, "before", 1)
    keys.put(1, "x" * 1000, 2)
    assert sealed(states) == 1 and keys.get(1) == "x" * 1000
    keys.put(1, "after", 3)
    assert keys.get(1) == "after"
    assert keys.flush().scan().column("state").to_pylist() == ["after"]


def test_the_buffer_holds_as_many_keys_as_fit_in_the_cache() -> None:
    keys, states = single_keys(pa.int64(), 1 << 30)
    for key in range((1 << 14) + 1):
        keys.put(key, key, 1)
    assert sealed(states) == 1 << 14


def test_keys_with_equal_hashes_stay_distinct_before_and_after_a_flush() -> None:
    schema = MapSchema("m", pa.schema([("key", pa.binary())]), NOTHING, pa.schema([("state", pa.string())]))
    states = StateMap.open(schema, [], 0, 2**64 - 1)
    keys = SingleKeys(Codec(schema, True, True, "UTC"), states, 1 << 20)
    both = pa.record_batch({"key": pa.array([None, b"\xff"], pa.binary())})
    assert len(set(key_hashes(both).to_pylist())) == 1, "the marker of null, and a key of that one byte"

    for first, second in ((None, b"\xff"), (b"\xff", None)):
        for is_sealed in (False, True):  # whether, while one is changed, the other waits or is in the map
            steps: list[tuple[Any, Any]] = [
                (first, "first"), (second, "second"), (first, None), (first, "again"), (second, None), (first, None),
            ]  # fmt: skip
            expected: dict[Any, Any] = {first: None, second: None}
            for at, (key, state) in enumerate(steps):
                if state is None:
                    keys.remove(key)
                else:
                    keys.put(key, state, at)
                expected[key] = state
                if is_sealed:
                    keys.flush()
                for one, there in expected.items():
                    assert (keys.get(one), keys.contains(one)) == (there, there is not None), (first, is_sealed, at)
            assert len(keys.flush()) == 0

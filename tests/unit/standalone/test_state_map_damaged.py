"""Files of `tm.StateMap` with changed bytes: `CorruptState`, or the rows that were written."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import CorruptState, InvalidInput


def written(folder: Path) -> tuple[Path, tm.StateMap]:
    states = tm.StateMap("string", "n bigint, s double")
    for number in range(50):
        states.put(f"key-{number}", (number, number / 2), number, deadline_ms=number or None)
    states.remove("key-3")
    path = folder / "base.parquet"
    states.write_base(path)
    return path, states


def shown(states: tm.StateMap) -> tuple[str, list[Any]]:
    """Return the columns and the rows of a map."""
    return repr(states).rpartition(",")[0], sorted(states.get_all())


def test_a_changed_byte_of_a_footer_is_corrupt_state_or_harmless(tmp_path: Path) -> None:
    path, states = written(tmp_path)
    good, expected = path.read_bytes(), shown(states)
    footer = struct.unpack("<i", good[-8:-4])[0] + 8
    chance, corrupt = random.Random(18416), 0
    for _ in range(600):
        damaged = bytearray(good)
        damaged[-chance.randrange(1, footer + 1)] = chance.randrange(256)
        path.write_bytes(bytes(damaged))
        try:
            found = shown(tm.StateMap.read(path))
        except CorruptState:
            corrupt += 1
            continue
        assert found == expected
    assert corrupt > 300


def test_a_truncated_file_or_changed_row_is_corrupt_state(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    good = path.read_bytes()
    footer = struct.unpack("<i", good[-8:-4])[0] + 8
    damages = [good[:length] for length in (*range(0, len(good), 37), len(good) - 1)]
    places = range(4, len(good) - footer, 11)
    damages += [good[:place] + bytes([good[place] ^ 255]) + good[place + 1 :] for place in places]
    for damaged in damages:
        path.write_bytes(damaged)
        with pytest.raises(CorruptState, match=r"base\.parquet"):
            tm.StateMap.read(path)


def test_a_damaged_delta_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path, states = written(tmp_path)
    later = states.copy()
    later.put("key-1", (7, 7.0), 7)
    later.write_delta(tmp_path / "delta.parquet")
    data = (tmp_path / "delta.parquet").read_bytes()
    (tmp_path / "delta.parquet").write_bytes(data[:-20] + b"\xff" * 12 + data[-8:])
    with pytest.raises(CorruptState, match=r"delta\.parquet"):
        tm.StateMap.read([path, tmp_path / "delta.parquet"])


def test_columns_that_the_file_lacks_are_invalid_input(tmp_path: Path) -> None:
    path, states = written(tmp_path)
    assert shown(tm.StateMap.read(path, key="string", state="n bigint, s double")) == shown(states)
    with pytest.raises(
        InvalidInput, match=r"base\.parquet` has the columns \(n int64, s double\), expected \(state int64\)"
    ):
        tm.StateMap.read(path, state="bigint")


def test_the_reader_sets_the_threshold(tmp_path: Path) -> None:
    path, states = written(tmp_path)
    later = states.copy()
    later.put("key-1", (7, 7.0), 7)
    later.write_delta(tmp_path / "delta.parquet")
    paths = [path, tmp_path / "delta.parquet"]
    assert not tm.StateMap.read(paths).should_compact
    assert tm.StateMap.read(paths, delta_chain_threshold=1).should_compact
    with pytest.raises(InvalidInput, match="delta_chain_threshold is 0, expected at least 1"):
        tm.StateMap.read(paths, delta_chain_threshold=0)

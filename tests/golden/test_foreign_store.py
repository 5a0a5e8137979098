"""docs/format.md is sufficient to write a state store: Tidemill reads and continues that of another writer."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.golden import foreign

KEY, SUB_KEY, STATE = pa.schema([("key", pa.string())]), pa.schema([]), pa.schema([("state", pa.int64())])
START = datetime(1970, 1, 1, tzinfo=UTC)
ATTEMPTS = "a" * 16, "b" * 16


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def write_record(path: Path, fields: dict[str, Any]) -> None:
    """Return JSON whose last field is the checksum of the bytes before it."""
    before = json.dumps(fields)[:-1].encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(before + f',"checksum":"{digest(before)}"}}'.encode())


def write_segment(folder: Path, version: int, rows: list[tuple[str | None, int | None]]) -> dict[str, Any]:
    """A segment of these keys and states, None for a removal; its entry in records."""
    cells = [
        {"key": key, "state": state, "updated_at": START, "deadline": None, "deleted": state is None}
        for key, state in rows
    ]
    data = foreign.segment(cells, KEY, SUB_KEY, STATE)
    name = f"segments/{version:010d}-{ATTEMPTS[version - 1]}.parquet"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    found = {"name": name, "checksum": digest(data), "size": len(data), "rows": len(rows)}
    return {**found, "lo": "0" * 16, "hi": "f" * 16, "sequence": version, "version": version}


def write_version(folder: Path, version: int, segments: list[dict[str, Any]], rows: int) -> None:
    fields = {"version": version, "attempt": ATTEMPTS[version - 1], "key": "key string", "state": "state bigint"}
    more = {"segments": segments, "rows_total": rows, "created_ms": 1, "format": 1}
    write_record(folder / f"versions/{version:010d}.json", {**fields, **more})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a store with two versions that Tidemill did not write."""
    folder = tmp_path / "stores/op/00007"
    first = write_segment(folder, 1, [("a", 1), ("b", 2), (None, 3)])
    second = write_segment(folder, 2, [("a", None)])
    write_version(folder, 1, [first], 3)
    write_version(folder, 2, [first, second], 2)
    return folder


def opened(folder: Path) -> tm.StateStore:
    return tm.StateStore(str(folder.parents[2]), "op", 7, key="string", state="bigint")


def test_the_store_of_another_writer_is_read_and_continued(folder: Path) -> None:
    store = opened(folder)
    assert store.latest == 2
    assert dict(store.getReadOnly(1).iterator()) == {"a": 1, "b": 2, None: 3}
    assert dict(store.getReadOnly(2).iterator()) == {"b": 2, None: 3}
    version = store.get(2)
    version.put("c", 9)
    assert version.commit() == 3
    assert dict(opened(folder).getReadOnly(3).iterator()) == {"b": 2, None: 3, "c": 9}
    record = json.loads((folder / "versions/0000000003.json").read_text())
    assert (record["version"], record["rows_total"], record["format"]) == (3, 3, 1)
    assert (record["key"], record["state"]) == ("key string", "state bigint")
    assert sorted(entry["version"] for entry in record["segments"]) == [1, 2, 3]
    assert (folder / record["segments"][-1]["name"]).is_file()


def test_a_floor_of_another_writer_applies(folder: Path) -> None:
    write_record(folder / "floors/0000000000.json", {"number": 0, "version": 2, "created_ms": 1, "format": 1})
    with pytest.raises(tm.InvalidInput, match="version 1 was dropped; versions go from 2 to 2"):
        opened(folder).getReadOnly(1)
    assert opened(folder).maintain(keep=1) == 0
    assert dict(opened(folder).getReadOnly(2).iterator()) == {"b": 2, None: 3}


@pytest.mark.parametrize("name", ["versions/0000000002.json", "floors/0000000000.json"])
def test_a_record_with_a_wrong_checksum_is_corrupt_state(folder: Path, name: str) -> None:
    write_record(folder / "floors/0000000000.json", {"number": 0, "version": 2, "created_ms": 1, "format": 1})
    text = (folder / name).read_text()
    (folder / name).write_text(text.replace('"version": 2', '"version": 1'))
    with pytest.raises(tm.CorruptState, match=name):
        opened(folder).getReadOnly(2)

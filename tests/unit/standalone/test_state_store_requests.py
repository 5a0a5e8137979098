"""The requests of a `tm.StateStore`: after many versions it makes as few as after a few versions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import CorruptState, InvalidInput
from tidemill.store import Entry, Store


class Watched:
    """A store that records the names that are read and listed."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.read: list[str] = []
        self.listed: list[str] = []

    def get(self, name: str) -> bytes:
        self.read.append(name)
        return self._inner.get(name)

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[Entry]:
        for entry in self._inner.list(prefix, start_after):
            self.listed.append(entry.name)
            yield entry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def filled(versions: int) -> tuple[tm.StateStore, Watched]:
    root = f"memory://{uuid.uuid4().hex}"
    for version in range(versions):
        assert commit(tm.StateStore(root, "counts", 0, key="string", state="bigint"), version) == version + 1
    store = tm.StateStore(root, "counts", 0, key="string", state="bigint")
    watched = Watched(store._store)
    store._store = watched  # type: ignore[assignment]
    return store, watched


def commit(store: tm.StateStore, version: int) -> int:
    opened = store.get(version)
    opened.put(f"key-{version}", version)
    return opened.commit()


def test_the_newest_of_many_versions_is_found_from_the_hint_on() -> None:
    store, watched = filled(60)
    assert store.latest == 60
    assert watched.listed == ["versions/0000000060.json"]
    assert watched.read == ["head.json"]


def test_an_old_hint_is_followed_to_the_newest_version() -> None:
    store, watched = filled(60)
    watched.put_hint("head.json", b'{"version": 57}')
    assert store.latest == 60
    assert watched.listed == [f"versions/{version:010d}.json" for version in range(57, 61)]


def test_opening_and_committing_read_one_record_few_segments_and_the_hint_once() -> None:
    store, watched = filled(60)
    assert commit(store, 60) == 61
    assert watched.read.count("head.json") == 1
    assert watched.read.count("versions/0000000060.json") == 1
    assert len([name for name in watched.read if name.startswith("segments/")]) <= 8
    assert len(watched.listed) <= 4
    assert store.latest == 61


def floors_of(store: Store) -> list[str]:
    return [entry.name for entry in store.list("floors/")]


def test_floors_stay_few_after_many_calls_of_maintain() -> None:
    store, _ = filled(6)
    for keep in range(5, 0, -1):
        store.maintain(keep=keep)
        assert len(floors_of(store._store)) <= 2
    assert floors_of(store._store) == ["floors/0000000005.json", "floors/0000000006.json"]
    store.maintain(keep=4)
    assert floors_of(store._store) == ["floors/0000000005.json", "floors/0000000006.json"]
    with pytest.raises(InvalidInput, match="versions go from 6 to 6"):
        store.get(5)


def test_reading_the_floor_while_others_raise_it_returns_one_of_them() -> None:
    store, watched = filled(6)
    store.maintain(keep=5)
    other = tm.StateStore(store._store.uri.partition("/stores/")[0], "counts", 0, key="string", state="bigint")
    keeps = [4, 3, 2]

    def raising(name: str) -> bytes:
        while name.startswith("floors/") and keeps:
            other.maintain(keep=keeps.pop(0))
        return Watched.get(watched, name)

    watched.get = raising  # type: ignore[method-assign]
    with pytest.raises(InvalidInput, match="version 4 was dropped; versions go from 5 to 6"):
        store.getReadOnly(4)
    assert [name for name in watched.read if name.startswith("floors/")][:2] == [
        "floors/0000000002.json", "floors/0000000005.json"
    ]  # fmt: skip


def test_a_listed_floor_that_is_missing_is_corrupt_state() -> None:
    store, watched = filled(3)
    store.maintain(keep=2)
    watched.get = lambda name: watched._inner.get(f"gone/{name}")  # type: ignore[method-assign]
    with pytest.raises(CorruptState, match=r"`floors/0000000002\.json` in .*: it is listed, but missing") as raised:
        store.get(2)
    assert raised.value.hint == "restore it from a backup"

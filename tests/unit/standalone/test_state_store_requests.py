"""The requests of a `tm.StateStore`: after many versions it makes as few as after a few versions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import CorruptState, InvalidInput
from tidemill.protocol.numbered import HINT_EVERY
from tidemill.standalone.store_log import StoreLog
from tidemill.store import ListedObject, Store


class Watched:
    """A store that records the names that are read and listed."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.read: list[str] = []
        self.listed: list[str] = []

    def get(self, name: str) -> bytes:
        self.read.append(name)
        return self._inner.get(name)

    def list(self, prefix: str = "", start_after: str | None = None, enters: Any = None) -> Iterator[ListedObject]:
        for entry in self._inner.list(prefix, start_after, enters):
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
    store._store, store._log = watched, StoreLog(watched)  # type: ignore[assignment, arg-type]
    return store, watched


def commit(store: tm.StateStore, version: int) -> int:
    opened = store.get(version)
    opened.put(f"key-{version}", version)
    return opened.commit()


def test_the_newest_of_many_versions_is_found_from_the_hint_on() -> None:
    store, watched = filled(60)
    assert store.latest == 60
    assert watched.listed == ["versions/0000000060.json"]
    assert watched.read == ["floors/head.json", "head.json"]


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


def test_a_second_search_by_the_same_store_costs_one_request_for_versions_and_one_for_floors() -> None:
    store, watched = filled(6)
    store.maintain(keep=2)
    assert store.latest == 6
    watched.read, watched.listed = [], []
    assert store.latest == 6
    assert (watched.read, watched.listed) == ([], [])


@pytest.mark.parametrize("raised", [1, 40])
def test_floors_cost_the_same_to_read_after_many_calls_of_maintain(raised: int) -> None:
    store, _ = filled(raised + 1)
    for keep in range(raised, 0, -1):
        store.maintain(keep=keep)
    again = tm.StateStore(store._store.uri.partition("/stores/")[0], "counts", 0, key="string", state="bigint")
    watched = Watched(again._store)
    again._store, again._log = watched, StoreLog(watched)  # type: ignore[assignment, arg-type]
    with pytest.raises(InvalidInput, match=f"version {raised} was dropped; versions go from {raised + 1} to"):
        again.get(raised)
    floors = [name for name in watched.read if name.startswith("floors/")]
    assert floors == ["floors/head.json", f"floors/{raised - 1:010d}.json"]
    assert len([name for name in watched.listed if name.startswith("floors/0")]) <= HINT_EVERY


def test_a_floor_is_never_lowered() -> None:
    store, _ = filled(6)
    store.maintain(keep=1)
    before = [entry.name for entry in store._store.list("floors/")]
    store.maintain(keep=4)
    assert [entry.name for entry in store._store.list("floors/")] == before
    with pytest.raises(InvalidInput, match="versions go from 6 to 6"):
        store.get(5)


@pytest.mark.parametrize(("theirs", "ours", "floors"), [(2, 4, 1), (4, 2, 2)])
def test_of_two_callers_of_maintain_the_higher_floor_counts(theirs: int, ours: int, floors: int) -> None:
    store, watched = filled(6)
    other = tm.StateStore(store._store.uri.partition("/stores/")[0], "counts", 0, key="string", state="bigint")

    def late(name: str, data: bytes) -> bool:
        watched.create = watched._inner.create  # type: ignore[method-assign]
        other.maintain(keep=theirs)
        return watched._inner.create(name, data)

    watched.create = late  # type: ignore[method-assign]
    store.maintain(keep=ours)
    assert len(list(watched._inner.list("floors/0"))) == floors
    least = 6 - min(theirs, ours) + 1
    with pytest.raises(InvalidInput, match=f"versions go from {least} to 6"):
        other.get(least - 1)


def test_segments_of_dropped_versions_are_deleted_in_one_call() -> None:
    store, watched = filled(40)
    deleted: list[list[str]] = []

    def delete_many(names: list[str]) -> None:
        deleted.append(list(names))
        watched._inner.delete_many(names)

    watched.delete_many = delete_many  # type: ignore[method-assign]
    watched.delete = None  # type: ignore[assignment]
    assert store.maintain(keep=1) == len(deleted[0]) > 0
    assert len(deleted) == 1


def test_a_lost_floor_is_corrupt_state() -> None:
    store, watched = filled(6)
    for keep in (4, 3, 2):
        store.maintain(keep=keep)
    watched.delete("floors/0000000001.json")
    again = tm.StateStore(store._store.uri.partition("/stores/")[0], "counts", 0, key="string", state="bigint")
    with pytest.raises(CorruptState, match=r"floors/0000000001.json`: the floor is missing, but floor 2 exists"):
        again.get(2)

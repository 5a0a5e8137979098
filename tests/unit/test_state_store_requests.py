"""What a `tm.StateStore` asks of its store: as much after many versions as after few."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import tidemill as tm
from tidemill.store import Entry, Store


class Watched:
    """A store that notes what is read and which names are listed."""

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


def test_a_hint_that_is_behind_is_followed() -> None:
    store, watched = filled(60)
    watched.put_hint("head.json", b'{"version": 57}')
    assert store.latest == 60
    assert watched.listed == [f"versions/{version:010d}.json" for version in range(57, 61)]


def test_opening_and_committing_ask_for_the_record_and_few_segments_and_do_not_look_at_the_hint_twice() -> None:
    store, watched = filled(60)
    assert commit(store, 60) == 61
    assert watched.read.count("head.json") == 1
    assert watched.read.count("versions/0000000060.json") == 1
    assert len([name for name in watched.read if name.startswith("segments/")]) <= 8
    assert len(watched.listed) <= 4
    assert store.latest == 61

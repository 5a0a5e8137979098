"""The snapshot of `refs/` is checked against the entry at which it ends, so another one cannot be built upon."""

from __future__ import annotations

import dataclasses
import uuid

import pytest

from tests.unit.protocol import valid_records as make
from tidemill import names
from tidemill.errors import CorruptState
from tidemill.protocol.entries import TagEntry
from tidemill.protocol.refs import Refs
from tidemill.protocol.refs_log import RefsLog, position
from tidemill.store import Store, open_store


@pytest.fixture
def store() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


def log_of(store: Store) -> RefsLog:
    return RefsLog(store, pause=lambda seconds: None)


def tag(store: Store, name: str) -> Refs:
    """Append a tag."""
    return log_of(store).append(lambda refs, _: TagEntry(**position(refs, 1), name=name, branch="main", version=0))


def snapshot_of_a_copy(store: Store, *tags: str) -> bytes:
    """Return the snapshot of a copy of the repository in which these tags were added."""
    copy = open_store(f"memory://{uuid.uuid4().hex}")
    for entry in store.list("refs/"):
        copy.put(entry.name, store.get(entry.name))
    for name in tags:
        tag(copy, name)
    return copy.get(names.REFS_HEAD)


def snapshot_of_another(number: int) -> bytes:
    """Return the snapshot of another repository with so many tags."""
    other = open_store(f"memory://{uuid.uuid4().hex}")
    log_of(other).create(dataclasses.replace(make.init(), uuid=uuid.uuid4().hex))
    for place in range(number):
        tag(other, f"t{place}")
    return other.get(names.REFS_HEAD)


def test_an_entry_is_never_based_on_the_snapshot_of_a_copy(store: Store) -> None:
    log_of(store).create(make.init())
    theirs = snapshot_of_a_copy(store, "theirs")
    tag(store, "ours")
    store.put(names.REFS_HEAD, theirs)
    assert sorted(log_of(store).read().tags) == ["ours"]
    tag(store, "next")
    store.delete(names.REFS_HEAD)
    assert sorted(log_of(store).read().tags) == ["next", "ours"]


@pytest.mark.parametrize("entries", [0, 1, 3])
def test_the_snapshot_of_another_repository_is_not_believed(store: Store, entries: int) -> None:
    ours = log_of(store).create(make.init())
    tag(store, "ours")
    store.put(names.REFS_HEAD, snapshot_of_another(entries))
    found = log_of(store).read()
    assert (found.uuid, sorted(found.tags)) == (ours.uuid, ["ours"])


def test_a_lost_entry_that_the_snapshot_names_is_corrupt_state(store: Store) -> None:
    log_of(store).create(make.init())
    tag(store, "one")
    tag(store, "two")
    store.delete(names.ref(2))
    with pytest.raises(CorruptState, match=r"refs/0000000002.json`: the entry is missing, but `refs/head.json` names"):
        log_of(store).read()


def test_an_old_snapshot_is_continued(store: Store) -> None:
    log_of(store).create(make.init())
    tag(store, "one")
    old = store.get(names.REFS_HEAD)
    tag(store, "two")
    store.put(names.REFS_HEAD, old)
    assert sorted(log_of(store).read().tags) == ["one", "two"]


@pytest.mark.parametrize("place", [-3, -20, 30])
def test_a_damaged_entry_at_which_the_snapshot_ends_is_corrupt_state(store: Store, place: int) -> None:
    log_of(store).create(make.init())
    tag(store, "one")
    data = bytearray(store.get(names.ref(1)))
    data[place] ^= 0x80
    store.put(names.ref(1), bytes(data))
    with pytest.raises(CorruptState, match=r"refs/0000000001.json"):
        log_of(store).read()

"""A `tm.StateStore` whose writes lose their answers, or race: one version counts, and losers leave nothing."""

from __future__ import annotations

import contextlib
import itertools
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

import tidemill as tm
from tidemill.errors import Fenced, StoreUnavailable
from tidemill.protocol.numbered import PAUSES_S
from tidemill.standalone.store_log import StoreLog
from tidemill.store import Store, open_store
from tidemill.store.fault import Crash, Effect, Fault, FaultStore


def new_root() -> str:
    return f"memory://{uuid.uuid4().hex}"


def store_at(root: str) -> tm.StateStore:
    return over(open_store(root).at("stores/counts/00000/"), root)


def faulty(root: str, *effects: str) -> tm.StateStore:
    """Return a store whose writes of the next record have these effects, one after the other.

    Write 1 stores the segment. The probe is not repeated.
    """
    faults = [Fault(number, effect) for number, effect in enumerate(effects, 2)]  # type: ignore[arg-type]
    store = over(FaultStore(open_store(root).at("stores/counts/00000/"), faults), root)
    store._probed = True
    return store


def over(inner: Store, root: str) -> tm.StateStore:
    """Return a store over `inner` that does not pause between retries."""
    store = tm.StateStore(root, "counts", 0, key="string", state="bigint")
    store._store, store._log = inner, StoreLog(inner, pause=lambda seconds: None)
    return store


def changed(store: tm.StateStore, state: int = 1) -> tm.StateStoreVersion:
    opened = store.get(0)
    opened.put("a", state)
    return opened


def segments(root: str) -> list[str]:
    return [entry.name for entry in open_store(root).list("stores/counts/00000/segments/")]


EFFECTS: list[list[Effect]] = [
    ["lost"], ["refused"], ["late"], ["refused", "lost"], ["late", "refused"], ["refused", "late"], ["late", "lost"]
]  # fmt: skip


@pytest.mark.parametrize("effects", EFFECTS)
def test_a_lost_answer_is_not_a_lost_race(effects: list[str]) -> None:
    root = new_root()
    assert changed(faulty(root, *effects)).commit() == 1
    assert dict(store_at(root).getReadOnly(1).iterator()) == {"a": 1}
    assert len(segments(root)) == 1
    assert store_at(root).latest == 1


def test_after_five_attempts_the_outcome_is_unknown_and_a_second_commit_finds_out() -> None:
    root = new_root()
    opened = changed(faulty(root, *["refused"] * len(PAUSES_S), "late"))
    with pytest.raises(StoreUnavailable, match="versions/0000000001.json`: outcome unknown after 5 attempts"):
        opened.commit()
    assert not opened.hasCommitted
    assert opened.commit() == 1  # the late write arrived, and has the same changes
    assert len(segments(root)) == 1
    assert dict(store_at(root).getReadOnly(1).iterator()) == {"a": 1}


@pytest.mark.parametrize("effects", [[], ["lost"], ["refused"], ["late"]])
def test_a_fenced_writer_deletes_its_segments_and_no_others(effects: list[str]) -> None:
    root = new_root()
    late = changed(faulty(root, *effects), state=2)
    changed(store_at(root)).commit()
    before = segments(root)
    with pytest.raises(Fenced, match="another writer made this version with other changes"):
        late.commit()
    assert segments(root) == before
    assert dict(store_at(root).getReadOnly(1).iterator()) == {"a": 1}


def test_a_writer_of_the_same_changes_deletes_its_own_segments() -> None:
    root = new_root()
    late = changed(store_at(root))
    changed(store_at(root)).commit()
    before = segments(root)
    assert late.commit() == 1
    assert segments(root) == before


def test_segments_stay_while_the_outcome_is_unknown() -> None:
    root = new_root()
    with pytest.raises(StoreUnavailable):
        changed(faulty(root, *["refused"] * (len(PAUSES_S) + 1))).commit()
    assert len(segments(root)) == 1  # the record may still arrive and name it


@pytest.mark.parametrize("effect", ["lost", "refused", "late", "before", "after"])
@pytest.mark.parametrize("write", [1, 2, 3, 4])
def test_a_floor_that_fails_at_any_write_is_there_or_not(effect: Effect, write: int) -> None:
    root = new_root()
    for version in range(4):
        opened = store_at(root).get(version)
        opened.put("a", version)
        opened.commit()
    store = over(FaultStore(open_store(root).at("stores/counts/00000/"), [Fault(write, effect)]), root)
    with contextlib.suppress(StoreUnavailable, Crash):
        store.maintain(keep=1)
    again = store_at(root)
    assert dict(again.getReadOnly(4).iterator()) == {"a": 3}
    again.maintain(keep=1)
    assert again.maintain(keep=1) == 0
    assert dict(store_at(root).getReadOnly(4).iterator()) == {"a": 3}


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_of_racing_writers_one_makes_each_version(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = new_root() if kind == "memory" else str(tmp_path_factory.mktemp("root"))
    writers, versions = 4, 5

    def write(number: int) -> list[int]:
        made = []
        for version in itertools.count():
            if version == versions:
                return made
            store = store_at(root)
            opened = store.get(version)
            opened.put("a", 10 * version + number)
            try:
                made.append(opened.commit())
            except Fenced:
                continue
        return made

    with ThreadPoolExecutor(writers) as pool:
        made = [version for of_writer in pool.map(write, range(writers)) for version in of_writer]
    assert sorted(made) == list(range(1, versions + 1))
    store = store_at(root)
    assert store.latest == versions
    live = {one.name for version in made for one in store._record(version).segments}
    assert set(store._log.segments(versions)) == live  # losers left nothing


def test_a_dead_writers_hint_is_written_by_the_next_one() -> None:
    root = new_root()
    store = faulty(root, "after")
    with pytest.raises(Crash):
        changed(store).commit()
    folder: Store = open_store(root).at("stores/counts/00000/")
    assert folder.stat("head.json") is None
    assert changed(store_at(root)).commit() == 1
    assert folder.get("head.json") == b'{"version": 1}'


def test_segments_that_a_loser_cannot_delete_stay_for_maintain() -> None:
    root = new_root()
    late = changed(store_at(root), state=2)
    changed(store_at(root)).commit()

    def away(names: object) -> None:
        raise StoreUnavailable("the store is away")

    late._of._store.delete_many = away  # type: ignore[method-assign]
    with pytest.raises(Fenced):
        late.commit()
    assert len(segments(root)) == 2
    assert store_at(root).maintain() == 1
    assert dict(store_at(root).getReadOnly(1).iterator()) == {"a": 1}


def test_a_commit_between_two_looks_is_no_loss() -> None:
    root = new_root()
    changed(store_at(root)).commit()
    inner = open_store(root).at("stores/counts/00000/")
    store = over(inner, root)
    listing = inner.list

    def commits_first(prefix: str = "", start_after: str | None = None):  # type: ignore[no-untyped-def]
        if prefix == "segments/":
            inner.list = listing  # type: ignore[method-assign]
            for version in (1, 2):
                opened = store_at(root).get(version)
                opened.put("b", version)
                opened.commit()
        return listing(prefix, start_after)

    inner.list = commits_first  # type: ignore[method-assign]
    assert store.latest == 3


def test_maintain_leaves_the_segments_of_a_commit_that_may_still_arrive() -> None:
    root = new_root()
    opened = changed(faulty(root, *["refused"] * len(PAUSES_S), "late"))
    with pytest.raises(StoreUnavailable):
        opened.commit()
    assert store_at(root).maintain(keep=1) == 0
    assert len(segments(root)) == 1

"""Records and objects under names where they do not belong: another branch's, or those of commits that are lost."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest

from tests.unit.protocol import valid_records as make
from tidemill import names
from tidemill.errors import CorruptState, InvalidInput
from tidemill.protocol.codec import encode
from tidemill.protocol.log import Log
from tidemill.protocol.refs import Refs
from tidemill.protocol.refs_log import RefsLog
from tidemill.store import Store, open_store


@pytest.fixture
def store() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


def log_of(store: Store) -> Log:
    return Log(store, pause=lambda seconds: None)


def refs_of(store: Store) -> RefsLog:
    return RefsLog(store, pause=lambda seconds: None)


@pytest.mark.parametrize("what", ["commit", "plan"])
def test_a_record_of_another_branch_is_corrupt_state(store: Store, what: str) -> None:
    record: Any = make.commit(0, branch="fix-1") if what == "commit" else make.plan(0, branch="fix-1")
    store.put(names.commit("main", 0) if what == "commit" else names.plan("main", 0), encode(record))
    log = log_of(store)
    with pytest.raises(CorruptState, match="expected number 0 of branch `main`, found number 0 of branch `fix-1`"):
        log.head() if what == "commit" else log.plan(0)


TRACES = [
    names.output("out", "main", names.stem(0, "try-1", 0, "a"), 0, 0, ".json"),
    names.quarantine_file("main", names.stem(0, "try-1", 0, "a")),
    names.numbered(names.published("main", "out"), 0),
    names.segment("op", "state", "main", names.stem(0, "try-1", 0, "a")),
]


@pytest.mark.parametrize("trace", TRACES)
def test_an_object_of_a_batch_without_plans_shows_that_all_commits_are_lost(store: Store, trace: str) -> None:
    store.put(trace, b"x")
    with pytest.raises(CorruptState, match=r"commits/0000000000.json`: the commit is missing, but") as lost:
        log_of(store).head()
    assert f"`{trace}` shows that it was made" in lost.value.first_line


def test_a_published_record_shows_that_the_commit_of_an_open_plan_is_lost(store: Store) -> None:
    log_of(store).create_plan(make.plan(0))
    assert log_of(store).head() is None
    store.put(TRACES[3], b"x")  # a file of the open plan's batch, whose run has not committed yet
    assert log_of(store).head() is None
    store.put(TRACES[2], b"x")
    with pytest.raises(CorruptState, match=r"`published/main/out/0000000000.json` shows that it was made"):
        log_of(store).head()


def test_seeds_and_files_of_other_branches_are_no_sign_of_a_lost_commit(store: Store) -> None:
    store.put(names.segment("op", "state", "main", names.seed_stem(0, "try-1")), b"x")
    store.put(names.segment("op", "state", "fix-1", names.stem(0, "try-1", 0, "a")), b"x")
    assert log_of(store).head() is None


def test_a_second_init_returns_all_entries_and_leaves_the_snapshot(store: Store) -> None:
    refs_of(store).create(make.init())
    refs = refs_of(store).append(lambda refs, number: make.added(refs, "one"))
    snapshot = store.get(names.REFS_HEAD)
    assert refs_of(store).create(make.init(attempt="another")) == refs
    assert store.get(names.REFS_HEAD) == snapshot


def test_an_init_record_of_another_number_is_corrupt_state(store: Store) -> None:
    store.put(names.ref(0), encode(make.init(number=3)))
    for call in (refs_of(store).read, refs_of(store).read_entries, lambda: refs_of(store).create(make.init())):
        with pytest.raises(CorruptState, match=r"`refs/0000000000.json`: expected the init record, found entry 3"):
            call()


def test_an_entry_that_cannot_be_read_stops_everyone(store: Store) -> None:
    """An entry of a newer Tidemill that may not be ignored is neither skipped nor built upon."""
    refs = refs_of(store).create(make.init())
    store.put(names.ref(1), newer(refs))
    for call in (refs_of(store).read, lambda: refs_of(store).append(lambda refs, number: make.added(refs, "one"))):
        with pytest.raises(InvalidInput, match="it was written by a newer Tidemill"):
            call()
    assert store.stat(names.ref(2)) is None


def newer(refs: Refs) -> bytes:
    import json

    entry = dataclasses.replace(make.added(refs, "x"))
    return make.sealed(json.loads(encode(entry)) | {"kind": "lease"})

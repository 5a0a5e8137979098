"""The head of a log: it is found with any hint, and what that costs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.protocol import valid_records as make
from tests.unit.protocol.logs import Counting, filled, log_of, new_store
from tidemill import names
from tidemill.errors import CorruptState
from tidemill.protocol.codec import encode
from tidemill.protocol.log import Log
from tidemill.protocol.numbered import HINT_EVERY
from tidemill.store import Store
from tidemill.store.fault import Crash, Fault


@pytest.fixture
def store() -> Store:
    return new_store()


@pytest.mark.parametrize("versions", [0, 1, 2, 3, 10])
@pytest.mark.parametrize(
    "hint",
    [
        None,
        b"",
        b"garbage",
        b"\xff\xfe",
        b"[" * 100_000,
        b"null",
        b"[]",
        b"{}",
        b'{"version": "3"}',
        b'{"version": true}',
        b'{"version": 1.0}',
        b'{"version": null}',
        b'{"version": -1}',
        b'{"version": -7}',
        b'{"version": 0}',
        b'{"version": 3}',
        b'{"version": 9}',
        b'{"version": 10}',
        b'{"version": 9999999999}',
        b'{"version": 99999999999999999999999}',
    ],
)
def test_the_head_is_found_with_any_hint(store: Store, versions: int, hint: bytes | None) -> None:
    log = filled(store, versions)
    store.delete(names.head_hint("main"))
    if hint is not None:
        store.put(names.head_hint("main"), hint)
    named = {b'{"version": %d}' % number: number for number in (0, 3, 9, 10, 9999999999)}.get(hint or b"", -1)
    if named >= versions:
        with pytest.raises(CorruptState, match="the commit is missing, but"):
            log.head()
        return
    head = log.head()
    assert (None if head is None else head.version) == (versions - 1 if versions else None)


@pytest.mark.parametrize("hint", [None, b"garbage", b'{"version": -1}'])
def test_a_second_plan_without_commits_shows_that_all_commits_are_lost(store: Store, hint: bytes | None) -> None:
    log_of(store).create_plan(make.plan(0))
    assert log_of(store).head() is None  # a first plan waits, nothing is lost
    log_of(store).create_plan(make.plan(1))
    if hint is not None:
        store.put(names.head_hint("main"), hint)
    with pytest.raises(CorruptState) as caught:
        log_of(store).head()
    assert str(caught.value) == (
        f"read `{store.uri}/branches/main/commits/0000000000.json`: the commit is missing, but "
        "`branches/main/plans/0000000001.json` shows that it was made; such records are never deleted\n"
        "hint: restore `branches/main/commits/` from a backup; Tidemill never starts from an older or empty state by "
        "accident"
    )
    assert Log(store, "other").head() is None


@given(st.integers(0, 60), st.none() | st.integers(-2, 80), st.lists(st.integers(0, 20), max_size=3))
@settings(max_examples=60)
def test_the_head_is_found_and_later_commits_too(versions: int, hint: int | None, more: list[int]) -> None:
    store = new_store()
    commits = make.commits(versions + sum(more))
    for version in range(versions):
        store.put(names.commit("main", version), encode(commits[version]))
    if hint is not None:
        store.put(names.head_hint("main"), f'{{"version": {hint}}}'.encode())
    log = log_of(store)
    if hint is not None and hint >= versions:
        with pytest.raises(CorruptState):
            log.head()
        return
    for added in [0, *more]:
        for version in range(versions, versions + added):
            store.put(names.commit("main", version), encode(commits[version]))
        versions += added
        head = log.head()
        assert (None if head is None else head.version) == (versions - 1 if versions else None)


@pytest.mark.parametrize("versions", [10, 1000])
@pytest.mark.parametrize("lists_after", [False, True])
def test_opening_costs_the_same_for_any_number_of_commits(versions: int, lists_after: bool) -> None:
    store = Counting(new_store())
    store.lists_after = lists_after
    commits = make.commits(versions + 1)
    for commit in commits[:-1]:
        store.put(names.commit("main", commit.version), encode(commit))
    store.put(names.head_hint("main"), b'{"version": %d}' % (versions - 1 if lists_after else versions))
    log = log_of(store)
    log.create_commit(commits[-1])
    store.reads = 0
    assert log_of(store).head() == commits[-1]
    assert store.reads == (3 if lists_after else 4)  # the hint, a listing or two probes, the newest commit
    store.reads = 0
    assert log.head() == commits[-1]
    assert store.reads == 1  # it made the newest commit itself


def test_a_lost_commit_between_others_is_never_passed_over(store: Store) -> None:
    filled(store, 10)
    store.delete(names.head_hint("main"))
    for version in range(9):
        data = store.get(names.commit("main", version))
        store.delete(names.commit("main", version))
        with pytest.raises(
            CorruptState, match=f"{version:010d}.json`: the commit is missing, but commit {version + 1}"
        ):
            log_of(store).head()
        store.put(names.commit("main", version), data)
    assert log_of(store).head() is not None


def test_a_log_sees_commits_of_other_runs(store: Store) -> None:
    one, two = log_of(store), log_of(store)
    for commit in make.commits(6):
        (one if commit.version % 3 else two).create_commit(commit)
        assert one.head() == two.head() == commit


def test_a_commit_costs_two_writes_where_hints_are_cheap(store: Store) -> None:
    counted = Counting(store)
    log_of(counted).create_commit(make.commit(0))
    assert [(write.verb, write.name) for write in counted.writes] == [
        ("create", names.commit("main", 0)),
        ("put_hint", names.head_hint("main")),
    ]


def test_a_commit_costs_one_write_where_listing_finds_the_head(store: Store) -> None:
    counted = Counting(store)
    counted.lists_after = True
    log = log_of(counted)
    for commit in make.commits(HINT_EVERY + 2):
        log.create_commit(commit)
    hints = [write for write in counted.writes if write.verb == "put_hint"]
    assert len(hints) == 2  # with the first commit, and with commit HINT_EVERY
    assert len(counted.writes) == HINT_EVERY + 4


@pytest.mark.parametrize("effect", ["lost", "refused"])
def test_a_hint_that_cannot_be_written_is_not_an_error(store: Store, effect: str) -> None:
    log = log_of(Counting(store, [Fault(2, effect)]))  # type: ignore[arg-type]
    assert log.create_commit(make.commit(0)).outcome == "created"
    assert log_of(store).head() == make.commit(0)


def test_a_torn_hint_is_not_an_error(store: Store) -> None:
    *before, newest = make.commits(4)
    for commit in before:
        log_of(store).create_commit(commit)
    faulty = Counting(store, [Fault(2, "torn")])
    with pytest.raises(Crash):
        log_of(faulty).create_commit(newest)
    assert store.get(names.head_hint("main")) == b'{"versi'
    assert log_of(store).head() == newest

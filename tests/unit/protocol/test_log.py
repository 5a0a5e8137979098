"""The log: adopting plans and commits, parents, forks, finding the head with any hint, and the cost of doing so."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.protocol import valid_records as make
from tidemill import names
from tidemill.errors import CorruptState, Fenced, InternalError, InvalidInput
from tidemill.protocol.codec import encode
from tidemill.protocol.log import Committed, Fork, Log
from tidemill.protocol.numbered import HINT_EVERY
from tidemill.protocol.records import Parent
from tidemill.store import Store, open_store
from tidemill.store.fault import Crash, Fault, FaultStore


def new_store() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


@pytest.fixture
def store() -> Store:
    return new_store()


def log_of(store: Store) -> Log:
    """Return a log that has not read anything yet, and does not pause between retries."""
    return Log(store, pause=lambda seconds: None)


def filled(store: Store, versions: int) -> Log:
    log = log_of(store)
    for commit in make.commits(versions):
        log.create_commit(commit)
    return log_of(store)


class Counting(FaultStore):
    """A store that counts read requests too, and that lists names after another one in one request, or not."""

    lists_after = False

    reads = 0

    def get(self, name: str) -> bytes:
        self.reads += 1
        return super().get(name)

    def stat(self, name: str) -> object:  # type: ignore[override]
        self.reads += 1
        return super().stat(name)

    def list(self, prefix: str = "", start_after: str | None = None, enters: Any = None) -> Any:
        self.reads += 1
        return super().list(prefix, start_after, enters)


# plans


def test_two_planners_get_the_same_plan(store: Store) -> None:
    ours, theirs = make.plan(0, plan_id="ours"), make.plan(0, plan_id="theirs", splits=(make.split(),))
    assert log_of(store).plan(0) is None
    assert log_of(store).create_plan(theirs) == theirs
    assert log_of(store).create_plan(ours) == theirs
    assert log_of(store).plan(0) == theirs
    assert log_of(store).plan(1) is None


def test_a_plan_with_a_different_number_than_its_name_is_corrupt_state(store: Store) -> None:
    store.put(names.plan("main", 3), encode(make.plan(4)))
    for act in (lambda: log_of(store).plan(3), lambda: log_of(store).create_plan(make.plan(3))):
        with pytest.raises(
            CorruptState,
            match="plans/0000000003.json`: expected number 3 of branch `main`, found number 4 of branch `main`",
        ):
            act()


def test_a_record_of_another_branch_is_an_internal_error(store: Store) -> None:
    with pytest.raises(InternalError, match="write a record of branch `other` to the log of branch `main`"):
        log_of(store).create_plan(make.plan(branch="other"))
    with pytest.raises(InternalError, match="write a record of branch `other` to the log of branch `main`"):
        log_of(store).create_commit(make.commit(branch="other"))


def test_branches_do_not_see_each_other(store: Store) -> None:
    filled(store, 2)
    assert Log(store, "other").head() is None
    assert Log(store, "other").plan(0) is None


# commits


def test_a_commit_is_created_once(store: Store) -> None:
    log = log_of(store)
    assert log.create_commit(make.commit(0)) == Committed(make.commit(0), "created")
    assert log.head() == log.commit(0) == make.commit(0)


def test_the_same_plan_committed_by_another_attempt_is_already_committed(store: Store) -> None:
    theirs = make.commit(0, "try-1")
    log_of(store).create_commit(theirs)
    assert log_of(store).create_commit(make.commit(0, "try-2")) == Committed(theirs, "already")
    assert log_of(store).commit(0) == theirs


def test_another_commit_under_our_number_fences_us(store: Store) -> None:
    theirs = make.commit(0, "try-1", plan_id="other")
    log_of(store).create_commit(theirs)
    with pytest.raises(Fenced) as fenced:
        log_of(store).create_commit(make.commit(0, "try-2"))
    assert (
        "another run is committing to this pipeline; its attempt `try-1` committed a batch of plan `other`"
        in fenced.value.first_line
    )
    assert "ours is attempt `try-2`" in fenced.value.first_line
    assert log_of(store).commit(0) == theirs


def test_an_unknown_version_is_an_error_that_names_the_known_ones(store: Store) -> None:
    with pytest.raises(
        InvalidInput, match="read version 0 of branch `main` in `memory://.*`: the branch has no version yet"
    ):
        log_of(store).commit(0)
    log = filled(store, 3)
    for version in (3, -1, 10**12):
        with pytest.raises(InvalidInput, match=f"read version {version} of branch .*: versions go from 0 to 2"):
            log.commit(version)


def test_commits_are_read_in_order_from_a_version_on(store: Store) -> None:
    log = filled(store, 4)
    assert [commit.version for commit in log.commits()] == [0, 1, 2, 3]
    assert [commit.version for commit in log.commits(2)] == [2, 3]
    assert [commit.version for commit in log.commits(-5)] == [0, 1, 2, 3]
    assert list(log.commits(4)) == []


def test_a_damaged_commit_is_corrupt_state_and_never_skipped(store: Store) -> None:
    log = filled(store, 3)
    store.put(names.commit("main", 1), b"garbage")
    with pytest.raises(CorruptState, match="read commit `branches/main/commits/0000000001.json`: not JSON"):
        list(log.commits())
    store.put(names.commit("main", 2), encode(make.commit(1)))
    with pytest.raises(
        CorruptState, match="0000000002.json`: expected number 2 of branch `main`, found number 1 of branch `main`"
    ):
        log_of(store).head()


# head and its hint


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


# parents


def test_a_commit_that_follows_another_one_is_corrupt_state(store: Store) -> None:
    filled(store, 3)
    other = make.commits(3, "another attempt")
    store.put(names.commit("main", 1), encode(other[1]))
    with pytest.raises(CorruptState) as caught:
        list(log_of(store).commits())
    assert "commit 1 of branch `main`" in caught.value.first_line
    assert "it is based on version 0 of branch `main`" in caught.value.first_line
    log = log_of(store)
    assert log.head() is not None
    store.put(names.commit("main", 3), encode(make.commit(3, parent=other[2].as_parent)))
    with pytest.raises(CorruptState, match="commit 3 of branch `main`"):
        log.head()


def test_a_writer_compares_the_head_with_the_commit_before_it_once() -> None:
    store = Counting(new_store())
    filled(store, 3)
    log = log_of(store)
    head = log.head()
    assert head is not None
    before = store.reads
    for _ in range(2):
        log.confirm(head, make.START)
        assert store.reads == before + 1
    log.create_commit(make.commits(4)[3])
    newest = log.head()
    assert newest is not None
    before = store.reads
    log.confirm(newest, make.START)
    assert store.reads == before, "it follows the head that was confirmed"
    store.put(names.commit("main", 2), encode(make.commits(3, "another attempt")[2]))
    with pytest.raises(CorruptState, match="commit 3 of branch `main` .* is based on version 2 of branch `main`"):
        log_of(store).confirm(newest, make.START)


def test_a_writer_compares_the_first_commit_with_what_it_starts_from(store: Store) -> None:
    head = filled(store, 1).head()
    assert head is not None
    with pytest.raises(CorruptState, match="expected the init record with checksum another checksum"):
        log_of(store).confirm(head, Parent("", -1, "another checksum"))
    branch = forked(new_store(), 2)
    before = branch.head()
    assert before is not None and before.branch == "main"
    branch.confirm(before, make.START)  # the entry of the branch names it


def test_the_first_commit_follows_the_init_record(store: Store) -> None:
    log = filled(store, 1)
    assert len(list(log.commits(start=make.START))) == 1
    with pytest.raises(CorruptState, match="based on the init record with checksum checksum of init, expected the"):
        list(log.commits(start=Parent("", -1, "another checksum")))


def test_a_plan_for_another_head_is_corrupt_state(store: Store) -> None:
    log = log_of(store)
    log.create_plan(make.plan(3))
    assert log.plan(3, make.parent(3)) == make.plan(3)
    other = Parent("main", 2, "another checksum")
    with pytest.raises(CorruptState, match="plan 3 of branch `main`"):
        log.plan(3, other)
    with pytest.raises(CorruptState, match="plan 3 of branch `main`"):
        log.create_plan(make.plan(3, parent=other))


def test_a_commit_of_another_parent_under_our_number_is_corrupt_state(store: Store) -> None:
    log_of(store).create_commit(make.commit(0))
    with pytest.raises(CorruptState, match="commit 0 of branch `main`"):
        log_of(store).create_commit(make.commit(0, "try-2", parent=Parent("", -1, "another checksum")))


# forks


def forked(store: Store, at: int, versions: int = 4) -> Log:
    """Return the log of a branch that starts at a version of a filled `main`."""
    main = filled(store, versions)
    return Log(store, "fix-1", Fork(main, main.commit(at).as_parent), pause=lambda seconds: None)


def test_a_branch_reads_the_versions_below_its_fork(store: Store) -> None:
    log = forked(store, 2)
    assert [commit.branch for commit in log.commits()] == ["main"] * 3
    assert log.head() == log.commit(2)
    with pytest.raises(InvalidInput, match="versions go from 0 to 2"):
        log.commit(3)


def test_a_branch_numbers_its_commits_after_the_fork(store: Store) -> None:
    log = forked(store, 2)
    head = log.head()
    assert head is not None
    log.create_plan(make.plan(3, branch="fix-1", parent=head.as_parent))
    made = log.create_commit(make.commit(3, branch="fix-1", parent=head.as_parent)).commit
    assert log.head() == log.commit(3) == made
    assert [(c.branch, c.version) for c in log.commits(1)] == [("main", 1), ("main", 2), ("fix-1", 3)]
    again = Log(store, "fix-1", Fork(log_of(store), head.as_parent))
    assert again.head() == made
    assert filled(store, 0).commit(3).branch == "main"


def test_a_fork_of_another_commit_than_the_recorded_one_is_corrupt_state(store: Store) -> None:
    main = filled(store, 3)
    log = Log(store, "fix-1", Fork(main, Parent("main", 1, "another checksum")))
    with pytest.raises(CorruptState, match="expected the record with checksum another checksum"):
        log.head()


# writes


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

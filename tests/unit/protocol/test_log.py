"""The log: adopting plans and commits, parents, forks, finding the head with any hint, and the cost of doing so."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.protocol import valid_records as make
from tests.unit.protocol.logs import Counting, filled, log_of, new_store
from tidemill import names
from tidemill.errors import CorruptState, Fenced, InternalError, InvalidInput
from tidemill.protocol.codec import encode
from tidemill.protocol.log import Committed, Fork, Log
from tidemill.protocol.records import Parent
from tidemill.store import Store


@pytest.fixture
def store() -> Store:
    return new_store()


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


def test_threads_may_read_a_log_that_remembers_fewer_commits_than_they_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.protocol.log.MEMORY", 3)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        log = filled(store, 40).remembering()
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda number: log.commit(number % 40).version, range(4_000)))
    finally:
        sys.setswitchinterval(switch)
    assert found == [number % 40 for number in range(4_000)]

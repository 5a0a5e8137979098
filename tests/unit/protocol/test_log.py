"""The log: adopting plans and commits, finding the head with any hint, and the cost of doing so."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.protocol import valid_records as make
from tidemill import names
from tidemill.errors import CorruptState, Fenced, InternalError, InvalidInput
from tidemill.protocol.codec import encode
from tidemill.protocol.log import Committed, Log
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
    for version in range(versions):
        log.create_commit(make.commit(version))
    return log_of(store)


class Counting(FaultStore):
    """A store that counts read requests too."""

    reads = 0

    def get(self, name: str) -> bytes:
        self.reads += 1
        return super().get(name)

    def stat(self, name: str) -> object:  # type: ignore[override]
        self.reads += 1
        return super().stat(name)


# init


def test_there_is_no_repository_before_init(store: Store) -> None:
    assert log_of(store).read_init() is None


def test_init_makes_the_repository_once(store: Store) -> None:
    log = log_of(store)
    assert log.init(make.init(uuid="first")) == make.init(uuid="first")
    assert log.init(make.init(uuid="second")) == make.init(uuid="first")
    assert log_of(store).read_init() == make.init(uuid="first")
    assert [entry.name for entry in store.list()] == ["refs/0000000000.json"]


def test_init_fails_on_the_root_of_another_pipeline(store: Store) -> None:
    log_of(store).init(make.init())
    with pytest.raises(InvalidInput) as refused:
        log_of(store).init(make.init(pipeline="other"))
    assert str(refused.value) == (
        f"init pipeline `other` in `{store.uri}`: found the pipeline `retail` there\n"
        "hint: choose another root or another name"
    )


def test_operators_are_added_after_init_in_order(store: Store) -> None:
    log = log_of(store)
    log.init(make.init())
    assert log.added() == []
    one, two = make.added("one"), make.added("two")
    log.add(one)
    log_of(store).add(two)
    assert log.added() == [one, two]
    assert [entry.name for entry in store.list("refs/")] == [names.ref(number) for number in range(3)]


def test_an_entry_of_unknown_kind_is_corrupt_state(store: Store) -> None:
    store.create(names.ref(1), b'{"kind":"branches","format":1}')
    with pytest.raises(CorruptState, match=r"unknown kind 'branches', this Tidemill knows operators"):
        log_of(store).added()


@pytest.mark.parametrize("effect", ["lost", "late", "refused"])
def test_a_lost_answer_adds_operators_once(store: Store, effect: str) -> None:
    faulty = FaultStore(store, [Fault(1, effect)])  # type: ignore[arg-type]
    log_of(faulty).add(make.added("one"))
    assert log_of(store).added() == [make.added("one")]


def test_concurrent_callers_add_all_their_operators(store: Store) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: log_of(store).add(make.added(f"by-{number}")), range(6)))
    assert sorted(name for record in log_of(store).added() for name in record.schemas) == [f"by-{n}" for n in range(6)]


def test_a_damaged_init_record_is_corrupt_state(store: Store) -> None:
    store.put(names.ref(0), b"{")
    with pytest.raises(CorruptState, match="read init `refs/0000000000.json`: not JSON"):
        log_of(store).read_init()
    with pytest.raises(CorruptState, match="read init `refs/0000000000.json`: not JSON"):
        log_of(store).init(make.init())


def test_a_branch_name_is_checked(store: Store) -> None:
    with pytest.raises(InvalidInput, match="invalid branch name '../x'"):
        Log(store, "../x")


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
        with pytest.raises(CorruptState, match=f"the hint names version {named}, but its commit is missing"):
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
        f"read the head of branch `main` in `{store.uri}`: found plan 1, but no commit 0\n"
        "hint: restore `branches/main/commits/` from a backup; Tidemill never starts empty by accident"
    )
    assert Log(store, "other").head() is None


@given(st.integers(0, 60), st.none() | st.integers(-2, 80), st.lists(st.integers(0, 20), max_size=3))
@settings(max_examples=60)
def test_the_head_is_found_and_later_commits_too(versions: int, hint: int | None, more: list[int]) -> None:
    store = new_store()
    for version in range(versions):
        store.put(names.commit("main", version), encode(make.commit(version)))
    if hint is not None:
        store.put(names.head_hint("main"), f'{{"version": {hint}}}'.encode())
    log = log_of(store)
    if hint is not None and hint >= versions:
        with pytest.raises(CorruptState):
            log.head()
        return
    for added in [0, *more]:
        for version in range(versions, versions + added):
            store.put(names.commit("main", version), encode(make.commit(version)))
        versions += added
        head = log.head()
        assert (None if head is None else head.version) == (versions - 1 if versions else None)


@pytest.mark.parametrize("versions", [10, 1000])
def test_opening_costs_the_same_for_any_number_of_commits(versions: int) -> None:
    store = Counting(new_store())
    for version in range(versions):
        store.put(names.commit("main", version), encode(make.commit(version)))
    log = log_of(store)
    log.create_commit(make.commit(versions))
    store.reads = 0
    assert log_of(store).head() == make.commit(versions)
    assert store.reads == 3  # the hint, the commit it names, none above
    store.reads = 0
    assert log.head() == make.commit(versions)
    assert store.reads == 1  # it made the newest commit itself
    store.delete(names.head_hint("main"))
    store.reads = 0
    assert log_of(store).head() == make.commit(versions)
    assert store.reads <= 3 + 2 * versions.bit_length()


def test_a_log_sees_commits_of_other_runs(store: Store) -> None:
    one, two = log_of(store), log_of(store)
    for version in range(6):
        (one if version % 3 else two).create_commit(make.commit(version))
        assert one.head() == two.head() == make.commit(version)


def test_a_commit_costs_two_writes(store: Store) -> None:
    counted = FaultStore(store)
    log_of(counted).create_commit(make.commit(0))
    assert [(write.verb, write.name) for write in counted.writes] == [
        ("create", names.commit("main", 0)),
        ("put_hint", names.head_hint("main")),
    ]


@pytest.mark.parametrize("effect", ["lost", "refused"])
def test_a_hint_that_cannot_be_written_is_not_an_error(store: Store, effect: str) -> None:
    log = log_of(FaultStore(store, [Fault(2, effect)]))  # type: ignore[arg-type]
    assert log.create_commit(make.commit(0)).outcome == "created"
    assert log_of(store).head() == make.commit(0)


def test_a_torn_hint_is_not_an_error(store: Store) -> None:
    filled(store, 3)
    with pytest.raises(Crash):
        log_of(FaultStore(store, [Fault(2, "torn")])).create_commit(make.commit(3))
    assert store.get(names.head_hint("main")) == b'{"versi'
    assert log_of(store).head() == make.commit(3)

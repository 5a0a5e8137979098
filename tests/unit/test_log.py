"""The log: what is adopted, what counts after a lost answer or a race, and what a bad hint costs."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers.s3 import S3Server
from tests.unit import protocol_records as make
from tidemill import names
from tidemill.errors import CorruptState, Fenced, InternalError, InvalidInput, StoreUnavailable
from tidemill.protocol.log import PAUSES_S, Committed, Log
from tidemill.protocol.records import Commit, encode
from tidemill.store import ObjectMissing, Store, open_store
from tidemill.store.fault import Crash, Fault, FaultStore


def new_store() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


@pytest.fixture
def store() -> Store:
    return new_store()


def log_of(store: Store) -> Log:
    """A log that has seen nothing yet, and does not wait."""
    return Log(store, pause=lambda seconds: None)


def filled(store: Store, versions: int) -> Log:
    log = log_of(store)
    for version in range(versions):
        log.create_commit(make.commit(version))
    return log_of(store)


class Counting(FaultStore):
    """Counts requests for reading, too."""

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


def test_init_refuses_a_root_of_another_pipeline(store: Store) -> None:
    log_of(store).init(make.init())
    with pytest.raises(InvalidInput) as refused:
        log_of(store).init(make.init(pipeline="other"))
    assert str(refused.value) == (
        f"init pipeline `other` in `{store.uri}`: it holds the pipeline `retail`\n"
        "hint: choose another root or another name"
    )


def test_a_damaged_init_is_corrupt(store: Store) -> None:
    store.put(names.ref(0), b"{")
    with pytest.raises(CorruptState, match="read init `refs/0000000000.json`: not JSON"):
        log_of(store).read_init()
    with pytest.raises(CorruptState, match="read init `refs/0000000000.json`: not JSON"):
        log_of(store).init(make.init())


def test_a_branch_name_is_checked(store: Store) -> None:
    with pytest.raises(InvalidInput, match="branch name '../x' is not allowed"):
        Log(store, "../x")


# plans


def test_two_planners_never_disagree(store: Store) -> None:
    ours, theirs = make.plan(0, plan_id="ours"), make.plan(0, plan_id="theirs", splits=(make.split(),))
    assert log_of(store).plan(0) is None
    assert log_of(store).create_plan(theirs) == theirs
    assert log_of(store).create_plan(ours) == theirs
    assert log_of(store).plan(0) == theirs
    assert log_of(store).plan(1) is None


def test_a_plan_that_lies_about_its_number_is_corrupt(store: Store) -> None:
    store.put(names.plan("main", 3), encode(make.plan(4)))
    for act in (lambda: log_of(store).plan(3), lambda: log_of(store).create_plan(make.plan(3))):
        with pytest.raises(CorruptState, match="plans/0000000003.json`: it says number 4 of branch `main`"):
            act()


def test_a_record_of_another_branch_is_a_bug(store: Store) -> None:
    with pytest.raises(InternalError, match="a record of branch `other` was given to the log of `main`"):
        log_of(store).create_plan(make.plan(branch="other"))
    with pytest.raises(InternalError, match="a record of branch `other` was given to the log of `main`"):
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
    assert "attempt `try-1` committed a batch of plan `other` there" in fenced.value.first_line
    assert "ours is attempt `try-2`" in fenced.value.first_line
    assert log_of(store).commit(0) == theirs


def test_a_version_that_is_not_there_is_refused_with_those_that_are(store: Store) -> None:
    with pytest.raises(InvalidInput, match="read version 0 of branch `main` in `memory://.*`: there is none yet"):
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


def test_a_damaged_commit_is_corrupt_and_not_passed_over(store: Store) -> None:
    log = filled(store, 3)
    store.put(names.commit("main", 1), b"garbage")
    with pytest.raises(CorruptState, match="read commit `branches/main/commits/0000000001.json`: not JSON"):
        list(log.commits())
    store.put(names.commit("main", 2), encode(make.commit(1)))
    with pytest.raises(CorruptState, match="0000000002.json`: it says number 1 of branch `main`"):
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
def test_the_head_is_found_whatever_the_hint_says(store: Store, versions: int, hint: bytes | None) -> None:
    log = filled(store, versions)
    store.delete(names.head_hint("main"))
    if hint is not None:
        store.put(names.head_hint("main"), hint)
    head = log.head()
    assert (None if head is None else head.version) == (versions - 1 if versions else None)


@given(st.integers(0, 60), st.none() | st.integers(-2, 80), st.lists(st.integers(0, 20), max_size=3))
@settings(max_examples=60)
def test_the_head_is_found_and_followed(versions: int, hint: int | None, more: list[int]) -> None:
    store = new_store()
    for version in range(versions):
        store.put(names.commit("main", version), encode(make.commit(version)))
    if hint is not None:
        store.put(names.head_hint("main"), f'{{"version": {hint}}}'.encode())
    log = log_of(store)
    for added in [0, *more]:
        for version in range(versions, versions + added):
            store.put(names.commit("main", version), encode(make.commit(version)))
        versions += added
        head = log.head()
        assert (None if head is None else head.version) == (versions - 1 if versions else None)


@pytest.mark.parametrize("versions", [10, 1000])
def test_opening_costs_the_same_however_many_commits_there_are(versions: int) -> None:
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


def test_a_log_sees_what_others_commit(store: Store) -> None:
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
def test_a_hint_that_cannot_be_written_harms_nothing(store: Store, effect: str) -> None:
    log = log_of(FaultStore(store, [Fault(2, effect)]))  # type: ignore[arg-type]
    assert log.create_commit(make.commit(0)).outcome == "created"
    assert log_of(store).head() == make.commit(0)


def test_a_torn_hint_harms_nothing(store: Store) -> None:
    filled(store, 3)
    with pytest.raises(Crash):
        log_of(FaultStore(store, [Fault(2, "torn")])).create_commit(make.commit(3))
    assert store.get(names.head_hint("main")) == b'{"versi'
    assert log_of(store).head() == make.commit(3)


# lost answers

Claim = Callable[[Log], object]
CLAIMS: list[tuple[str, Claim, object]] = [
    (names.ref(0), lambda log: log.init(make.init()), make.init()),
    (names.plan("main", 0), lambda log: log.create_plan(make.plan(0)), make.plan(0)),
    (names.commit("main", 0), lambda log: log.create_commit(make.commit(0)), Committed(make.commit(0), "created")),
]


@pytest.mark.parametrize(("name", "claim", "expected"), CLAIMS)
@pytest.mark.parametrize(
    "effects",
    [
        ["lost"],
        ["refused"],
        ["late"],
        ["refused", "lost"],
        ["refused", "refused", "refused", "refused"],
        ["late", "lost"],
        ["refused", "late"],
        ["late", "refused"],
    ],
)
def test_a_lost_answer_is_no_lost_race(
    store: Store, name: str, claim: Claim, expected: object, effects: list[str]
) -> None:
    faults = [Fault(number, effect) for number, effect in enumerate(effects, 1)]  # type: ignore[arg-type]
    assert claim(log_of(FaultStore(store, faults))) == expected
    assert claim(log_of(store)) == expected
    assert [entry.name for entry in store.list() if entry.name == name] == [name]


@pytest.mark.parametrize(("name", "claim", "expected"), CLAIMS)
def test_after_some_tries_the_store_is_unavailable_and_a_rerun_finds_out(
    store: Store, name: str, claim: Claim, expected: object
) -> None:
    tries = len(PAUSES_S) + 1
    waited: list[float] = []
    faulty = FaultStore(store, [Fault(number, "refused") for number in range(1, tries + 1)])
    with pytest.raises(StoreUnavailable) as unavailable:
        claim(Log(faulty, pause=waited.append))
    assert unavailable.value.first_line == (
        f"create `{faulty.uri}/{name}`: 5 tries had no answer, and nothing is there to read back "
        f"(create `{name}` (write 5, refused): a fault of the test); it may still arrive"
    )
    assert unavailable.value.hint == "run again: it reads what became of it"
    assert waited == list(PAUSES_S)
    assert list(store.list()) == []
    assert claim(log_of(store)) == expected


def test_a_try_that_lands_after_we_gave_up_is_ours_when_run_again(store: Store) -> None:
    tries = len(PAUSES_S) + 1
    effects = [*["refused"] * (tries - 1), "late"]
    faulty = FaultStore(store, [Fault(number, effect) for number, effect in enumerate(effects, 1)])  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        log_of(faulty).create_commit(make.commit(0, "try-1"))
    # a rerun is a new attempt at the same plan; the write of the old one comes first after all
    assert log_of(faulty).create_commit(make.commit(0, "try-2")) == Committed(make.commit(0, "try-1"), "already")


@pytest.mark.parametrize("effect", ["lost", "refused"])
def test_a_lost_answer_in_a_lost_race_is_told_apart(store: Store, effect: str) -> None:
    log_of(store).create_commit(make.commit(0, "theirs", plan_id="other"))
    log_of(store).create_commit(make.commit(1, "theirs"))
    faults = [Fault(1, effect)]  # type: ignore[arg-type]
    with pytest.raises(Fenced):
        log_of(FaultStore(store, faults)).create_commit(make.commit(0, "ours"))
    assert log_of(FaultStore(store, faults)).create_commit(make.commit(1, "ours")).outcome == "already"


class Failing(FaultStore):
    """`create` raises, before or after the write; so may `get`."""

    error: Exception = ValueError("what nobody expected")
    writes_first = False
    fails_reading = 0

    def create(self, name: str, data: bytes) -> bool:
        if self.writes_first:
            super().create(name, data)
        raise self.error

    def get(self, name: str) -> bytes:
        if self.fails_reading:
            self.fails_reading -= 1
            raise StoreUnavailable("no answer to a read")
        return super().get(name)


def test_after_any_error_the_name_is_read_back(store: Store) -> None:
    failing = Failing(store)
    with pytest.raises(ValueError, match="what nobody expected"):
        log_of(failing).create_commit(make.commit(0))
    failing.writes_first = True
    assert log_of(failing).create_commit(make.commit(0)).outcome == "created"


def test_a_create_that_can_never_work_is_not_repeated(store: Store) -> None:
    failing = Failing(store)
    failing.error = InvalidInput("no such bucket")
    waited: list[float] = []
    with pytest.raises(InvalidInput, match="no such bucket"):
        Log(failing, pause=waited.append).create_commit(make.commit(0))
    assert waited == []


def test_reading_back_may_fail_too(store: Store) -> None:
    failing = Failing(store)
    failing.error = StoreUnavailable("no answer to a create", hint="check the network")
    failing.writes_first, failing.fails_reading = True, 3
    assert log_of(failing).create_commit(make.commit(0)).outcome == "created"
    failing.fails_reading = 100
    with pytest.raises(StoreUnavailable, match=r"nothing is there to read back \(no answer to a create\)") as error:
        log_of(failing).create_commit(make.commit(1))
    assert error.value.hint == "check the network"


def test_a_name_that_is_taken_and_then_gone_is_tried_again(store: Store) -> None:
    class Forgetful(FaultStore):
        refusals = 2

        def create(self, name: str, data: bytes) -> bool:
            self.refusals -= 1
            return False if self.refusals >= 0 else super().create(name, data)

    assert log_of(Forgetful(store)).create_commit(make.commit(0)).outcome == "created"
    always = Forgetful(store)
    always.refusals = 100
    with pytest.raises(StoreUnavailable, match="refused as taken"):
        log_of(always).create_commit(make.commit(1))


# crashes


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("effect", ["before", "after", "torn"])
def test_after_a_crash_anywhere_a_rerun_ends_as_an_undisturbed_run(store: Store, number: int, effect: str) -> None:
    def run(on: Store, attempt: str) -> Commit:
        log = log_of(on)
        log.init(make.init(uuid=attempt))
        head = log.head()
        if head is not None:
            return head
        plan = log.create_plan(make.plan(0))
        return log.create_commit(make.commit(plan.number, attempt)).commit

    with pytest.raises(Crash):
        run(FaultStore(store, [Fault(number, effect)]), "try-1")  # type: ignore[arg-type]
    commit = run(store, "try-2")
    assert log_of(store).head() == commit
    assert [found.version for found in log_of(store).commits()] == [0]
    expected = "try-1" if number == 4 or (number, effect) == (3, "after") else "try-2"
    assert commit.attempt == expected


# races, on real stores


@pytest.fixture(params=["memory", "local", "s3"])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        return open_store(server.new_root(), server.options)
    return new_store() if request.param == "memory" else open_store(str(tmp_path))


def test_of_racing_attempts_at_one_plan_one_creates_each_commit(real: Store) -> None:
    drivers, versions = 6, 8
    barrier = threading.Barrier(drivers)

    def drive(number: int) -> list[Committed]:
        log = log_of(real)
        done = []
        for version in range(versions):
            barrier.wait(60)
            plan = log.create_plan(make.plan(version, plan_id=f"{version} by {number}"))
            done.append(log.create_commit(make.commit(version, f"try-{number}", plan_id=plan.plan_id)))
        return done

    with ThreadPoolExecutor(drivers) as pool:
        results = list(pool.map(drive, range(drivers)))
    commits = list(log_of(real).commits())
    for version in range(versions):
        outcomes = [done[version] for done in results]
        assert [found.commit for found in outcomes] == [commits[version]] * drivers
        created = [number for number, found in enumerate(outcomes) if found.outcome == "created"]
        assert [f"try-{number}" for number in created] == [commits[version].attempt]
    head = log_of(real).head()
    assert head is not None
    assert head.version == versions - 1


def test_of_racing_plans_one_commits_and_the_others_are_fenced(real: Store) -> None:
    drivers = 6
    barrier = threading.Barrier(drivers)

    def drive(number: int) -> str:
        barrier.wait(60)
        try:
            return log_of(real).create_commit(make.commit(0, f"try-{number}", plan_id=f"by {number}")).outcome
        except Fenced:
            return "fenced"

    with ThreadPoolExecutor(drivers) as pool:
        outcomes = list(pool.map(drive, range(drivers)))
    assert sorted(outcomes) == ["created"] + ["fenced"] * (drivers - 1)
    assert log_of(real).commit(0).attempt == f"try-{outcomes.index('created')}"


def test_a_loser_commits_nothing_at_the_next_number(real: Store) -> None:
    log_of(real).create_commit(make.commit(0, "theirs"))
    log_of(real).create_commit(make.commit(0, "ours"))
    with pytest.raises(ObjectMissing):
        real.get(names.commit("main", 1))

"""The log when answers are lost, drivers race and processes die: one commit counts, and each driver finds out which."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.servers.s3 import S3Server
from tests.unit.protocol import valid_records as make
from tidemill import names
from tidemill.errors import Fenced, InvalidInput, StoreUnavailable
from tidemill.protocol.log import Committed, Log
from tidemill.protocol.numbered import PAUSES_S
from tidemill.protocol.records import Commit
from tidemill.store import ObjectMissing, Store, open_store
from tidemill.store.fault import Crash, Fault, FaultStore


def new_store() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


@pytest.fixture
def store() -> Store:
    return new_store()


def log_of(store: Store) -> Log:
    """Return a log that has not read anything yet, and does not pause between retries."""
    return Log(store, pause=lambda seconds: None)


# lost answers

Claim = Callable[[Log], object]
CLAIMS: list[tuple[str, Claim, object]] = [
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
def test_a_lost_answer_is_not_a_lost_race(
    store: Store, name: str, claim: Claim, expected: object, effects: list[str]
) -> None:
    faults = [Fault(number, effect) for number, effect in enumerate(effects, 1)]  # type: ignore[arg-type]
    assert claim(log_of(FaultStore(store, faults))) == expected
    assert claim(log_of(store)) == expected
    assert [entry.name for entry in store.list() if entry.name == name] == [name]


@pytest.mark.parametrize(("name", "claim", "expected"), CLAIMS)
def test_after_five_attempts_the_outcome_is_unknown_and_a_rerun_finds_out(
    store: Store, name: str, claim: Claim, expected: object
) -> None:
    tries = len(PAUSES_S) + 1
    waited: list[float] = []
    faulty = FaultStore(store, [Fault(number, "refused") for number in range(1, tries + 1)])
    with pytest.raises(StoreUnavailable) as unavailable:
        claim(Log(faulty, pause=waited.append))
    assert unavailable.value.first_line == (
        f"create `{faulty.uri}/{name}`: outcome unknown after 5 attempts "
        f"(create `{name}` (write 5, refused): a fault of the test); the write may still complete"
    )
    assert unavailable.value.hint == "run again; the next run finds out whether it completed"
    assert waited == list(PAUSES_S)
    assert list(store.list()) == []
    assert claim(log_of(store)) == expected


def test_a_write_that_completes_after_the_last_attempt_is_ours_in_the_rerun(store: Store) -> None:
    tries = len(PAUSES_S) + 1
    effects = [*["refused"] * (tries - 1), "late"]
    faulty = FaultStore(store, [Fault(number, effect) for number, effect in enumerate(effects, 1)])  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        log_of(faulty).create_commit(make.commit(0, "try-1"))
    # a rerun is a new attempt at the same plan; the write of the old one comes first after all
    assert log_of(faulty).create_commit(make.commit(0, "try-2")) == Committed(make.commit(0, "try-1"), "already")


@pytest.mark.parametrize("effect", ["lost", "refused"])
def test_a_lost_answer_in_a_lost_race_is_recognised(store: Store, effect: str) -> None:
    log_of(store).create_commit(make.commit(0, "theirs", plan_id="other"))
    log_of(store).create_commit(make.commit(1, "theirs"))
    faults = [Fault(1, effect)]  # type: ignore[arg-type]
    with pytest.raises(Fenced):
        log_of(FaultStore(store, faults)).create_commit(make.commit(0, "ours"))
    assert log_of(FaultStore(store, faults)).create_commit(make.commit(1, "ours")).outcome == "already"


class Failing(FaultStore):
    """A store whose `create`, and optionally `get`, raises before or after the write."""

    error: Exception = ValueError("an unexpected error")
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
    with pytest.raises(ValueError, match="an unexpected error"):
        log_of(failing).create_commit(make.commit(0))
    failing.writes_first = True
    assert log_of(failing).create_commit(make.commit(0)).outcome == "created"


def test_a_create_that_can_never_work_is_not_retried(store: Store) -> None:
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
    with pytest.raises(StoreUnavailable, match=r"outcome unknown after 5 attempts \(no answer to a create\)") as error:
        log_of(failing).create_commit(make.commit(1))
    assert error.value.hint == "check the network"


def test_a_refused_name_that_is_missing_is_retried(store: Store) -> None:
    class Forgetful(FaultStore):
        refusals = 2

        def create(self, name: str, data: bytes) -> bool:
            self.refusals -= 1
            return False if self.refusals >= 0 else super().create(name, data)

    assert log_of(Forgetful(store)).create_commit(make.commit(0)).outcome == "created"
    always = Forgetful(store)
    always.refusals = 100
    with pytest.raises(StoreUnavailable, match="the store said that the name exists, but it is missing"):
        log_of(always).create_commit(make.commit(1))


# crashes


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("effect", ["before", "after", "torn"])
def test_after_a_crash_anywhere_a_rerun_ends_as_an_undisturbed_run(store: Store, number: int, effect: str) -> None:
    def run(on: Store, attempt: str) -> Commit:
        log = log_of(on)
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
    expected = "try-1" if number == 3 or (number, effect) == (2, "after") else "try-2"
    assert commit.attempt == expected


# races, on real stores


@pytest.fixture(params=["memory", "local", pytest.param("s3", marks=pytest.mark.servers("use an S3 server"))])
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
        parent = make.START
        for version in range(versions):
            barrier.wait(60)
            plan = log.create_plan(make.plan(version, plan_id=f"{version} by {number}", parent=parent))
            ours = make.commit(version, f"try-{number}", plan_id=plan.plan_id, parent=parent)
            done.append(log.create_commit(ours))
            parent = done[-1].commit.as_parent
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

"""A run that looks for the head while another one makes the first batch finds no loss."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.protocol import valid_records as make
from tidemill import names
from tidemill.errors import CorruptState
from tidemill.protocol.log import Log
from tidemill.store import ListedObject, Store, open_store
from tidemill.store.fault import FaultStore


class Racing(FaultStore):
    """A store in which another run acts just after this one has read that `name` is missing."""

    name = ""
    act: Callable[[], object] = staticmethod(lambda: None)

    def stat(self, name: str) -> ListedObject | None:
        found = super().stat(name)
        if found is None and name == self.name:
            self._act_once()
        return found

    def list(self, prefix: str = "", start_after: str | None = None, enters: Any = None) -> Iterator[ListedObject]:
        found = list(super().list(prefix, start_after, enters))
        if prefix == self.name:
            self._act_once()
        return iter(found)

    def _act_once(self) -> None:
        act, self.name = self.act, ""
        act()


def log_of(store: Store) -> Log:
    return Log(store, pause=lambda seconds: None)


def plan_and_write(store: Store) -> None:
    log_of(store).create_plan(make.plan(0))
    store.put(names.segment("op", "state", "main", "0000000000-try"), b"segment")


def commit(store: Store) -> None:
    [first] = make.commits(1)
    log_of(store).create_commit(first)
    store.put(names.numbered(names.published("main", "sink"), 0), b"record")


def commit_and_plan(store: Store) -> None:
    commit(store)
    log_of(store).create_plan(make.plan(1))


RACES = {
    "plans and writes": (lambda store: None, names.plan("main", 0), plan_and_write),
    "commits and publishes": (plan_and_write, names.plan("main", 1), commit),
    "commits and plans": (plan_and_write, names.commits("main"), commit_and_plan),
}


@pytest.mark.parametrize("race", list(RACES))
def test_another_run_that_makes_the_first_batch_meanwhile_is_no_loss(race: str) -> None:
    before, name, act = RACES[race]
    store = open_store(f"memory://{uuid.uuid4().hex}")
    before(store)
    racing = Racing(store)
    racing.name, racing.act = name, lambda: act(store)
    log_of(racing).head()
    assert racing.name == "", "the other run did not act"


@pytest.mark.parametrize("race", list(RACES))
def test_what_the_other_run_wrote_is_a_loss_without_its_records(race: str) -> None:
    before, _, act = RACES[race]
    store = open_store(f"memory://{uuid.uuid4().hex}")
    before(store)
    act(store)
    for lost in (names.commit("main", 0), names.head_hint("main")):
        store.delete(lost)
    if race == "plans and writes":
        store.delete(names.plan("main", 0))
    with pytest.raises(CorruptState, match="shows that it was made"):
        log_of(store).head()

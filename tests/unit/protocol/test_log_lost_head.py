"""Commits that are lost at the end of a log: a later plan shows that they were made."""

from __future__ import annotations

import uuid

import pytest

from tests.unit.protocol import valid_records as make
from tidemill import names
from tidemill.errors import CorruptState
from tidemill.protocol.log import Log
from tidemill.store import Store, open_store


@pytest.fixture
def store() -> Store:
    """A store with the plans and commits of three versions, and the plan of a fourth."""
    store = open_store(f"memory://{uuid.uuid4().hex}")
    log = log_of(store)
    for commit in make.commits(3):
        log.create_plan(make.plan(commit.version))
        log.create_commit(commit)
    log.create_plan(make.plan(3))
    return store


def log_of(store: Store) -> Log:
    return Log(store, pause=lambda seconds: None)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_plan_is_not_run_again_if_a_later_plan_shows_its_commit(store: Store, lost: int) -> None:
    first = 3 - lost
    for version in range(first, 3):
        store.delete(names.commit("main", version))
    store.delete(names.head_hint("main"))
    with pytest.raises(CorruptState) as caught:
        log_of(store).plan(first)
    assert caught.value.first_line.startswith(
        f"read `{store.uri}/{names.commit('main', first)}`: the commit is missing"
    )
    assert f"`{names.plan('main', first + 1)}` shows that it was made" in caught.value.first_line


def test_a_plan_that_another_run_commits_meanwhile_is_no_loss(store: Store) -> None:
    assert [log_of(store).plan(number) is not None for number in range(4)] == [True] * 4


def test_an_open_plan_is_no_loss(store: Store) -> None:
    log = log_of(store)
    assert log.head() is not None and log.plan(3) is not None and log.plan(4) is None

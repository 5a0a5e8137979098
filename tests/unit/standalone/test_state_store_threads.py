"""A version of a `tm.StateStore` shared by threads: a commit contains every put that returned before it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import InvalidInput, StoreUnavailable
from tidemill.protocol.numbered import PAUSES_S
from tidemill.standalone.store_log import StoreLog
from tidemill.store import Store


class Held:
    """A store whose first `create` of a record waits for a signal, and then succeeds or fails as the test chooses."""

    def __init__(self, inner: Store, fails: bool) -> None:
        self.inner, self.failures = inner, len(PAUSES_S) + 1 if fails else 0
        self.began, self.go_on = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create(self, name: str, data: bytes) -> bool:
        self.began.set()
        assert self.go_on.wait(60)
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("the store is away")
        return self.inner.create(name, data)


def store_at(root: Path) -> tm.StateStore:
    return tm.StateStore(str(root), "counts", 0, key="bigint", state="bigint")


@pytest.mark.parametrize("verb", ["put", "remove", "commit", "abort"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_change_during_a_commit_fails_or_is_made_if_the_commit_fails(tmp_path: Path, verb: str, fails: bool) -> None:
    store = store_at(tmp_path)
    opened = store.get(0)
    opened.put(1, 1)
    held = Held(store._store, fails)
    store._log = StoreLog(held, pause=lambda seconds: None)  # type: ignore[arg-type]
    outcomes: dict[str, Any] = {}

    def run(name: str, call: Any) -> None:
        try:
            outcomes[name] = call()
        except (InvalidInput, StoreUnavailable) as error:
            outcomes[name] = error

    changes = {"put": lambda: opened.put(2, 2), "remove": lambda: opened.remove(1)}
    call = changes.get(verb) or getattr(opened, verb)
    first = threading.Thread(target=run, args=("first", opened.commit))
    second = threading.Thread(target=run, args=("second", call))
    first.start()
    assert held.began.wait(60)
    second.start()
    assert opened.get(1) == 1  # who reads does not wait
    held.go_on.set()
    first.join()
    second.join()
    there = {"put": {1: 1, 2: 2}, "remove": {}, "commit": {1: 1}}
    if not fails:
        assert (outcomes["first"], store.latest) == (1, 1)
        assert f"cannot {verb} at version 0: its changes were committed" in str(outcomes["second"])
        assert dict(store.getReadOnly(1).iterator()) == {1: 1}
        return
    assert isinstance(outcomes["first"], StoreUnavailable)
    assert outcomes["second"] == (1 if verb == "commit" else None)
    if verb != "abort":
        assert verb == "commit" or opened.commit() == 1
        assert dict(store.getReadOnly(1).iterator()) == there[verb]
    else:
        assert store.latest == 0


def test_every_put_that_returned_is_in_the_committed_version(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for version in range(10):
        opened = store.get(version)
        accepted: list[list[int]] = [[], []]

        def putting(mine: list[int], first: int, opened: Any = opened, version: int = version) -> None:
            for number in range(first, 10**9, 2):
                try:
                    opened.put(number, version)
                except InvalidInput:
                    return
                mine.append(number)

        threads = [threading.Thread(target=putting, args=(mine, first)) for first, mine in enumerate(accepted)]
        for thread in threads:
            thread.start()
        while not all(accepted):
            pass
        opened.commit()
        for thread in threads:
            thread.join()
        committed = store.getReadOnly(version + 1)
        found = {key for key, state in committed.iterator() if state == version}
        assert found == {number for mine in accepted for number in mine}


def test_opening_and_aborting_writes_nothing(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    first = store.get(0)
    first.put(1, 1)
    first.commit()
    folder = tmp_path / "stores"
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    opened = store.get(1)
    assert dict(opened.iterator()) == {1: 1}
    opened.abort()
    changed = store.get(1)
    changed.put(2, 2)
    changed.abort()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert store.latest == 1

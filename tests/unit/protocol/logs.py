"""Logs with some commits."""

from __future__ import annotations

import uuid
from typing import Any

from tests.unit.protocol import valid_records as make
from tidemill.protocol.log import Log
from tidemill.store import Store, open_store
from tidemill.store.fault import FaultStore


def new_store() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


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

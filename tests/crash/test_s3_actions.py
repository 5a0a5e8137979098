"""Each command that is no batch, on S3 behind a proxy: one of its writes gets a bad answer, or arrives late.

The answers are 500, 503 and 409 without storing anything, 500 after storing, a lost answer, a closed connection, and a
PUT that arrives after the command has failed and was called again. The command is called again, as a user does, and
the result equals that of an undisturbed call. By default each command meets one bad answer; with
`TIDEMILL_EXHAUSTIVE` it meets all of them at every write, which takes long.
"""

from __future__ import annotations

import importlib
import itertools
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.crash import worlds
from tests.crash.actions import ACTIONS, Action, again
from tests.crash.worlds import Place, Snapshot
from tests.exhaustive import EXHAUSTIVE
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import Fault, Request, S3Proxy
from tidemill.store import s3 as s3_store

pytestmark = pytest.mark.servers("use an S3 server", seconds=100)

SEED = int(os.environ.get("TIDEMILL_SEED", "0")) or random.SystemRandom().randrange(10**9)
BAD = {
    "500": Fault(500, "InternalError"),
    "503": Fault(503, "SlowDown"),
    "409": Fault(409, "ConditionalRequestConflict"),
    "500 after storing": Fault(500, "InternalError", after=True),
    "lost": Fault(after=True),
    "closed": Fault(),
    "late": Fault(late_s=0.3),
}
WRITES = ("PUT", "COPY", "DELETE")
NAMES = (
    "skip", "requeue", "migrate", "migrate keys", "rewind", "maintain", "forget", "forget and keep history", "tag",
    "publish",
)  # fmt: skip
AT_A_COMMAND = 1


@dataclass
class Once:
    """A plan that treats the write number `at` badly, and the tries of the same write."""

    at: int
    fault: Fault | None
    writes: int = 0
    key: tuple[str, str] | None = None
    is_over: bool = False

    def __call__(self, request: Request) -> Fault | None:
        if request.kind not in WRITES or self.is_over:
            return None
        self.writes += 1
        if self.writes == self.at:
            self.key = (request.kind, request.key)
        return self.fault if self.key == (request.kind, request.key) else None


@pytest.fixture(scope="module")
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server) as running:
        yield running


@pytest.fixture
def server(s3_server: S3Server, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with an environment of AWS by which all stores of this process use the proxy, and no pauses."""
    for name, value in {**proxy.environment, "AWS_MAX_ATTEMPTS": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(s3_store, "CONFLICT_PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr(importlib.import_module("tidemill.store.probe"), "_PAUSES_S", (0.0, 0.0))
    return s3_server


@pytest.fixture(scope="module")
def begun() -> dict[str, tuple[Place, Snapshot]]:
    """By the name of a beginning: a world, and its objects then. Tests share them, because S3 is slow."""
    return {}


def prepared(
    begun: dict[str, tuple[Place, Snapshot]], action: Action, server: S3Server, folder: Path
) -> tuple[Place, Snapshot]:
    key = action.begin.__name__
    if key not in begun:
        world = worlds.filled(folder, server.new_root())
        action.begin(world)
        begun[key] = world, world.save()
    return begun[key]


def ending(world: Place) -> dict[str, Any]:
    """Run to the end, and return what a user sees of the newest version, kinds of commits, and published rows."""
    world.run()
    r = world.open()
    return {
        "kinds": [commit.kind for commit in r.commits()],
        "entries": len([one for one in world.store.list(f"root/{world.name}/refs/") if "head" not in one.name]),
        "tags": sorted((name, one.version) for name, one in r.opened.refresh().tags.items()),
        "rows": sorted(row for file in worlds.published(world).values() for row in file),
        "skipped": [[file.path for file in commit.skipped] for commit in r.commits()],
        "problems": r.verify(deep=True).problems,
        **{f"state {name}": sorted(map(repr, r.state(name).to_pylist())) for name in worlds.SINKS},
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_answer_to_any_write_of_a_command_changes_nothing(
    name: str,
    server: S3Server,
    proxy: S3Proxy,
    begun: dict[str, tuple[Place, Snapshot]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    action, chance = ACTIONS[name], random.Random(f"{SEED} {name}")
    world, before = prepared(begun, action, server, tmp_path_factory.mktemp("s3"))
    world.load(before)
    calm = Once(0, None)
    proxy.plan = calm
    action.act(world)
    calm.is_over = True
    expected = ending(world)
    assert calm.writes and not expected["problems"]
    every = list(itertools.product(range(1, calm.writes + 1), BAD))
    for at, kind in every if EXHAUSTIVE else chance.sample(every, AT_A_COMMAND):
        world.load(before)
        once = Once(at, BAD[kind])
        proxy.plan = once
        failed = None
        try:
            action.act(world)
        except tm.StoreUnavailable as error:
            failed = error
        once.is_over = True
        if failed is not None:
            again(world, action)
        proxy.settle()
        found = ending(world)
        difference = [part for part, value in expected.items() if found[part] != value]
        assert not difference, f"seed {SEED}: {difference} after `{kind}` at write {at}, {once.key}: {failed}"

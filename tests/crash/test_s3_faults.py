"""Drains on S3 behind a proxy that fails requests: 500, 503, closed connections, lost answers, slow ones, outages.

A failed run raises `StoreUnavailable` and is run again; the end equals an undisturbed run. `TIDEMILL_S3_FAULTS` sets
the number of faults, `TIDEMILL_SEED` repeats a campaign. The faults are printed by kind.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.crash import worlds
from tests.crash.worlds import FILES, UNCACHED
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import Fault, Request, S3Proxy
from tidemill.store import open_store

pytestmark = pytest.mark.servers("use an S3 server")

FAULTS = int(os.environ.get("TIDEMILL_S3_FAULTS", "40"))
SEED = int(os.environ.get("TIDEMILL_SEED", "0")) or random.SystemRandom().randrange(10**9)
KINDS = {
    "500": Fault(500, "InternalError"),
    "503": Fault(503, "SlowDown"),
    "closed": Fault(),
    "lost": Fault(after=True),
    "lost, then 500": Fault(500, "InternalError", after=True),
    "slow": Fault(delay_s=0.05),
}
SHARES = {"PUT": 0.15, "COPY": 0.2, "DELETE": 0.1}
SHARE = 0.03
"""The share of all other requests that fails."""
OUTAGE = 12
MOST_RUNS = 200


class Chance:
    """A plan of random faults: single ones, and now and then an outage of several requests in a row."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self._lock = chance, threading.Lock()
        self._left = 0
        self.counts: Counter[str] = Counter()

    def __call__(self, request: Request) -> Fault | None:
        with self._lock:
            if not self._left and self._chance.random() >= SHARES.get(request.kind, SHARE):
                return None
            if not self._left and self._chance.random() < 0.05:
                self._left = OUTAGE
            self._left = max(self._left - 1, 0)
            kind = self._chance.choice(list(KINDS))
            self.counts[f"{kind} at {request.kind}"] += 1
            return KINDS[kind]


@pytest.fixture(scope="module")
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server) as running:
        yield running


def pipeline(root: str) -> tm.Pipeline:
    p = tm.Pipeline("faulty")
    p.batch_time(worlds.by_file_name)
    rows = p.read(
        tm.Files(f"{root}/inbox", format="json", schema="user string, n int, ts timestamp", mode="PERMISSIVE",
                 maxFilesPerTrigger=1)
    ).withWatermark("ts", "1 second")  # fmt: skip
    rows.groupBy("user").mapWithState(
        tm.StateSpec.function(worlds.track).timeout("2 seconds", clock="event"),
        stateSchema="long", outputSchema="user string, n long, closed boolean", name="users",
    ).write(tm.Parquet(f"{root}/sinks/users"))  # fmt: skip
    rows.groupBy("n").agg(users=tm.count(), name="by-n").write(tm.Json(f"{root}/sinks/by-n"))
    return p


def opened(root: str, server: S3Server, proxy: S3Proxy) -> tm.Repository:
    options: dict[str, Any] = {**server.options, "endpoint_url": proxy.endpoint_url, "max_attempts": 2}
    sections = dict.fromkeys(("root", "source", "sink"), options)
    return tm.open(pipeline(root), root=f"{root}/root", conf=UNCACHED, storage_options=sections)


def seen(root: str, server: S3Server, proxy: S3Proxy) -> dict[str, Any]:
    """All that a user can see, without names of attempts."""
    repository, store = opened(root, server, proxy), open_store(root, server.options)
    assert repository.head is not None
    files = {entry.name: store.get(entry.name) for entry in store.list("sinks/")}
    return {
        "version": repository.head.version,
        "counts": [commit.counts for commit in repository.commits()],
        "quarantine": repository.quarantine().drop_columns(["file"]).to_pylist(),
        **{f"state {name}": sorted(map(repr, repository.state(name).to_pylist())) for name in worlds.SINKS},
        **{f"outputs {name}": repository.outputs(sink=name).to_pylist() for name in worlds.SINKS},
        "published": sorted(row for name, data in files.items() for row in worlds.rows_of(name, data)),
    }


def new_root(server: S3Server, folder: Path) -> str:
    root = server.new_root()
    inbox = open_store(f"{root}/inbox", server.options)
    for file in sorted(folder.iterdir()):
        inbox.put(file.name, file.read_bytes())
    return root


def until_done(root: str, server: S3Server, proxy: S3Proxy, chance: random.Random) -> int:
    """Init and run until a run finds nothing to do; return how many runs failed."""
    failed, is_made = 0, False
    for _ in range(MOST_RUNS):
        try:
            repository = opened(root, server, proxy)
            if not is_made:
                is_made = bool(repository.init())
            if repository.run(engine="local", tasks=chance.choice([1, 1, 2])) == []:
                return failed
        except (tm.StoreUnavailable, tm.Fenced):
            failed += 1
    raise AssertionError(f"seed {SEED}: {MOST_RUNS} runs did not finish, {failed} of them failed")


def test_faults_of_s3_leave_the_result_of_an_undisturbed_run(
    s3_server: S3Server, proxy: S3Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    worlds.make_inbox(tmp_path / "inbox")
    calm = new_root(s3_server, tmp_path / "inbox")
    until_done(calm, s3_server, proxy, chance)
    expected = seen(calm, s3_server, proxy)
    assert expected["version"] >= FILES - 1 and len(expected["published"]) > FILES
    plan, rounds, failed = Chance(chance), 0, 0
    while plan.counts.total() < FAULTS:
        root = new_root(s3_server, tmp_path / "inbox")
        proxy.plan = plan
        try:
            with ThreadPoolExecutor(2) as pool:  # every other repository is drained by two runs at once
                drains = [pool.submit(until_done, root, s3_server, proxy, chance) for _ in range(1 + rounds % 2)]
            failed += sum(drain.result() for drain in drains)
        finally:
            proxy.plan = lambda request: None
        found = seen(root, s3_server, proxy)
        for part, value in expected.items():
            assert found[part] == value, f"seed {SEED}, round {rounds}: {part}"
        rounds += 1
    with capsys.disabled():
        by_kind = sorted(plan.counts.items())
        print(f"\nseed {SEED}: {plan.counts.total()} faults, {failed} failed runs, {rounds} repositories: {by_kind}")

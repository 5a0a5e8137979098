"""The requests and bytes of an idle run and of a warm batch on S3: how many, and that history does not add any.

They are counted by a proxy before the S3 server. The pipeline has two chained operators and a sink, and runs in one
task. Counts are equal after 10 and 2,000 commits (10,000 in an exhaustive run), and with 0 and 1,000 more entries in
`refs/`. Bytes are nearly equal, because numbers have more digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

import tidemill as tm
from tests.exhaustive import EXHAUSTIVE
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import Request, S3Proxy, counts
from tidemill import names
from tidemill.protocol import hint
from tidemill.protocol.codec import encode
from tidemill.protocol.entries import TagEntry
from tidemill.protocol.log import _sealed
from tidemill.protocol.numbered import HINT_EVERY
from tidemill.protocol.refs_log import RefsLog, position
from tidemill.protocol.successor import Origin, successor
from tidemill.store import open_store

FEW = 10
MANY = FEW + (312 if EXHAUSTIVE else 62) * HINT_EVERY
"""About 10,000 or 2,000, and as many commits after a hint as after few: a run lists the commits after the hint."""
ENTRIES = 1_000
WRITES = {"PUT": 7, "COPY": 1}
"""The most writes of a warm batch: plan, two segments, output, ledger, commit, published record; published file."""
MOST_IDLE = 7
BYTES, MORE_BYTES = "bytes", 1.02


def track(batch_time: Any, user: Any, row: Any, state: Any) -> Any:
    """A sum a user."""
    if state.isTimingOut:
        return (user, state.get, True)
    state.update((state.getOption or 0) + row.n)
    return (user, state.get, False)


@dataclass
class Place:
    """A repository on S3 whose input comes from a bucket too."""

    root: str
    proxy: S3Proxy
    options: dict[str, str]
    given: int = 0
    repository: Any = field(default=None)

    def open(self) -> tm.Repository:
        p = tm.Pipeline("requests")
        schema = "user string, n int, ts timestamp"
        rows = p.read(tm.Files(f"{self.root}/inbox", format="json", schema=schema)).withWatermark("ts", "1 second")
        rows.groupBy("user").mapWithState(
            tm.StateSpec.function(track).timeout("2 days", clock="event"),
            stateSchema="long", outputSchema="user string, n long, closed boolean", name="users",
        ).groupBy("closed").agg(n=tm.count(), name="closed").write(tm.Parquet(f"{self.root}/published"))  # fmt: skip
        through = {**self.options, "endpoint_url": self.proxy.endpoint_url}
        sections = dict.fromkeys(("root", "source", "sink"), through)
        self.repository = tm.open(p, root=f"{self.root}/root", storage_options=sections)
        return self.repository

    def file(self) -> None:
        """One more input file."""
        rows = [{"user": f"u{n}", "n": n, "ts": "2024-01-01T00:00:00"} for n in range(5)]
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        open_store(f"{self.root}/inbox", self.options).put(f"{self.given:06d}.json", data)
        self.given += 1

    def run(self, repository: tm.Repository) -> list[Request]:
        with self.proxy.recorded() as requests:
            repository.run(engine="local", tasks=1)
        return requests


@pytest.fixture(scope="module")
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server) as running:
        yield running


def made(server: S3Server, proxy: S3Proxy) -> Place:
    """A repository with a few versions."""
    place = Place(server.new_root(), proxy, server.options)
    repository = place.open()
    repository.init()
    for _ in range(FEW):
        place.file()
        repository.run(engine="local", tasks=1)
    return place


def with_commits(place: Place, number: int) -> None:
    """Add void commits until the branch has so many."""
    repository = place.open()
    refs, head = repository.opened.initialised(), repository.head
    records: dict[str, bytes] = {}
    for version in range(head.version + 1, number - 1):
        said = {"attempt": f"{version:012x}", "published_through": version - 1, "committed_ms": head.committed_ms}
        made = successor(Origin(refs, "main", head), "void", {**said, "reason": "a test"})
        data = encode(made)
        records[names.commit("main", version)] = data
        head = _sealed(made, data)
    store = open_store(f"{place.root}/root/requests", place.options)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(store.put, records.keys(), records.values()))
    hint.write_hint(store, names.head_hint("main"), head.version - head.version % HINT_EVERY)


def with_entries(place: Place, number: int) -> None:
    """Add entries to `refs/`."""
    log = RefsLog(open_store(f"{place.root}/root/requests", place.options))
    for _ in range(number):
        log.append(lambda refs, _: TagEntry(**position(refs, 0), name="here", branch="main", version=0))


def measured(place: Place) -> dict[str, dict[str, int]]:
    """The requests and bytes of runs, each with a new `tm.open` and with a repository that has run before."""
    place.file()
    place.run(place.open())
    found = {"idle": place.run(place.repository), "idle, opened again": place.run(place.open())}
    place.file()
    found["batch"] = place.run(place.repository)
    place.file()
    found["batch, opened again"] = place.run(place.open())
    sizes = place.proxy.sizes
    return {
        what: counts(requests) | {BYTES: sum(sizes[one.number] for one in requests)} for what, requests in found.items()
    }


@pytest.fixture(scope="module")
def few(s3_server: S3Server, proxy: S3Proxy) -> dict[str, dict[str, int]]:
    return measured(made(s3_server, proxy))


def test_an_idle_run_and_a_warm_batch_cost_few_requests(few: dict[str, dict[str, int]]) -> None:
    for what in ("batch", "batch, opened again"):
        assert all(few[what].get(kind, 0) <= most for kind, most in WRITES.items()), few
        assert "DELETE" not in few[what], few
    assert sum(count for kind, count in few["idle"].items() if kind != BYTES) <= MOST_IDLE, few
    assert not few["idle"].keys() & {"PUT", "COPY", "DELETE"}, few


@pytest.mark.slow("make two thousand commits")
@pytest.mark.parametrize(("commits", "entries"), [(MANY, 0), (FEW, ENTRIES)])
def test_history_adds_no_requests(
    few: dict[str, dict[str, int]], commits: int, entries: int, s3_server: S3Server, proxy: S3Proxy
) -> None:
    place = made(s3_server, proxy)
    with_entries(place, entries)
    with_commits(place, commits)
    found = measured(place)
    for what, expected in few.items():
        more = found[what].pop(BYTES)
        assert found[what] == {kind: count for kind, count in expected.items() if kind != BYTES}
        assert more <= expected[BYTES] * MORE_BYTES, (what, found, few)

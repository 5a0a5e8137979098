"""A repository behind a proxy that lets requests through only in groups, and what a warm batch asks of S3.

Time plays no part: a proxy holds each request until all that belong to its group have arrived. A request that is made
only after another one of its group was answered therefore never meets it, and the test fails.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import tidemill as tm
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import Request, S3Proxy
from tidemill.store import Store, open_store

MEET_S = 20
LOOK = ["GET refs", "HEAD commits", "GET plans"]
"""Whether something is new: an entry, a commit, or the plan after it."""
PLAN = ["PUT plans", "GET refs", "HEAD commits", "GET inbox"]
SCHEMA = "k string, n int"


def said(request: Request) -> str:
    """Return the kind of a request and what its object is."""
    parts = request.key.split("/", 2)[1:]
    if parts[0] != "root":
        return f"{request.kind} {parts[0]}"
    inside = parts[1].removeprefix("at-once/").removeprefix("branches/main/")
    return f"{request.kind} {'ledger' if inside.startswith('state/_ledger/') else inside.partition('/')[0]}"


class Groups:
    """A plan of the proxy without faults. `alone` are requests that did not meet their group, or belong to none."""

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self._left = [Counter(group) for group in groups]
        self._met = [threading.Barrier(len(group)) for group in groups]
        self._lock = threading.Lock()
        self.alone: list[str] = []

    def __call__(self, request: Request) -> None:
        what = said(request)
        with self._lock:
            number = next((number for number, left in enumerate(self._left) if left), None)
            if number is None or not self._left[number][what]:
                self.alone.append(what)
                return
            self._left[number] -= Counter([what])
        try:
            self._met[number].wait(MEET_S)
        except threading.BrokenBarrierError:
            self.alone.append(what)

    @property
    def missing(self) -> list[str]:
        """Requests that were not made."""
        return [what for left in self._left for what in left.elements()]


class Place:
    """A repository on S3 with one version, and its pipeline."""

    def __init__(self, server: S3Server, proxy: S3Proxy, sinks: Sequence[tm.Parquet], spark: Any = None) -> None:
        self.proxy, self.root, self.sinks, self.spark = proxy, server.new_root(), sinks, spark
        self.store = open_store(self.root, server.options)
        self.options: dict[str, Any] = {**server.options, "endpoint_url": proxy.endpoint_url, "max_attempts": 1}
        self.given = 0
        self.file()
        self.repository = self.open()
        self.repository.init()
        for _ in range(2):
            self.file()
            self.repository.run(spark, self.engine, tasks=1)

    @property
    def engine(self) -> str:
        return "local" if self.spark is None else "spark"

    def open(self) -> tm.Repository:
        p = tm.Pipeline("at-once")
        rows = p.read(tm.Files(f"{self.root}/inbox", format="csv", schema=SCHEMA))
        sums = rows.groupBy("k").agg(n=tm.sum("n"), name="sums")
        for number, sink in enumerate(self.sinks):
            sums.write(sink.at(f"{self.root}/out{number}"), name=f"out{number}")
        sections = dict.fromkeys(("root", "source", "sink"), self.options)
        return tm.open(p, root=f"{self.root}/root", storage_options=sections)

    def file(self) -> None:
        self.store.put(f"inbox/{self.given:04d}.csv", b"a,1\nb,2\nc,3\n")
        self.given += 1

    def run(self, groups: Groups) -> list[Request]:
        """Run what waits, with requests that meet in groups."""
        self.proxy.plan = groups
        try:
            with self.proxy.recorded() as requests:
                self.repository.run(self.spark, self.engine, tasks=1)
        finally:
            self.proxy.plan = lambda _: None
        return requests


def read_again(requests: Sequence[Request], there: set[str]) -> list[str]:
    """Return the keys that were read although they had been read or written before, given which objects existed."""
    known: set[str] = set()
    found = []
    for request in requests:
        if request.kind in ("GET", "HEAD") and request.key in there:
            found += [request.key] if request.key in known else []
            known.add(request.key)
        elif request.kind in ("PUT", "COPY"):
            there.add(request.key)
            known.add(request.key)
    return found


def keys(store: Store, root: str) -> set[str]:
    prefix = root.split("/", 3)[3]
    return {f"{prefix}/{entry.name}" for entry in store.list()}


def waits_seven_times(place: Place) -> None:
    """Check the requests of a warm batch, and that it reads nothing again."""
    place.file()
    there = keys(place.store, place.root)
    groups = Groups(
        [
            [*LOOK, "LIST inbox"],
            PLAN,
            ["PUT state", "PUT output", "PUT ledger"],
            ["PUT commits"],
            ["HEAD commits", "GET plans", "GET published", "LIST out0"],
            ["COPY out0"],
            ["PUT published"],
        ]
    )
    requests = place.run(groups)
    assert (groups.alone, groups.missing) == ([], [])
    assert len(requests) == 18
    assert read_again(requests, there) == []

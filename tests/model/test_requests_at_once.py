"""Which requests of a run on S3 are made at once, which wait for others, and that no object is read twice.

Time plays no part: a proxy holds each request until all that belong to its group have arrived. A request that is made
only after another one of its group was answered therefore never meets it, and the test fails.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import tidemill as tm
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import Fault, Request, S3Proxy
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

    def __init__(self, server: S3Server, proxy: S3Proxy, sinks: Sequence[tm.Parquet]) -> None:
        self.proxy, self.root, self.sinks = proxy, server.new_root(), sinks
        self.store = open_store(self.root, server.options)
        self.options: dict[str, Any] = {**server.options, "endpoint_url": proxy.endpoint_url, "max_attempts": 1}
        self.given = 0
        self.file()
        self.repository = self.open()
        self.repository.init()
        for _ in range(2):
            self.file()
            self.repository.run(engine="local", tasks=1)

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
                self.repository.run(engine="local", tasks=1)
        finally:
            self.proxy.plan = lambda _: None
        return requests


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server) as running:
        yield running


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


def test_a_warm_batch_waits_seven_times_and_reads_nothing_again(s3_server: S3Server, proxy: S3Proxy) -> None:
    place = Place(s3_server, proxy, [tm.Parquet("out")])
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


def test_files_and_sinks_are_stored_and_published_at_once(s3_server: S3Server, proxy: S3Proxy) -> None:
    place = Place(s3_server, proxy, [tm.Parquet("out", partitionBy=["k"]), tm.Json("out")])
    place.file()
    folders = 3
    groups = Groups(
        [
            [*LOOK, "LIST inbox"],
            PLAN,
            ["PUT state", "PUT ledger", *["PUT output"] * (folders + 1)],
            ["PUT commits"],
            ["HEAD commits", "GET plans", *["GET published"] * 2, *["LIST out0"] * folders, "LIST out1"],
            [*["COPY out0"] * folders, "COPY out1"],
            ["PUT published"] * 2,
        ]
    )
    place.run(groups)
    assert (groups.alone, groups.missing) == ([], [])
    for sink in ("out0", "out1"):
        assert sum(1 for _ in place.store.list(f"{sink}/")) == 3 * (folders if sink == "out0" else 1)


def test_an_idle_run_waits_once(s3_server: S3Server, proxy: S3Proxy) -> None:
    place = Place(s3_server, proxy, [tm.Parquet("out")])
    groups = Groups([[*LOOK, "LIST inbox"]])
    place.run(groups)
    assert (groups.alone, groups.missing) == ([], [])


def test_a_run_of_a_new_process_waits_four_times(s3_server: S3Server, proxy: S3Proxy) -> None:
    place = Place(s3_server, proxy, [tm.Parquet("out")])
    place.repository = place.open()
    groups = Groups(
        [
            ["GET refs", "GET head.json"],  # the snapshot, and the hint
            ["GET refs", "LIST commits"],
            ["GET refs", "GET commits"],
            ["HEAD commits", "GET plans", "GET published", "LIST inbox"],
        ]
    )
    place.run(groups)
    assert (groups.alone, groups.missing) == ([], [])


def test_a_version_is_published_before_an_error_of_the_listing_is_raised(s3_server: S3Server, proxy: S3Proxy) -> None:
    place = Place(s3_server, proxy, [tm.Parquet("out")])
    before = sum(1 for _ in place.store.list("out0/"))
    place.file()
    proxy.plan = lambda request: Fault(500, "InternalError") if request.kind == "COPY" else None
    with pytest.raises(tm.StoreUnavailable):
        place.repository.run(engine="local", tasks=1)
    proxy.plan = lambda _: None
    assert sum(1 for _ in place.store.list("out0/")) == before
    place.store.delete_many([entry.name for entry in place.store.list("inbox/")])
    with pytest.raises(tm.InvalidInput, match="no object has this prefix"):
        place.repository.run(engine="local", tasks=1)
    assert sum(1 for _ in place.store.list("out0/")) == before + 1


def test_a_run_beside_ours_is_seen_while_our_plan_is_created(s3_server: S3Server, proxy: S3Proxy) -> None:
    place = Place(s3_server, proxy, [tm.Parquet("out")])
    place.file()
    other, went = place.open(), []

    def other_runs_first(request: Request) -> None:
        if said(request) == "PUT plans" and not went:
            went.append(request)
            run = threading.Thread(target=other.run, kwargs={"engine": "local", "tasks": 1})
            run.start()  # not in the proxy's thread, which lives as long as the process
            run.join()

    proxy.plan = other_runs_first
    try:
        done = place.repository.run(engine="local", tasks=1)
    finally:
        proxy.plan = lambda _: None
    assert went and done == []  # the batch is the other run's
    assert place.repository.state("sums").to_pylist() == other.state("sums").to_pylist()
    assert sum(row["n"] for row in other.state("sums").to_pylist()) == place.given * 6


def test_sources_are_listed_again_if_another_run_has_committed(s3_server: S3Server, proxy: S3Proxy) -> None:
    place = Place(s3_server, proxy, [tm.Parquet("out")])
    place.file()
    place.open().run(engine="local", tasks=1)
    place.file()
    with proxy.recorded() as requests:
        assert [one.version for one in place.repository.run(engine="local", tasks=1)] == [3]
    said_of = Counter(map(said, requests))
    assert said_of["LIST inbox"] == 2  # the first one came from before the head was known
    assert said_of["GET commits"] == 1
    assert sum(row["n"] for row in place.repository.state("sums").to_pylist()) == place.given * 6


def test_a_file_that_changed_after_the_listing_is_not_read_early(s3_server: S3Server, proxy: S3Proxy) -> None:
    place = Place(s3_server, proxy, [tm.Parquet("out")])
    place.file()
    replaced = threading.Event()

    def replace_first(request: Request) -> None:
        if said(request) == "PUT plans":
            place.store.put(f"inbox/{place.given - 1:04d}.csv", b"a,100\n")
            replaced.set()
        elif said(request) == "GET inbox":
            replaced.wait(MEET_S)

    proxy.plan = replace_first
    with pytest.raises(tm.InvalidInput, match="the file changed after it was planned"):
        place.repository.run(engine="local", tasks=1)
    proxy.plan = lambda _: None
    assert place.repository.head.version == 1

"""Which requests of a run on S3 are made at once, which wait for others, and that no object is read twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

import tidemill as tm
from tests.model.at_once import LOOK, MEET_S, PLAN, Groups, Place, said, waits_seven_times
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import Fault, Request, S3Proxy
from tidemill.run import prefetch


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server) as running:
        yield running


def test_a_warm_batch_waits_seven_times_and_reads_nothing_again(s3_server: S3Server, proxy: S3Proxy) -> None:
    waits_seven_times(Place(s3_server, proxy, [tm.Parquet("out")]))


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


def test_files_that_are_too_large_are_read_by_the_tasks(
    s3_server: S3Server, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(s3_server, proxy, [tm.Parquet("out")])
    place.file()
    monkeypatch.setattr(prefetch, "EARLY_BYTES", 11)  # the file has 12
    groups = Groups(
        [
            [*LOOK, "LIST inbox"],
            [what for what in PLAN if what != "GET inbox"],
            ["GET inbox"],
            ["PUT state", "PUT output"],
            ["PUT ledger"],
            ["PUT commits"],
            ["HEAD commits", "GET plans", "GET published", "LIST out0"],
            ["COPY out0"],
            ["PUT published"],
        ]
    )
    place.run(groups)
    assert (groups.alone, groups.missing) == ([], [])


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


def test_an_error_of_a_file_comes_before_one_of_the_ledger(s3_server: S3Server, proxy: S3Proxy) -> None:
    place = Place(s3_server, proxy, [tm.Parquet("out")])
    place.store.put("inbox/damaged.csv", b"a,oops\n")
    proxy.plan = lambda request: Fault(500, "InternalError") if said(request) == "PUT ledger" else None
    with pytest.raises(tm.InvalidInput, match=r"damaged\.csv"):
        place.repository.run(engine="local", tasks=1)
    place.store.put("inbox/damaged.csv", b"a,1\n")
    place.repository.replan("the file was corrected")
    with pytest.raises(tm.StoreUnavailable, match="_ledger"):
        place.repository.run(engine="local", tasks=1)
    proxy.plan = lambda _: None
    place.repository.run(engine="local", tasks=1)
    assert sum(row["n"] for row in place.repository.state("sums").to_pylist()) == place.given * 6 + 1


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

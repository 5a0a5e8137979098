"""A cluster that grants no executor: when it is reported, and when it is an error. Time and cluster are fake."""

from __future__ import annotations

import logging

import pytest

import tidemill as tm
from tidemill.engines.executors import ExecutorWatch


class Cluster:
    """Executors and seconds that the test sets."""

    def __init__(self, limit_ms: int) -> None:
        self.executors = 0
        self.now = 100.0
        self.watch = ExecutorWatch(lambda: self.executors, "spark://here:7077", limit_ms, lambda: self.now)

    def look_after(self, seconds: float) -> None:
        self.now += seconds
        self.watch.look()


def test_waiting_is_reported_after_some_seconds_then_every_minute(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(300_000)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            cluster.look_after(1)
        assert caplog.messages == []
        for _ in range(62):
            cluster.look_after(1)
    assert [message.partition(";")[0] for message in caplog.messages] == [
        f"waiting for executors: the cluster at `spark://here:7077` has granted none for {seconds} s of 300 s"
        for seconds in (5, 65)
    ]


def test_no_executor_for_too_long_is_an_error_that_a_retry_may_repair() -> None:
    cluster = Cluster(300_000)
    cluster.look_after(299)
    with pytest.raises(tm.StoreUnavailable) as caught:
        cluster.look_after(1)
    assert caught.value.first_line == (
        "run a batch on engine `spark`: the cluster at `spark://here:7077` has granted no executor for 300 s"
    )
    assert "start workers, or free cores" in str(caught.value.hint)
    assert "`tidemill.executor_wait`" in str(caught.value.hint)


def test_time_counts_from_the_last_executor_that_was_there() -> None:
    cluster = Cluster(10_000)
    cluster.executors = 2
    cluster.look_after(1000)
    cluster.executors = 0
    cluster.look_after(9)
    with pytest.raises(tm.StoreUnavailable):
        cluster.look_after(1)


def test_zero_waits_for_ever() -> None:
    Cluster(0).look_after(1e9)

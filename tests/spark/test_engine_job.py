"""What a Spark job of ours adds to its work: nothing is looked up twice, imports are not walked through each time."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tidemill.batch.work import Item
from tidemill.engines.spark import SparkEngine


@dataclass(frozen=True)
class Probe:
    """Tells of the process that each range is applied in. This file is no module that workers can import."""

    ranges: int = 1
    scatter_tasks: int = 1
    levels: int = 1
    modules: tuple[str, ...] = (__name__,)
    paths: tuple[str, ...] = ()

    def scatter(self, task: int) -> Iterator[Item]:
        for target in range(self.ranges):
            yield Item(target, b"%d" % task)

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        cycle: list[Any] = []
        cycle.append(cycle)
        told = {"range": range_index, "process": os.getpid(), "spared": gc.get_freeze_count()}
        yield Item(0, json.dumps(told).encode())


def told(engine: SparkEngine, probe: Probe) -> list[Any]:
    return [json.loads(receipt) for receipt in engine.execute(probe)]


def test_receipts_come_by_range(spark_session: Any) -> None:
    engine = SparkEngine(spark_session.sparkContext)
    assert [one["range"] for one in told(engine, Probe(ranges=7, scatter_tasks=2))] == list(range(7))


def test_what_a_worker_imported_is_left_out_of_its_collections_once(spark_session: Any) -> None:
    engine = SparkEngine(spark_session.sparkContext)
    by_process: dict[int, list[int]] = {}
    spared: list[int] = []
    while len(spared) < 3:  # which of its workers Spark gives a task to is its own choice
        (one,) = told(engine, Probe())
        spared = by_process.setdefault(one["process"], [])
        spared.append(one["spared"])
    assert spared[1] > 10_000
    assert spared[1:] == sorted(spared[1:], reverse=True), "what later tasks make is collected as ever"


def test_a_job_looks_up_no_class_by_its_short_name(spark_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.clientserver import JavaClient

    engine = SparkEngine(spark_session.sparkContext)
    commands: list[str] = []
    send = JavaClient.send_command

    def noted(client: JavaClient, command: str, *rest: Any, **more: Any) -> Any:
        commands.append(command)
        return send(client, command, *rest, **more)

    monkeypatch.setattr(JavaClient, "send_command", noted)
    told(engine, Probe(ranges=2, scatter_tasks=2, levels=2))
    assert commands
    assert [command for command in commands if command.startswith("r\nu\n")] == []


def test_a_job_says_whose_it_is(spark_session: Any) -> None:
    tracker = spark_session.sparkContext.statusTracker()
    engine = SparkEngine(spark_session.sparkContext)
    before = set(tracker.getJobIdsForGroup())
    told(engine, Probe(ranges=2, scatter_tasks=2))
    (job,) = set(tracker.getJobIdsForGroup()) - before
    stages = [tracker.getStageInfo(stage).name for stage in tracker.getJobInfo(job).stageIds]
    assert stages == ["a batch of Tidemill"] * 2

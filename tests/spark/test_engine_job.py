"""A Spark job of Tidemill adds little to its work: no class is looked up twice, imports are collected once."""

from __future__ import annotations

import gc
import json
import os
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.batch.work import Item
from tidemill.engines import worker
from tidemill.engines.spark import SparkEngine

pytestmark = pytest.mark.servers("start Spark")


@dataclass(frozen=True)
class Probe:
    """Reports the process in which each range is applied. Workers cannot import this file as a module."""

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
        report = {"range": range_index, "process": os.getpid(), "frozen": gc.get_freeze_count()}
        yield Item(0, json.dumps(report).encode())


def reports(engine: SparkEngine, probe: Probe) -> list[Any]:
    return [json.loads(receipt) for receipt in engine.execute(probe)]


def test_receipts_are_ordered_by_range(spark_session: Any) -> None:
    engine = SparkEngine(spark_session.sparkContext)
    assert [one["range"] for one in reports(engine, Probe(ranges=7, scatter_tasks=2))] == list(range(7))


def test_imports_of_a_worker_are_frozen_once(spark_session: Any) -> None:
    engine = SparkEngine(spark_session.sparkContext)
    by_process: dict[int, list[int]] = {}
    frozen: list[int] = []
    while len(frozen) < 3:  # Spark chooses which of its workers gets a task
        (one,) = reports(engine, Probe())
        frozen = by_process.setdefault(one["process"], [])
        frozen.append(one["frozen"])
    assert frozen[1] > 10_000
    assert frozen[1:] == sorted(frozen[1:], reverse=True), "objects of later tasks are collected as before"


def test_a_job_looks_up_no_class_by_its_short_name(spark_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.clientserver import JavaClient

    engine = SparkEngine(spark_session.sparkContext)
    commands: list[str] = []
    send = JavaClient.send_command

    def noted(client: JavaClient, command: str, *rest: Any, **more: Any) -> Any:
        commands.append(command)
        return send(client, command, *rest, **more)

    monkeypatch.setattr(JavaClient, "send_command", noted)
    reports(engine, Probe(ranges=2, scatter_tasks=2, levels=2))
    assert commands
    assert [command for command in commands if command.startswith("r\nu\n")] == []


def test_a_job_is_named_after_tidemill(spark_session: Any) -> None:
    tracker = spark_session.sparkContext.statusTracker()
    engine = SparkEngine(spark_session.sparkContext)
    before = set(tracker.getJobIdsForGroup())
    reports(engine, Probe(ranges=2, scatter_tasks=2))
    (job,) = set(tracker.getJobIdsForGroup()) - before
    stages = [tracker.getStageInfo(stage).name for stage in tracker.getJobInfo(job).stageIds]
    assert stages == ["a batch of Tidemill"] * 2


def test_a_worker_prints_no_traceback_for_a_connection_that_spark_closed(capsys: pytest.CaptureFixture[str]) -> None:
    daemon = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"), traceback=traceback)
    worker._silence_closed_connections(daemon)
    for error in (BrokenPipeError(32, "Broken pipe"), ConnectionResetError()):
        try:
            raise error
        except OSError:
            daemon.traceback.print_exc()
    assert capsys.readouterr().err == ""
    try:
        raise FileNotFoundError("another error")
    except OSError:
        daemon.traceback.print_exc()
    assert capsys.readouterr().err.endswith("FileNotFoundError: another error\n")
    assert daemon.traceback.format_exc is traceback.format_exc


def test_only_tracebacks_of_sparks_daemon_are_silenced() -> None:
    other = SimpleNamespace(__spec__=SimpleNamespace(name="mine"), traceback=traceback)
    worker._silence_closed_connections(other)
    worker._silence_closed_connections(SimpleNamespace())
    assert other.traceback is traceback

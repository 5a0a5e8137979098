"""Sensors on a real repository: they look first, then wait without a slot, and say what is wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World
from tidemill.errors import InvalidInput

Add = Callable[[int, str], None]


@pytest.fixture
def add(tmp_path: Path, airflow_home: Path) -> Add:
    """Return the function that commits a batch with one row of the given key and time."""

    def timed(p: tm.Pipeline, world: World) -> None:
        world.read(p).withWatermark("t", "1 hour").groupBy("k").agg(n=tm.count(), name="n")

    world = World(tmp_path, timed, name="timed", schema="k int, t timestamp")
    world.open()

    def commit(k: int, time: str) -> None:
        world.arrive([(k, time)])
        world.run()

    return commit


@pytest.fixture
def version(tmp_path: Path) -> Callable[..., Any]:
    def sensor(version: Any, **arguments: Any) -> Any:
        from tidemill.airflow import TidemillVersionSensor

        given = {"root": str(tmp_path / "root"), "pipeline": "timed", "deferrable": True, "poke_interval": 0.0}
        return TidemillVersionSensor(task_id="wait", version=version, **{**given, **arguments})

    return sensor


@pytest.fixture
def watermark(tmp_path: Path) -> Callable[..., Any]:
    def sensor(until: Any, **arguments: Any) -> Any:
        from tidemill.airflow import TidemillWatermarkSensor

        given = {"root": str(tmp_path / "root"), "pipeline": "timed", "deferrable": True}
        return TidemillWatermarkSensor(task_id="wait", until=until, **{**given, **arguments})

    return sensor


def deferred(sensor: Any) -> Any:
    """Run a sensor until it defers, and return the deferral."""
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as raised:
        sensor.execute({})
    return raised.value


def test_what_is_there_is_not_waited_for(add: Add, version: Callable[..., Any], watermark: Callable[..., Any]) -> None:
    add(1, "2026-01-05T10:00:00")
    for sensor in (
        version(0), version("0", deferrable=False), watermark("2026-01-05T09:00:00+00:00"),
        watermark(datetime(2026, 1, 5, 9, tzinfo=UTC), watermark="source.t", deferrable=False),
        watermark(str(1000 * int(datetime(2026, 1, 5, 9, tzinfo=UTC).timestamp()))),
    ):  # fmt: skip
        assert sensor.execute({}) is None


def test_sensor_waits_in_a_trigger_for_the_version(add: Add, version: Callable[..., Any]) -> None:
    add(1, "2026-01-05T10:00:00")
    waits = deferred(version(1, timeout=90))
    assert (waits.method_name, waits.timeout.total_seconds()) == ("resume", 90)
    place, arguments = waits.trigger.serialize()
    assert place == "tidemill.airflow.triggers.VersionTrigger"
    again = type(waits.trigger)(**arguments)
    assert again.poll_s == 1

    async def wait() -> Any:
        waiting = asyncio.ensure_future(anext(again.run()))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await asyncio.to_thread(add, 2, "2026-01-05T11:00:00")
        return (await waiting).payload

    event = asyncio.run(wait())
    assert event == {"event": "met"}
    version(1).resume({}, event)


def test_sensor_waits_for_a_watermark_that_is_not_there_to_the_millisecond(
    add: Add, watermark: Callable[..., Any]
) -> None:
    add(1, "2026-01-05T10:00:00")
    trigger = deferred(watermark("2026-01-05T09:00:00.001")).trigger
    again = type(trigger)(**trigger.serialize()[1])
    assert again.wake_ms(again.heads.read()) is None
    add(2, "2026-01-05T10:00:00.001")
    assert again.wake_ms(again.heads.read()) == 0


def test_before_the_first_batch_a_sensor_waits(tmp_path: Path, add: Add, version: Callable[..., Any]) -> None:
    assert deferred(version(0)).trigger.version == 0
    from tidemill.airflow import TidemillWatermarkSensor

    sensor = TidemillWatermarkSensor(
        task_id="w", root=str(tmp_path / "root"), pipeline="timed", until=0, deferrable=True
    )
    assert deferred(sensor).trigger.time_ms == 0


def test_sensor_that_cannot_come_true_fails_and_says_why(
    add: Add, version: Callable[..., Any], watermark: Callable[..., Any]
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    add(1, "2026-01-05T10:00:00")
    for sensor, said in (
        (version("soon"), "version is 'soon': expected a number of at least 0"),
        (version(0, pipeline="tmed"), "tmed"),
        (version(0, root="here"), "root `here` is relative"),
        (version(0, branch="fix"), "fix"),
        (watermark("tomorrow"), "invalid time 'tomorrow'"),
        (watermark(0, watermark="sorce.t"), "unknown watermark `sorce.t`; did you mean `source.t`?"),
    ):
        with pytest.raises(AirflowFailException, match=said.replace("?", r"\?")):
            sensor.execute({})
    with pytest.raises(AirflowFailException, match="gone"):
        version(0).resume({}, {"event": "error", "message": "gone"})
    with pytest.raises(InvalidInput, match="pipeline"):
        version(0, pipeline="pipelines/retail.py:p")


def test_deferred_sensor_ends_in_airflow(
    add: Add, tmp_path: Path, parse: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(1, "2026-01-05T10:00:00")
    dag = parse(f"""
from airflow.sdk import DAG
from tidemill.airflow import TidemillVersionSensor
with DAG("waits"):
    TidemillVersionSensor(
        task_id="wait", root={str(tmp_path / "root")!r}, pipeline="timed", version="{{{{ params.version }}}}",
        deferrable=True, poke_interval=1, params={{"version": 1}})
""").dags["waits"]
    threading.Timer(3, add, (2, "2026-01-05T11:00:00")).start()
    (ti,) = dag.test().get_task_instances()
    assert ti.state == "success"

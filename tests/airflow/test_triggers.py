"""Triggers on real repositories: when they wake, what they keep, and that they do not block."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, run
from tidemill.clock import now_ms
from tidemill.errors import StoreUnavailable


def silent(batchTime, k, row, state):
    """Keep the last value, and report the key when it has been silent."""
    if state.isTimingOut:
        return (k, -1)
    state.update(row.v)
    return None


@pytest.fixture
def armed(tmp_path: Path) -> Callable[[str], tm.Repository]:
    """Return the function that makes the repository `silent`, with one key whose timeout comes after so long."""

    def make(timeout: str) -> tm.Repository:
        def build(p: tm.Pipeline, world: World) -> None:
            spec = tm.StateSpec.function(silent).timeout(timeout)
            world.read(p).groupBy("k").mapWithState(spec, "int", "k int, v int", name="s")

        world = World(tmp_path, build, name="silent", schema="k int, v int")
        world.arrive("1,1\n")
        repository = world.open()
        run(repository)
        return repository

    return make


def place(tmp_path: Path) -> dict[str, Any]:
    return {"root": str(tmp_path / "root"), "pipeline": "silent"}


def first_event(trigger: Any) -> Any:
    async def first() -> Any:
        event = await anext(trigger.run())
        return event.payload

    return asyncio.run(first())


@pytest.fixture
def due(airflow_home: Path) -> Callable[..., Any]:
    from tidemill.airflow import DueTrigger

    return DueTrigger


def test_trigger_wakes_when_the_deadline_is_over_and_a_sweep_then_fires_it(
    armed: Callable[[str], tm.Repository], tmp_path: Path, due: Callable[..., Any]
) -> None:
    repository = armed("2 seconds")
    head = repository.head
    assert head is not None
    assert first_event(due(**place(tmp_path), until_ms=now_ms() + 60_000)) == {"event": "met"}
    assert now_ms() > head.next_deadline["batch"]
    repository.sweep(engine="local")
    assert repository.outputs(version=1).column("v").to_pylist() == [-1]
    end = now_ms() + 300
    assert first_event(due(**place(tmp_path), until_ms=end)) == {"event": "until"}
    assert now_ms() >= end


def test_trigger_sees_an_earlier_deadline_of_a_commit_that_comes_while_it_waits(
    armed: Callable[[str], tm.Repository], tmp_path: Path, due: Callable[..., Any]
) -> None:
    repository = armed("3 seconds")
    first_event(due(**place(tmp_path)))
    repository.sweep(engine="local")
    trigger = due(**place(tmp_path), until_ms=now_ms() + 120_000, poll_s=0.1)

    async def wait() -> Any:
        waiting = asyncio.ensure_future(anext(trigger.run()))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        (tmp_path / "in" / "b.csv").write_text("2,2\n")
        await asyncio.to_thread(repository.run, engine="local")
        return (await waiting).payload

    assert asyncio.run(wait()) == {"event": "met"}


def head_of(version: int = 4, **deadlines: int) -> Any:
    return SimpleNamespace(
        version=version, next_deadline={name.replace("_", "/"): at for name, at in deadlines.items()}
    )


@pytest.mark.parametrize(
    ("head", "arguments", "wake_ms"),
    [
        (None, {}, None),
        (head_of(), {}, None),
        (head_of(batch=5_000), {}, 6_000),
        (head_of(event_o=5_000), {}, None),
        (head_of(event_o=5_000), {"idle_ms": 120_000, "swept_ms": 9_000}, 129_000),
        (head_of(event_o=5_000), {"idle_ms": 5, "swept_ms": 9_000}, 69_000),
        (head_of(batch=5_000), {"idle_ms": 5, "swept_ms": 9_000}, 6_000),
        (head_of(batch=5_000), {"swept": [4, 5_000], "swept_ms": 9_000}, 909_000),
        (head_of(5, batch=5_000), {"swept": [4, 5_000], "swept_ms": 9_000}, 6_000),
    ],
)
def test_time_of_the_next_sweep(due: Callable[..., Any], head: Any, arguments: dict[str, Any], wake_ms: Any) -> None:
    assert due(root="/root", pipeline="silent", **arguments).wake_ms(head) == wake_ms


def test_missing_repository_is_an_error_and_an_outage_is_not(
    armed: Callable[[str], tm.Repository], tmp_path: Path, due: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = first_event(due(root=str(tmp_path), pipeline="absent"))
    assert missing["event"] == "error"
    assert "absent" in missing["message"]
    armed("1 second")
    trigger = due(**place(tmp_path), poll_s=0.01)
    read, fails = trigger.heads.read, iter([StoreUnavailable("no answer")] * 3)

    def flaky() -> Any:
        for error in fails:
            raise error
        return read()

    monkeypatch.setattr(trigger.heads, "read", flaky)
    assert first_event(trigger) == {"event": "met"}
    assert list(fails) == []


def test_slow_store_does_not_block_the_event_loop(due: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = due(root="/root", pipeline="silent", until_ms=0)
    monkeypatch.setattr(trigger.heads, "read", lambda: time.sleep(1))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    async def both() -> Any:
        counting = asyncio.ensure_future(count())
        event = await anext(trigger.run())
        counting.cancel()
        return event.payload

    assert asyncio.run(both()) == {"event": "until"}
    assert turns > 10


def test_trigger_survives_storage_and_shows_no_option(due: Callable[..., Any]) -> None:
    from airflow.models.trigger import Trigger

    options = {"endpoint_url": "https://storage.example", "aws_secret_access_key": "hush-hush"}
    trigger = due(
        root="s3://lake", pipeline="silent", branch="fix", options=options, until_ms=7, poll_s=2.0, swept=[3, 4],
        swept_ms=5, idle_ms=6,
    )  # fmt: skip
    stored = Trigger.from_object(trigger)
    assert stored.classpath == "tidemill.airflow.triggers.DueTrigger"
    again = due(**stored.kwargs)
    assert again.serialize() == trigger.serialize()
    assert "hush" not in repr(trigger) + str(vars(again.heads)["_reader"])
    assert "silent" in repr(trigger)


def test_credentials_of_the_environment_count_for_the_root() -> None:
    from tidemill.airflow.waiting.heads import root_options

    env = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "None", "HOME": "/x"}
    assert root_options({"root": {"aws_access_key_id": "c"}, "sink": {"x": "y"}}, env) == {
        "aws_access_key_id": "c",
        "aws_secret_access_key": "b",
    }
    assert root_options(None) == {}


def test_triggers_import_no_engine_before_they_read() -> None:
    code = """
import sys
import tidemill.airflow.triggers, tidemill.airflow.tasks.sweeps
print([name for name in ("pyspark", "pandas", "boto3", "pyarrow", "tidemill.reader") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"

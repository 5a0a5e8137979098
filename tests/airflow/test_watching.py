"""A DAG with `watch`: its schedule, what Airflow stores of it, and the warning of its task."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

Parse = Callable[..., Any]

DAG = """
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo
from airflow.sdk import *
from tidemill.airflow import Launch, Watch, tidemill_dags
tidemill_dags({pipeline!r}, root={root!r}, schedule={schedule}, watch={watch}, {more})
"""


@pytest.fixture
def watched(parse: Parse) -> Callable[..., Any]:
    def parsed(schedule: str = "'*/5 * * * *'", watch: str = "True", more: str = "", root: str = "s3://lake") -> Any:
        return parse(DAG.format(pipeline="retail.py:p", root=root, schedule=schedule, watch=watch, more=more))

    return parsed


def trigger_of(bag: Any) -> Any:
    assert bag.import_errors == {}
    (asset,) = bag.dags["retail"].timetable.asset_condition.objects
    assert asset.uri == "tidemill://retail/_new-files"
    (watcher,) = asset.watchers
    return watcher.trigger


@pytest.mark.parametrize(
    ("schedule", "clock"),
    [
        ("'*/5 * * * *'", ("*/5 * * * *", "UTC")),
        ("'@hourly'", ("0 * * * *", "UTC")),
        ("timedelta(minutes=7)", timedelta(minutes=7)),
        ("CronTriggerTimetable('1 * * * *', timezone='Europe/Berlin')", ("1 * * * *", "Europe/Berlin")),
    ],
)
def test_new_files_come_beside_a_clock(watched: Callable[..., Any], schedule: str, clock: Any) -> None:
    bag = watched(schedule)
    trigger_of(bag)
    timetable = bag.dags["retail"].timetable.timetable
    if isinstance(clock, timedelta):
        assert timetable.delta == clock
    else:
        assert (timetable.expression, str(getattr(timetable.timezone, "name", timetable.timezone))) == clock
    assert "asset_triggered" in bag.dags["retail"].allowed_run_types
    assert bag.dags["retail__maintain"].timetable.expression == "23 3 * * *"


def test_cron_is_in_the_time_zone_of_the_start_date(watched: Callable[..., Any]) -> None:
    start = "dag_args={'start_date': datetime(2026, 1, 1, tzinfo=ZoneInfo('Europe/Berlin'))}"
    assert "Europe/Berlin" in str(watched(more=start).dags["retail"].timetable.timetable.timezone)


@pytest.mark.parametrize(
    "schedule", ["None", "'@once'", "'@continuous'", "[Asset('x')]", "Asset('x')", "ContinuousTimetable()", "7"]
)
def test_without_a_clock_it_is_refused(watched: Callable[..., Any], schedule: str) -> None:
    imports = "ContinuousTimetable" if "Timetable" in schedule else None
    bag = watched(schedule if imports is None else f"__import__('airflow.sdk.definitions.timetables.simple', "
                  f"fromlist=['x']).{schedule}")  # fmt: skip
    (error,) = bag.import_errors.values()
    assert "watch needs a clock, found schedule=" in error
    assert "hint: for example `schedule=" in error


def test_options_reach_the_trigger(watched: Callable[..., Any]) -> None:
    trigger = trigger_of(
        watched(
            watch="Watch(pipeline='shop', poll=timedelta(minutes=2), conn_id='lake')",
            more="branch='trial', launch=Launch(env={'AWS_REGION': 'eu-west-1'}, storage_options={'source': "
            "{'endpoint_url': 'http://s3'}, 'root': {'addressing_style': 'path'}})",
        )
    )
    assert (trigger.root, trigger.pipeline, trigger.branch) == ("s3://lake", "shop", "trial")
    assert (trigger.poll_s, trigger.conn_id) == (120.0, "lake")
    assert trigger.options == {"region_name": "eu-west-1", "addressing_style": "path"}
    assert trigger.source_options == {"region_name": "eu-west-1", "endpoint_url": "http://s3"}


def test_no_secret_is_stored(watched: Callable[..., Any]) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    bag = watched(
        more="launch=Launch(env={'AWS_ACCESS_KEY_ID': 'AKIAHUSH', 'AWS_SECRET_ACCESS_KEY': 'hush-hush', 'AWS_PROFILE': "
        "'{{ var.value.profile }}'}, storage_options={'source': {'aws_session_token': 'hush-token'}})"
    )
    trigger = trigger_of(bag)
    assert (trigger.options, trigger.source_options) == ({}, {})
    stored = json.dumps(DagSerialization.to_dict(bag.dags["retail"]))
    assert "NewFilesTrigger" in stored
    assert "hush" not in stored.lower()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"watch": "Watch(poll=0)"}, "poll is 0"),
        ({"watch": "Watch(poll=None)"}, "poll is None"),
        ({"watch": "Watch(pipeline='No Name')"}, "No Name"),
        ({"watch": "'yes'"}, "watch is a str: expected True, False or `Watch(…)`"),
        ({"root": "{{ var.value.root }}"}, "got the template root='{{ var.value.root }}', which nothing renders"),
    ],
)
def test_mistakes_are_import_errors(watched: Callable[..., Any], arguments: dict[str, str], said: str) -> None:
    (error,) = watched(**arguments).import_errors.values()
    assert said in error


@pytest.mark.parametrize("watch", ["False", "None"])
def test_off_leaves_the_schedule_as_it_is(watched: Callable[..., Any], watch: str) -> None:
    bag = watched(watch=watch)
    assert bag.import_errors == {}
    assert bag.dags["retail"].timetable.expression == "*/5 * * * *"


@pytest.mark.servers("run Airflow tasks")
@pytest.mark.parametrize(("watch", "warns"), [("True", True), ("Watch(pipeline='shop')", False)])
def test_the_task_warns_if_another_pipeline_is_watched(
    parse: Parse, fake_env: Callable[[str], dict[str, str]], capsys: pytest.CaptureFixture[str], watch: str,
    warns: bool, tmp_path: Path,
) -> None:  # fmt: skip
    """The fake command is of the pipeline `shop`."""
    more = f"launch=Launch(env={fake_env('changed')!r})"
    bag = parse(DAG.format(pipeline="retail.py:p", root=str(tmp_path), schedule="'@daily'", watch=watch, more=more))
    (ti,) = bag.dags["retail"].test().get_task_instances()
    assert ti.state == "success"
    output = capsys.readouterr().out
    said = "new files do not start this DAG: it watches the pipeline `retail`, and the name in the code is `shop`"
    assert (said in output) == warns
    assert ("hint: tidemill_dags(…, watch=Watch(pipeline='shop'))" in output) == warns

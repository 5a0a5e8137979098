"""`tidemill_dags` and the DAG files: what Airflow finds, and what parsing them costs."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.airflow.dag_files import BARE, Parse
from tidemill.errors import InvalidInput

REPOSITORY = Path(__file__).resolve().parents[2]
DAG_FILES = sorted((REPOSITORY / "dags").glob("*.py"))
BY_HAND = ("retail__replay", "retail__correct")
ALL = ["retail", "retail__correct", "retail__maintain", "retail__replay", "retail__sweep"]


def test_bare_call_registers_cadence_sweep_and_upkeep(parse: Parse) -> None:
    bag = parse(BARE)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ALL
    assert Path(bag.dags["retail"].fileloc).name == "retail_dag.py"


def test_result_in_globals_gives_the_same_dags(parse: Parse) -> None:
    bag = parse(BARE.replace("\ntidemill_dags(", "\ndags = tidemill_dags(") + "globals().update(dags)\n")
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ALL


def live(dags: dict[str, Any]) -> list[Any]:
    return [dag for name, dag in dags.items() if name not in BY_HAND]


def test_dags_never_catch_up_nor_overlap_nor_take_backfills(parse: Parse) -> None:
    dags = parse(BARE).dags
    for name in BY_HAND:
        assert "backfill" not in dags[name].allowed_run_types
    for dag in live(dags):
        assert dag.catchup is False
        assert dag.max_active_runs == 1
        assert "backfills, because the input of a run does not depend on its date. To recompute the past, use" in (
            dag.doc_md.replace("\n", " ")
        )
        assert "use `retail__replay`" in dag.doc_md
        assert "use `retail__correct`" in dag.doc_md
        types = {str(getattr(kind, "value", kind)) for kind in dag.allowed_run_types}
        assert {"scheduled", "manual", "asset_triggered"} <= types
        assert "backfill" not in types


def test_hangs_and_failures_in_a_row_end(parse: Parse) -> None:
    for dag in live(parse(BARE).dags):
        assert dag.dagrun_timeout == timedelta(days=1)
        assert dag.max_consecutive_failed_dag_runs == 10
        assert dag.tasks[0].stall_timeout == timedelta(hours=2)


def test_cadence_has_one_task(parse: Parse) -> None:
    dag = parse(BARE).dags["retail"]
    (task,) = dag.tasks
    assert task.task_id == "run"
    assert (task.pipeline, task.root) == ("pipelines/retail.py:p", "s3://lake/tidemill")


CRON = "from airflow.sdk import *\nfrom datetime import timedelta\n"


@pytest.mark.parametrize(
    ("schedule", "retries", "seconds"),
    [
        ("'* * * * *'", 1, 15),
        ("'*/4 * * * *'", 1, 15),
        ("'*/5 * * * *'", 3, 120),
        ("'0,1 3 * * *'", 1, 15),
        ("'@hourly'", 3, 120),
        ("'@continuous'", 1, 15),
        ("timedelta(minutes=4, seconds=59)", 1, 15),
        ("timedelta(hours=1)", 3, 120),
        ("None", 3, 120),
        ("[Asset('x')]", 3, 120),
        ("CronTriggerTimetable('* * * * *', timezone='UTC')", 1, 15),
        ("DeltaTriggerTimetable(timedelta(minutes=1))", 1, 15),
        ("MultipleCronTriggerTimetable('@daily', '*/2 * * * *', timezone='UTC')", 1, 15),
        (
            "AssetOrTimeSchedule(timetable=CronTriggerTimetable('* * * * *', timezone='UTC'), assets=[Asset('x')])",
            1,
            15,
        ),
    ],
)
def test_retries_fit_the_cadence(parse: Parse, schedule: str, retries: int, seconds: int) -> None:
    bag = parse(CRON + BARE.replace('"*/5 * * * *"', schedule))
    assert bag.import_errors == {}
    task = bag.dags["retail"].tasks[0]
    assert (task.retries, task.retry_delay) == (retries, timedelta(seconds=seconds))
    assert (bag.dags["retail__sweep"].tasks[0].retries, bag.dags["retail__maintain"].tasks[0].retries) == (1, 3)


@pytest.mark.parametrize("schedule", ["* * * * *", "*/5 * * * *"])
def test_documented_delays_are_those_that_airflow_uses(parse: Parse, schedule: str) -> None:
    """Airflow multiplies an exponential delay by a hash of up to two."""
    from airflow.models.taskinstance import TaskInstance

    task = parse(BARE.replace("*/5 * * * *", schedule)).dags["retail"].tasks[0]
    ended = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(1, task.retries + 1):
        found = SimpleNamespace(
            retry_delay_override=None, task=task, try_number=number, end_date=ended, dag_id="retail", task_id="run",
            logical_date=ended,
        )  # fmt: skip
        assert TaskInstance.next_retry_datetime(found) - ended == task.retry_delay


def test_two_pipelines_of_one_name_in_one_file_are_refused(parse: Parse) -> None:
    bag = parse(BARE + BARE.replace("pipelines/", "others/"))
    (error,) = bag.import_errors.values()
    said = "two DAGs have the id `retail`: of `pipelines/retail.py:p` and of `others/retail.py:p`"
    assert said in error
    assert "hint: give one of them another name: `tidemill_dags(…, name=…)`" in error
    named = parse(BARE + BARE.replace("pipelines/", "others/").replace("schedule=", "name='other', schedule="))
    assert named.import_errors == {}
    assert {"retail", "other"} < set(named.dags)


def test_a_dag_of_the_file_itself_counts_too(parse: Parse) -> None:
    own = "from airflow.sdk import DAG\nwith DAG('retail__sweep'): pass\n"
    (error,) = parse(own + BARE).import_errors.values()
    assert "two DAGs have the id `retail__sweep`: of `another DAG` and of `pipelines/retail.py:p`" in error


def test_a_file_that_is_parsed_again_is_not_its_own_duplicate(parse: Parse) -> None:
    assert parse(BARE).import_errors == parse(BARE).import_errors == {}


@pytest.mark.parametrize(
    ("sweep", "ids", "every"),
    [
        ("False", sorted(set(ALL) - {"retail__sweep"}), None),
        ("'@hourly'", ALL, "0 * * * *"),
        ("True", ALL, "* * * * *"),
    ],
)
def test_sweep_is_off_or_has_its_own_clock(parse: Parse, sweep: str, ids: list[str], every: str | None) -> None:
    dags = parse(BARE.replace("schedule=", f"sweep={sweep}, schedule=")).dags
    assert sorted(dags) == ids
    if every is not None:
        assert dags["retail__sweep"].timetable.expression == every


@pytest.mark.parametrize(
    "schedule",
    [
        "None",
        "'@daily'",
        "timedelta(minutes=10)",
        "[Asset('x')]",
        "AssetOrTimeSchedule(timetable=CRON, assets=[Asset('x')])",
    ],
)
def test_schedule_is_whatever_airflow_takes(parse: Parse, schedule: str) -> None:
    imports = (
        "from datetime import timedelta\n"
        "from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable\n"
        "CRON = CronTriggerTimetable('* * * * *', timezone='UTC')\n"
    )
    bag = parse(imports + BARE.replace("'*/5 * * * *'", schedule).replace('"*/5 * * * *"', schedule))
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ALL


def test_name_comes_from_file_or_module() -> None:
    from tidemill.airflow.calls.checks import default_name

    assert default_name("pipelines/retail.py:p") == "retail"
    assert default_name("lake.pipelines.Web_Logs:pipeline") == "web-logs"
    with pytest.raises(InvalidInput):
        default_name("retail")


@pytest.mark.parametrize("path", DAG_FILES, ids=[path.name for path in DAG_FILES])
def test_dag_file_loads(parse: Parse, path: Path) -> None:
    bag = parse(path.read_text(), path.name)
    assert bag.import_errors == {}
    assert bag.dags


@pytest.mark.parametrize("path", DAG_FILES, ids=[path.name for path in DAG_FILES])
def test_parsing_a_dag_file_imports_nothing_heavy(airflow_home: Path, path: Path) -> None:
    """In a fresh interpreter; Airflow itself is imported first, since what it brings along is not ours."""
    code = f"""
import sys, runpy
import airflow.dag_processing.dagbag
before = set(sys.modules)
runpy.run_path({str(path)!r})
heavy = {{"pyspark", "boto3", "botocore", "pandas", "pyarrow", "duckdb", "numpy"}}
engine = ("repo", "run", "publishing", "reading", "branches", "upkeep", "protocol", "batch", "engines", "store",
          "sources", "sinks", "actions.carry_out", "cli")
ours = {{name for name in sys.modules if name.startswith(tuple(f"tidemill.{{one}}" for one in engine))}}
print(sorted(heavy & (set(sys.modules) - before)), sorted(name for name in heavy if name in before), sorted(ours))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[] [] []"


def test_importing_the_package_imports_no_airflow() -> None:
    code = (
        "import sys, tidemill.airflow, tidemill.airflow.provider, tidemill.airflow.calls.process; "
        "print([name for name in ('airflow', 'pyspark', 'pandas', 'boto3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_name_is_an_attribute_error() -> None:
    import tidemill.airflow

    with pytest.raises(AttributeError, match="no attribute 'TidemillRunOperater'"):
        tidemill.airflow.TidemillRunOperater  # noqa: B018

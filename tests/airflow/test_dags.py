"""`tidemill_dags` and the DAG files: what Airflow finds, and what parsing them costs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tidemill.errors import InvalidInput

Parse = Callable[..., Any]
REPOSITORY = Path(__file__).resolve().parents[2]
DAG_FILES = sorted((REPOSITORY / "dags").glob("*.py"))

BARE = """
from tidemill.airflow import tidemill_dags
tidemill_dags("pipelines/retail.py:p", root="s3://lake/tidemill", schedule="*/5 * * * *")
"""


def test_bare_call_registers_cadence_and_sweep(parse: Parse) -> None:
    bag = parse(BARE)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["retail", "retail__sweep"]
    assert Path(bag.dags["retail"].fileloc).name == "retail_dag.py"


def test_result_in_globals_gives_the_same_dags(parse: Parse) -> None:
    bag = parse(BARE.replace("\ntidemill_dags(", "\ndags = tidemill_dags(") + "globals().update(dags)\n")
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["retail", "retail__sweep"]


def test_dags_never_catch_up_nor_overlap_nor_take_backfills(parse: Parse) -> None:
    for dag in parse(BARE).dags.values():
        assert dag.catchup is False
        assert dag.max_active_runs == 1
        types = {str(getattr(kind, "value", kind)) for kind in dag.allowed_run_types}
        assert {"scheduled", "manual", "asset_triggered"} <= types
        assert "backfill" not in types


def test_cadence_has_one_task_that_retries(parse: Parse) -> None:
    dag = parse(BARE).dags["retail"]
    (task,) = dag.tasks
    assert (task.task_id, task.retries, task.retry_delay) == ("run", 3, timedelta(minutes=1))
    assert task.retry_exponential_backoff == 2
    assert (task.pipeline, task.root, task.engine) == ("pipelines/retail.py:p", "s3://lake/tidemill", "spark")


@pytest.mark.parametrize(
    ("sweep", "ids", "every"),
    [
        ("False", ["retail"], None),
        ("'@hourly'", ["retail", "retail__sweep"], "0 * * * *"),
        ("True", ["retail", "retail__sweep"], "7-59/15 * * * *"),
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
    assert sorted(bag.dags) == ["retail", "retail__sweep"]


def test_arguments_reach_the_tasks(parse: Parse) -> None:
    more = (
        "name='shop', branch='trial', engine='local', python='/venv/bin/python', conf={'a': 1}, env={'B': '2'}, "
        "storage_options={'root': {'endpoint_url': 'http://s3'}}, max_batches=7, time_budget=60, "
        "default_args={'retries': 1, 'pool': 'lake'}, tags=['x'], schedule="
    )
    dags = parse(BARE.replace("schedule=", more)).dags
    run, sweep = dags["shop"].tasks[0], dags["shop__sweep"].tasks[0]
    for task in (run, sweep):
        assert (task.branch, task.engine, task.python) == ("trial", "local", "/venv/bin/python")
        assert (task.conf, task.env, task.retries, task.pool) == ({"a": 1}, {"B": "2"}, 1, "lake")
        assert task.storage_options == {"root": {"endpoint_url": "http://s3"}}
        assert task.retry_delay == timedelta(minutes=1)
    assert (run.max_batches, run.time_budget) == (7, 60)
    assert set(dags["shop"].tags) == {"tidemill", "x"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("retail.py:p", "retail.py"), "invalid pipeline reference `pipelines/retail.py`: expected a string"),
        (("s3://lake/tidemill", "lake"), "root `lake` is relative"),
        (("schedule=", "tasks='split', schedule="), "this version supports only tasks='one'"),
        (("pipelines/retail.py:p", "pipelines/__init__.py:p"), "invalid pipeline name '--init--'"),
        (("schedule=", "engine='lokal', schedule="), "unknown engine `lokal`; did you mean `local`?"),
        (("schedule=", "engine='apache-flink', schedule="), "hint: known: local, spark"),
        (("schedule=", "max_batches=0, schedule="), "max_batches is 0: expected a whole number of at least 1, or None"),
        (("schedule=", "max_batches=2.5, schedule="), "max_batches is 2.5: expected a whole number of at least 1"),
        (("schedule=", "max_batches=True, schedule="), "max_batches is True: expected a whole number of at least 1"),
        (("schedule=", "time_budget=-1, schedule="), "time_budget is -1: expected a number of seconds of at least 0"),
        (("schedule=", "time_budget='1h', schedule="), "time_budget is '1h': expected a number of seconds"),
        (("schedule=", "engin='local', schedule="), "unexpected keyword argument 'engin'"),
        (
            ('"pipelines/retail.py:p"', "object"),
            "invalid pipeline reference `<class 'object'>`: expected a string",
        ),
        (('"s3://lake/tidemill"', "None"), "root is None: expected a string, a URI"),
        (("schedule=", "conf=['a=b'], schedule="), "conf is a list: expected a mapping, such as `{"),
        (("schedule=", "env='A=b', schedule="), "env is a str: expected a mapping, such as `{"),
        (("schedule=", "storage_options='x', schedule="), "storage_options is a str: expected a mapping"),
        (
            ("schedule=", "storage_options={'endpoint_url': 'http://x'}, schedule="),
            "section `endpoint_url` of storage_options is a str: expected a mapping, such as `{",
        ),
    ],
)
def test_bad_argument_is_an_import_error_that_says_so(parse: Parse, change: tuple[str, str], message: str) -> None:
    bag = parse(BARE.replace(*change))
    assert bag.dags == {}
    assert [message in error for error in bag.import_errors.values()] == [True]


def test_values_of_templates_are_not_checked_when_the_file_is_parsed(parse: Parse) -> None:
    more = "engine='{{ var.value.engine }}', max_batches='{% if a %}1{% endif %}', time_budget='{{ x }}', schedule="
    bag = parse(BARE.replace("schedule=", more).replace("s3://lake/tidemill", "{{ var.value.root }}"))
    assert bag.import_errors == {}
    assert bag.dags["retail"].tasks[0].engine == "{{ var.value.engine }}"


def test_a_root_may_be_a_path_and_tags_one_text(parse: Parse) -> None:
    more = "import pathlib\n" + BARE.replace('"s3://lake/tidemill"', "pathlib.Path('/lake')")
    bag = parse(more.replace("schedule=", "tags='shop', schedule="))
    assert bag.import_errors == {}
    assert bag.dags["retail"].tags == {"tidemill", "shop"}
    assert bag.dags["retail"].tasks[0].root == "/lake"


def test_limits_may_be_given_as_text_and_the_engine_left_to_the_command(parse: Parse) -> None:
    bag = parse(BARE.replace("schedule=", "engine=None, max_batches='5', time_budget='3600', schedule="))
    assert bag.import_errors == {}
    task = bag.dags["retail"].tasks[0]
    assert (task.engine, task.max_batches, task.time_budget) == (None, "5", "3600")


def test_name_comes_from_file_or_module() -> None:
    from tidemill.airflow.command import default_name

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
print(sorted(heavy & (set(sys.modules) - before)), sorted(name for name in heavy if name in before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[] []"


def test_importing_the_package_imports_no_airflow() -> None:
    code = (
        "import sys, tidemill.airflow, tidemill.airflow.provider, tidemill.airflow.process; "
        "print([name for name in ('airflow', 'pyspark', 'pandas', 'boto3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_name_is_an_attribute_error() -> None:
    import tidemill.airflow

    with pytest.raises(AttributeError, match="no attribute 'TidemillRunOperater'"):
        tidemill.airflow.TidemillRunOperater  # noqa: B018

"""`tidemill_dags` and the DAG files: what Airflow finds, and what parsing them costs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
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


def test_arguments_reach_the_tasks(parse: Parse) -> None:
    more = (
        "name='shop', branch='trial', engine='local', run=Run(max_batches=7, time_budget=60), "
        "launch=Launch(python='/venv/bin/python', cwd='/work', conf={'a': 1}, env={'B': '2'}, "
        "storage_options={'root': {'endpoint_url': 'http://s3'}}, stall_timeout=90, rows_in_exceptions=True), "
        "maintain=Maintain(keep='90 days', compact_sinks=True, schedule='@weekly', engine='spark'), "
        "replay=Replay(promote='if equal', outputs='keep', engine='spark', response_timeout=60), "
        "correct=Correct(carry_out='at once', response_timeout=90), "
        "dag_args={'default_args': {'retries': 2, 'pool': 'lake'}, 'tags': ['x']}, schedule="
    )
    bag = parse(BARE.replace("schedule=", more).replace("import tidemill_dags", "import *"))
    assert bag.import_errors == {}
    run, sweep, upkeep = (bag.dags[name].tasks[0] for name in ("shop", "shop__sweep", "shop__maintain"))
    for task in (run, sweep, upkeep):
        assert (task.branch, task.python, task.cwd) == ("trial", "/venv/bin/python", "/work")
        assert (task.conf, task.env, task.retries, task.pool) == ({"a": 1}, {"B": "2"}, 2, "lake")
        assert task.storage_options == {"root": {"endpoint_url": "http://s3"}}
        assert (task.stall_timeout, task.rows_in_exceptions) == (90, True)
        assert task.retry_delay == timedelta(seconds=15 if task is sweep else 120)
    assert upkeep.compact_sinks is True
    assert bag.dags["shop__maintain"].timetable.expression == "0 0 * * 0"
    assert set(bag.dags["shop"].tags) == {"tidemill", "x"}
    forms = {name: dict(dag.params.dump()) for name, dag in bag.dags.items()}
    assert forms == {
        "shop": {"engine": "local", "max_batches": 7, "time_budget": 60.0},
        "shop__sweep": {"engine": "local"},
        "shop__maintain": {
            "engine": "spark", "keep": "90 days", "keep_versions": None, "time_budget": None, "dry_run": False,
        },
        "shop__replay": {
            "from_version": None, "to_version": None, "operators": None, "code": "pipelines/retail.py:p",
            "engine": "spark", "outputs": "keep", "promote": "if equal", "reason": None, "keep_branch": False,
        },
        "shop__correct": {
            "correction": None, "reason": None, "to_version": None, "without": None, "file": None, "source": None,
            "watermark": None, "batch_time": None, "carry_out": "at once",
        },
    }  # fmt: skip
    assert bag.dags["shop__correct"].get_task("approve").response_timeout == timedelta(seconds=90)


def test_every_dag_argument_can_be_passed(parse: Parse) -> None:
    more = (
        "dag_args={'start_date': datetime(2026, 1, 1), 'dagrun_timeout': timedelta(hours=3), 'doc_md': 'ours', "
        "'max_consecutive_failed_dag_runs': 2, 'on_failure_callback': print, 'params': {'team': 'lake'}, "
        "'owner_links': {'tidemill': 'https://lake.example'}, 'is_paused_upon_creation': False}, schedule="
    )
    bag = parse("from datetime import datetime, timedelta\n" + BARE.replace("schedule=", more))
    assert bag.import_errors == {}
    for dag in bag.dags.values():
        assert (dag.dagrun_timeout, dag.max_consecutive_failed_dag_runs) == (timedelta(hours=3), 2)
        assert (dag.start_date.year, dag.doc_md, dag.is_paused_upon_creation) == (2026, "ours", False)
        assert (dag.on_failure_callback, dag.params["team"]) == (print, "lake")
        assert dag.catchup is False


def test_dags_explain_themselves(parse: Parse) -> None:
    dags = parse(BARE).dags
    assert dags["retail__sweep"].doc_md.startswith("`retail__sweep` fires due timeouts, without input.")
    assert "tidemill status pipelines/retail.py:p --root s3://lake/tidemill\n" in dags["retail"].doc_md


@pytest.mark.parametrize(
    ("conf", "fits"),
    [
        ({"max_batches": 3}, True),
        ({"max_batches": None, "time_budget": 1.5, "engine": "local"}, True),
        ({"max_batches": 0}, False),
        ({"max_batches": "many"}, False),
        ({"time_budget": -1}, False),
        ({"engine": "flink"}, False),
    ],
)
def test_form_takes_only_values_of_its_types(parse: Parse, conf: dict[str, Any], fits: bool) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = parse(BARE).dags["retail"].params
    try:
        for name, value in conf.items():
            params[name] = value
        params.validate()
    except ParamValidationError:
        assert not fits
    else:
        assert fits


SECRETS = """
from tidemill.airflow import Launch, tidemill_dags
launch = Launch(
    env={"AWS_ACCESS_KEY_ID": "hush-1", "AWS_SECRET_ACCESS_KEY": "hush-2", "AWS_PROFILE": "lake",
         "API_TOKEN": "{{ conn.lake.password }}"},
    conf={"spark.hadoop.fs.s3a.secret.key": "hush-3", "spark.executor.memory": "4g"},
    storage_options={"root": {"endpoint_url": "http://s3", "aws_secret_access_key": "hush-4"}},
)
tidemill_dags("pipelines/retail.py:p", root="s3://lake/tidemill", schedule="*/5 * * * *", launch=launch)
"""


def test_secret_literals_are_not_in_what_airflow_stores(parse: Parse) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    bag = parse(SECRETS)
    assert bag.import_errors == {}
    for dag in bag.dags.values():
        stored = json.dumps(DagSerialization.to_dict(dag))
        assert "hush" not in stored
        assert all(text in stored for text in ("{{ conn.lake.password }}", "4g", "http://s3", '"lake"', "***"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("retail.py:p", "retail.py"), "invalid pipeline reference `pipelines/retail.py`: expected a string"),
        (("s3://lake/tidemill", "lake"), "root `lake` is relative"),
        (("pipelines/retail.py:p", "pipelines/__init__.py:p"), "invalid pipeline name '--init--'"),
        (("schedule=", "engine='lokal', schedule="), "unknown engine `lokal`; did you mean `local`?"),
        (("schedule=", "engine='apache-flink', schedule="), "hint: known: auto, local, spark"),
        (
            ("schedule=", "run=Run(max_batches=0), schedule="),
            "max_batches is 0: expected a whole number of at least 1, or None",
        ),
        (
            ("schedule=", "run=Run(max_batches=2.5), schedule="),
            "max_batches is 2.5: expected a whole number of at least 1",
        ),
        (
            ("schedule=", "run=Run(max_batches=True), schedule="),
            "max_batches is True: expected a whole number of at least 1",
        ),
        (
            ("schedule=", "run=Run(time_budget=-1), schedule="),
            "time_budget is -1: expected a number of seconds of at least 0",
        ),
        (("schedule=", "run=Run(time_budget='1h'), schedule="), "time_budget is '1h': expected a number of seconds"),
        (("schedule=", "engin='local', schedule="), "unexpected keyword argument 'engin'"),
        (
            ('"pipelines/retail.py:p"', "object"),
            "invalid pipeline reference `<class 'object'>`: expected a string",
        ),
        (('"s3://lake/tidemill"', "None"), "root is None: expected a string, a URI"),
        (("schedule=", "replay=5, schedule="), "replay is a int: expected True, False or `Replay(…)`"),
        (("schedule=", "replay=Replay(promote='always'), schedule="), "unknown value of promote `always`"),
        (("schedule=", "replay=Replay(outputs='corect'), schedule="), "did you mean `correct`?"),
        (("schedule=", "replay=Replay(engine='x'), schedule="), "unknown engine `x`"),
        (("schedule=", "replay=Replay(response_timeout=0), schedule="), "response_timeout is 0: expected a timedelta"),
        (("schedule=", "launch=Launch(conf=['a=b']), schedule="), "conf is a list: expected a mapping, such as `{"),
        (("schedule=", "launch=Launch(env='A=b'), schedule="), "env is a str: expected a mapping, such as `{"),
        (
            ("schedule=", "launch=Launch(storage_options='x'), schedule="),
            "storage_options is a str: expected a mapping",
        ),
        (
            ("schedule=", "launch=Launch(storage_options={'endpoint_url': 'http://x'}), schedule="),
            "section `endpoint_url` of storage_options is a str: expected a mapping, such as `{",
        ),
        (
            ("schedule=", "launch=Launch(stall_timeout=0), schedule="),
            "stall_timeout is 0: expected a timedelta or a posi",
        ),
        (("schedule=", "launch={'python': 'x'}, schedule="), "launch is a dict: expected `Launch(…)`"),
        (("schedule=", "maintain='@daily', schedule="), "maintain is a str: expected True, False or `Maintain(…)`"),
        (("schedule=", "maintain=Maintain(keep_versions=0), schedule="), "keep_versions is 0: expected a whole number"),
        (("schedule=", "maintain=Maintain(engine='x'), schedule="), "unknown engine `x`"),
        (("schedule=", "dag_args=['x'], schedule="), "dag_args is a list: expected a mapping"),
        (("schedule=", "dag_args={'dag_id': 'x'}, schedule="), "dag_args has `dag_id`: use the argument `name` of"),
        (
            ("schedule=", "dag_args={'params': {'engine': 1}}, schedule="),
            "dag_args has a parameter `engine`, which `ret",
        ),
        (("schedule=", "dag_args={'dagrun_timeot': 1}, schedule="), "unexpected keyword argument 'dagrun_timeot'"),
    ],
)
def test_bad_argument_is_an_import_error_that_says_so(parse: Parse, change: tuple[str, str], message: str) -> None:
    bag = parse(BARE.replace("import tidemill_dags", "import *").replace(*change))
    assert bag.dags == {}
    assert [message in error for error in bag.import_errors.values()] == [True]


def test_values_of_templates_are_not_checked_when_the_file_is_parsed(parse: Parse) -> None:
    run = "Run(max_batches='{% if a %}1{% endif %}', time_budget='{{ x }}')"
    more = f"engine='{{{{ var.value.engine }}}}', run={run}, schedule="
    bag = parse(
        BARE.replace("import tidemill_dags", "import *")
        .replace("schedule=", more)
        .replace("s3://lake/tidemill", "{{ var.value.root }}")
    )
    assert bag.import_errors == {}
    assert bag.dags["retail"].tasks[0].engine == "{{ var.value.engine }}"
    assert bag.dags["retail"].tasks[0].max_batches == "{% if a %}1{% endif %}"
    assert list(bag.dags["retail"].params) == []


def test_a_root_may_be_a_path_and_tags_one_text(parse: Parse) -> None:
    more = "import pathlib\n" + BARE.replace('"s3://lake/tidemill"', "pathlib.Path('/lake')")
    bag = parse(more.replace("schedule=", "dag_args={'tags': 'shop'}, schedule="))
    assert bag.import_errors == {}
    assert bag.dags["retail"].tags == {"tidemill", "shop"}
    assert bag.dags["retail"].tasks[0].root == "/lake"


def test_limits_may_be_given_as_text_and_the_engine_left_to_the_command(parse: Parse) -> None:
    more = "engine=None, run=Run(max_batches='5', time_budget='3600'), schedule="
    bag = parse(BARE.replace("import tidemill_dags", "import *").replace("schedule=", more))
    assert bag.import_errors == {}
    assert dict(bag.dags["retail"].params.dump()) == {"engine": None, "max_batches": 5, "time_budget": 3600.0}


def test_name_comes_from_file_or_module() -> None:
    from tidemill.airflow.checks import default_name

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
        "import sys, tidemill.airflow, tidemill.airflow.provider, tidemill.airflow.process; "
        "print([name for name in ('airflow', 'pyspark', 'pandas', 'boto3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_name_is_an_attribute_error() -> None:
    import tidemill.airflow

    with pytest.raises(AttributeError, match="no attribute 'TidemillRunOperater'"):
        tidemill.airflow.TidemillRunOperater  # noqa: B018

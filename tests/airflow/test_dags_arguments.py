"""Arguments of `tidemill_dags`: where they arrive, and what is refused."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.airflow.dag_files import BARE, Parse


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

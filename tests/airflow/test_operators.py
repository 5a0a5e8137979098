"""The operators inside Airflow, by `dag.test()`, against a fake command line: states, log, XCom, no process left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidemill.airflow.calls.report import FIGURES

pytestmark = pytest.mark.servers("run Airflow tasks")

Env = Callable[[str], dict[str, str]]
Pids = Callable[..., list[int]]
Alive = Callable[[list[int]], list[int]]

DAG = """
from datetime import timedelta
from tidemill.airflow import Launch, Maintain, Run, tidemill_dags
launch = Launch(
    env={env!r}, python={python!r},
    storage_options={{"root": {{"aws_secret_access_key": "{{{{ 'x' * 3 }}}}", "token": "{secret}"}}}}, {launch}
)
tidemill_dags(
    "pipelines/retail.py:p", root="s3://lake/tidemill", schedule="*/5 * * * *", launch=launch,
    maintain=Maintain(verify=False),
    dag_args={{"default_args": {{"retries": 2, "retry_delay": timedelta(0), {more}}}}},
)
"""
SECRET = "hush-hush"


# A process of its own that runs the DAG in the file it is given.
TEST_RUN = """
import sys
from airflow.dag_processing.dagbag import DagBag
dag = DagBag(dag_folder=sys.argv[1]).dags["retail"]
print("STATE", dag.test().state, flush=True)
"""
OUR_LINE = re.compile(r"^\S+ \[(\w+) *\] (.*?) *\[airflow\.task\.operators\.tidemill\S*\] loc=", re.MULTILINE)


@dataclass
class Task:
    """How a task ended: state, tries and XCom; `log` is what the operator logged, `output` all that was printed."""

    state: str
    tries: int
    xcom: Any
    output: str

    @property
    def log(self) -> list[str]:
        return [line for _, line in OUR_LINE.findall(self.output)]

    @property
    def levels(self) -> dict[str, str]:
        """The level of each line of the log."""
        return {line: level for level, line in OUR_LINE.findall(self.output)}

    @property
    def first_open_line(self) -> str:
        """The first line of the operator that a reader sees: groups are folded."""
        return self.log[self.log.index("::endgroup::") + 1]


RunTask = Callable[..., Task]


@pytest.fixture
def run_task(parse: Callable[..., Any], fake_env: Env, capsys: pytest.CaptureFixture[str]) -> RunTask:
    """Run a DAG with `dag.test()` whose child behaves as the test says. `python` replaces the fake interpreter."""

    def run(
        behaviour: str,
        dag_id: str = "retail",
        more: str = "",
        python: str | None = None,
        conf: dict[str, Any] | None = None,
        launch: str = "",
        **variables: str,
    ) -> Task:
        env = {**fake_env(behaviour), **variables} if python is None else {"PYTHONPATH": ""}
        bag = parse(DAG.format(env=env, more=more, python=python, secret=SECRET, launch=launch))
        assert bag.import_errors == {}
        (ti,) = bag.dags[dag_id].test(run_conf=conf).get_task_instances()
        return Task(str(ti.state), ti.try_number, ti.xcom_pull(task_ids=ti.task_id), capsys.readouterr().out)

    return run


def test_done_names_versions_first_and_returns_them(run_task: RunTask) -> None:
    task = run_task("done")
    assert (task.state, task.tries) == ("success", 1)
    assert task.first_open_line == "tidemill: committed versions 4–5 (head 5)"
    assert task.log[-1] == "tidemill: published version 3, left unpublished by an earlier run"
    assert task.xcom == {
        "status": "done",
        "versions": [[4, 5]],
        "already_committed": [],
        "published": [[3, 5]],
        "head": 5,
        "sinks": {},
        "watermarks": {},
        "next_deadline": {},
        **dict.fromkeys(FIGURES),
    }


def test_progress_and_driver_log_are_one_group(run_task: RunTask) -> None:
    log = run_task("done").log
    group = log[: log.index("::endgroup::")]
    assert group[0] == "::group::tidemill run: progress and driver log"
    assert "starting" in group
    assert "a line of a user function" in group
    assert "committed version 4, 1,200 rows, 2,400 rows/s, 3 late" in group


def test_nothing_to_do_is_a_success(run_task: RunTask) -> None:
    task = run_task("nothing", dag_id="retail__sweep")
    assert (task.state, task.tries, task.xcom["status"], task.xcom["versions"]) == ("success", 1, "nothing", [])
    assert task.first_open_line == "tidemill: nothing to do (head 5)"


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("fenced", "Fenced: commit 5 of `flights` is another batch (version 4 committed before)"),
        ("invalid", "InvalidInput: column `a` is not there (version 4 committed before)"),
        ("corrupt", "CorruptState: segment `s` is missing (version 4 committed before)"),
        ("usage", "`tidemill run {pipeline}`: no such option: --rot"),
    ],
)
def test_an_error_that_a_retry_cannot_fix_fails_at_once(
    run_task: RunTask, airflow_home: Path, behaviour: str, message: str
) -> None:
    task = run_task(behaviour)
    assert (task.state, task.tries, task.xcom) == ("failed", 1, None)
    pipeline = f"{airflow_home}/dags/pipelines/retail.py:p"
    assert f"AirflowFailException: {message.format(pipeline=pipeline)}\n" in task.output


def test_an_interpreter_without_tidemill_fails_at_once(run_task: RunTask, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare/bin/python")
    task = run_task("none", python=python)
    assert (task.state, task.tries, task.xcom) == ("failed", 1, None)
    found = re.search(r"AirflowFailException: (.*)\n(.*)\n", task.output)
    assert found is not None
    assert found[1].endswith(f"did not start: {python}: No module named tidemill")
    assert found[2].startswith("hint: install the Tidemill wheel in that interpreter")


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("unavailable", "StoreUnavailable: put `x` of `s3://lake`: no answer (version 4 committed before)"),
        ("internal", "InternalError: ranges do not tile (version 4 committed before)"),
        ("crash", "`tidemill run {pipeline}` was killed by SIGSEGV (version 4 committed before)"),
        ("silent", "`tidemill run {pipeline}` ended with status 0 and wrote no result"),
    ],
)
def test_an_error_that_a_retry_may_fix_is_retried(
    run_task: RunTask, airflow_home: Path, behaviour: str, message: str
) -> None:
    task = run_task(behaviour)
    assert (task.state, task.tries, task.xcom) == ("failed", 3, None)
    pipeline = f"{airflow_home}/dags/pipelines/retail.py:p"
    assert f"AirflowException: {message.format(pipeline=pipeline)}\n" in task.output


def test_hang_is_seen_and_retried(run_task: RunTask, pids: Pids, alive: Alive) -> None:
    task = run_task("stalls", launch="stall_timeout=1,")
    assert (task.state, task.tries, task.xcom["status"]) == ("success", 2, "nothing")
    assert "was stopped: it wrote no line and committed nothing for 1 s (version 4 committed before)" in task.output
    assert alive(pids()) == []


def test_error_is_an_error_in_the_log_and_has_no_row_in_the_exception(run_task: RunTask) -> None:
    task = run_task("rows")
    (raised,) = re.findall(r"AirflowFailException: (.*)\n(.*)\n(.*)\n", task.output)
    assert raised == (
        "InvalidInput: function `f` of operator `o` raised `ValueError` (version 4 committed before)",
        "the log of this task has the rest",
        "hint: repair the function",
    )
    assert re.search(
        r"\[error *\] InvalidInput: function `f` of operator `o` raised `ValueError: Joe Smith` f", task.output
    )


def test_exception_has_rows_if_asked(run_task: RunTask) -> None:
    task = run_task("rows", launch="rows_in_exceptions=True,")
    assert (
        "AirflowFailException: InvalidInput: function `f` of operator `o` raised `ValueError: Joe Smith`" in task.output
    )


def test_lines_of_the_command_keep_their_level(run_task: RunTask) -> None:
    task = run_task("says", FAKE_SAYS="plain\nwarning: 3 keys failed\nERROR: lost")
    assert task.levels.items() >= {
        ("plain", "info"), ("warning: 3 keys failed", "warning"), ("ERROR: lost", "error")
    }  # fmt: skip


def test_later_try_names_the_versions_that_an_earlier_try_committed(run_task: RunTask) -> None:
    task = run_task("flaky")
    assert (task.state, task.tries, task.xcom["status"]) == ("success", 2, "nothing")
    said = [line for line in task.log if line.startswith(("tidemill:", "hint:"))]
    assert said == [
        "tidemill: nothing to do (head 5); an earlier try of this task had already committed version 4",
        "hint: commits are final, so clearing a task does not recompute them; "
        "to recompute, use the DAG `NAME__replay`, or `tidemill replay`",
    ]


def test_try_that_fails_names_the_versions_of_earlier_ones_too(run_task: RunTask) -> None:
    task = run_task("again")
    assert task.first_open_line == "tidemill: an earlier try of this task had committed version 4"


def test_already_committed_by_another_run_is_a_success_that_says_so(run_task: RunTask) -> None:
    task = run_task("already")
    assert (task.state, task.xcom["already_committed"]) == ("success", [[4, 4]])
    expected = "committed nothing new (head 5); another run of the same plan had already committed version 4"
    assert task.first_open_line == f"tidemill: {expected}"


def heard(task: Task) -> dict[str, Any]:
    """What the fake command was started with."""
    found: dict[str, Any] = json.loads(next(line for line in task.log if line.startswith("{")))
    return found


def test_child_gets_the_airflow_run_the_arguments_and_the_folder_of_the_dag(
    run_task: RunTask, airflow_home: Path
) -> None:
    found = heard(run_task("echo"))
    assert found["arguments"] == [
        *("run", "--root=s3://lake/tidemill", "--json", "--branch=main", "--engine=auto"),
        *("--", f"{airflow_home}/dags/pipelines/retail.py:p"),
    ]
    assert found["cwd"] == str(airflow_home / "dags")
    assert found["env"]["AIRFLOW_CTX_DAG_ID"] == "retail"
    assert found["env"]["AIRFLOW_CTX_TASK_ID"] == "run"
    assert found["env"]["AIRFLOW_CTX_TRY_NUMBER"] == "1"
    assert found["env"]["AIRFLOW_CTX_DAG_RUN_ID"].startswith("manual__")
    assert [name for name in found["env"] if name.startswith("AIRFLOW__")] == []
    root = {"aws_secret_access_key": "xxx", "token": SECRET}
    assert json.loads(found["env"]["TIDEMILL_STORAGE_OPTIONS"]) == {"root": root}


def test_folder_of_the_command_is_relative_to_that_of_the_dag(run_task: RunTask, airflow_home: Path) -> None:
    (airflow_home / "dags/work").mkdir(exist_ok=True)
    assert heard(run_task("echo", launch="cwd='work',"))["cwd"] == str(airflow_home / "dags/work")
    task = run_task("echo", launch="cwd='nowhere',")
    assert (task.state, task.tries) == ("failed", 1)
    assert f"AirflowFailException: cannot start the command in `{airflow_home}/dags/nowhere`" in task.output


@pytest.mark.parametrize(
    ("dag_id", "conf", "options"),
    [
        ("retail", {"max_batches": 3, "time_budget": 60}, ["--engine=auto", "--max-batches=3", "--time-budget=60"]),
        ("retail", {"engine": None, "max_batches": None}, []),
        ("retail__sweep", {"engine": "local"}, ["--engine=local"]),
        (
            "retail__maintain",
            {"keep": "90 days", "keep_versions": 5, "time_budget": 9.5, "dry_run": True},
            ["--engine=local", "--dry-run", "--keep=90 days", "--keep-versions=5", "--time-budget=9.5"],
        ),
        ("retail__maintain", {}, ["--engine=local", "--yes"]),
    ],
)
def test_values_of_the_form_take_effect(
    run_task: RunTask, dag_id: str, conf: dict[str, Any], options: list[str]
) -> None:
    arguments = heard(run_task("echo", dag_id=dag_id, conf=conf))["arguments"]
    assert arguments[4 : arguments.index("--")] == options


def test_execution_timeout_leaves_no_process(run_task: RunTask, pids: Pids, alive: Alive) -> None:
    task = run_task("stubborn", more="'execution_timeout': timedelta(seconds=2), 'retries': 0")
    assert task.state == "failed"
    assert task.first_open_line == "tidemill: interrupted after it had committed version 4"
    assert len(pids()) == 3
    assert alive(pids()) == []


def test_cancelled_task_leaves_no_process(
    parse: Callable[..., Any], airflow_home: Path, fake_env: Env, pids: Pids, alive: Alive
) -> None:
    parse(DAG.format(env=fake_env("stubborn"), python=None, more="'retries': 0", secret=SECRET, launch=""))
    arguments = [sys.executable, "-c", TEST_RUN, str(airflow_home / "dags")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as task:
        assert alive(pids(task)) == pids()
        task.terminate()
        output, _ = task.communicate()
    assert alive(pids()) == []
    assert "was stopped: Airflow ended the task (version 4 committed before)" in output
    assert "STATE failed" in output


MAPPED = """
from airflow.sdk import DAG, task
from tidemill.airflow import TidemillRunOperator

with DAG("mapped", schedule=None, default_args={{"retries": 0}}) as dag:
    # A mapped operator hands on one value for each pipeline.
    runs = TidemillRunOperator.partial(
        task_id="run", root="s3://lake/tidemill", env={env!r}, multiple_outputs=True
    ).expand(pipeline=["pipelines/retail.py:p", "pipelines/shop.py:p"])

    @task
    def heads(found):
        return sorted(found)

    heads(runs.output["head"])
"""


def test_a_mapped_operator_runs_many_pipelines_and_hands_on_single_keys(
    parse: Callable[..., Any], fake_env: Env
) -> None:
    bag = parse("# an airflow dag\n" + MAPPED.format(env=fake_env("done")), "mapped_dag.py")
    assert bag.import_errors == {}
    found = bag.dags["mapped"].test().get_task_instances()
    assert sorted((ti.task_id, ti.map_index, str(ti.state)) for ti in found) == [
        ("heads", -1, "success"), ("run", 0, "success"), ("run", 1, "success")
    ]  # fmt: skip
    (heads,) = [ti for ti in found if ti.task_id == "heads"]
    assert heads.xcom_pull(task_ids="heads") == [5, 5]

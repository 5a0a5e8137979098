"""`NAME__replay` in Airflow with the real command line. Questions and their answers are in `test_scheduled`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, state
from tidemill.airflow.tasks.pull_request import branch_of_run
from tidemill.pipeline.load import load

PIPELINE = """
from pathlib import Path
import tidemill as tm

HERE = Path(__file__).parent


def build(factor):
    p = tm.Pipeline("shop")
    files = tm.Files(str(HERE / "in"), format="csv", schema="k string, n int", maxFilesPerTrigger=1)
    rows = p.read(files).sql(f"SELECT k, n * {factor} AS n FROM rows")
    rows.groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(str(HERE / "out")))
    return p


p, same, twice, late = build(1), build(1), build(2), build("(CASE WHEN n > 2 THEN 10 ELSE 1 END)")
"""
DAG = """
# an airflow dag
from datetime import timedelta
from tidemill.airflow import Replay, tidemill_dags
tidemill_dags(
    {reference!r}, root={root!r}, schedule="@daily", name="shop", engine="local", sweep=False, maintain=False,
    replay=Replay(engine="local", response_timeout=timedelta(hours=1)), dag_args={{"default_args": {{"retries": 0}}}},
)
"""


class Shop(World):
    """A pipeline with three versions, and its DAGs."""

    def __init__(self, folder: Path, parse: Callable[..., Any]) -> None:
        super().__init__(folder, root="lake")
        self.parse = parse
        (folder / "shop.py").write_text(PIPELINE)
        for n in range(3):
            self.arrive(f"a,{n + 1}\nb,1\n")
            self.run()
        self.read_again()

    def read_again(self) -> None:
        """Parse the DAG file; `test` leaves the values of a form in a DAG."""
        bag = self.parse(DAG.format(reference=f"{self.folder}/shop.py:p", root=self.root), "shop_dag.py")
        assert bag.import_errors == {}
        self.dags = bag.dags

    def pipeline(self) -> tm.Pipeline:
        return load(f"{self.folder}/shop.py:p")

    def sums(self) -> dict[str, int]:
        return state(self.open(), "sums")

    def replay(self, **form: Any) -> Any:
        return self.dags["shop__replay"].test(run_conf={"from_version": 0, **form})


@pytest.fixture
def shop(tmp_path: Path, airflow_home: Path, parse: Callable[..., Any]) -> Shop:
    return Shop(tmp_path, parse)


BARE = """
from tidemill.airflow import Launch, tidemill_dags
tidemill_dags(
    "retail.py:p", root="s3://lake", schedule="@daily", launch=Launch(python="/venv/bin/python"),
    branch="trial", dag_args={"default_args": {"retries": 4}}, {more}
)
"""


def test_dag_has_a_setup_a_teardown_and_a_question(parse: Callable[..., Any]) -> None:
    bag = parse(BARE.replace("{more}", ""))
    dag = bag.dags["retail__replay"]
    assert [task.task_id for task in dag.topological_sort()] == [
        *("branch", "replay", "diff", "approve", "promote", "drop")
    ]
    assert [
        (task.task_id, task.is_setup, task.is_teardown) for task in dag.tasks if task.is_setup or task.is_teardown
    ] == [
        ("branch", True, False),
        ("drop", False, True),
    ]
    approve = dag.get_task("approve")
    assert (approve.retries, approve.defaults, approve.response_timeout) == (1, ["Reject"], timedelta(days=7))
    assert (dag.max_active_runs, dag.dagrun_timeout, dag.timetable.can_be_scheduled) == (4, None, False)
    for name in ("branch", "replay", "diff", "promote", "drop"):
        task = dag.get_task(name)
        assert (task.python, task.branch, task.root, task.retries) == ("/venv/bin/python", "trial", "s3://lake", 4)
    assert "retail__replay" not in parse(BARE.replace("{more}", "replay=False")).dags


def test_form_needs_a_first_version_and_knows_its_types(parse: Callable[..., Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    def accepts(**form: Any) -> bool:
        params = parse(BARE.replace("{more}", "")).dags["retail__replay"].params
        try:
            for name, value in form.items():
                params[name] = value
            params.validate()
        except ParamValidationError:
            return False
        return True

    assert accepts(from_version=0)
    assert accepts(from_version=3, to_version=9, operators="a, b", promote="never", outputs="keep", engine=None)
    wrong = ({}, {"from_version": -1}, {"from_version": "0"}, {"from_version": 0, "promote": "always"})
    assert [form for form in wrong if accepts(**form)] == []


@pytest.mark.parametrize("state", ["failed", "upstream_failed"])
def test_branch_of_a_failed_run_stays_for_the_next_try(parse: Callable[..., Any], state: str) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    dag = parse(BARE.replace("{more}", "")).dags["retail__replay"]
    drop = dag.get_task("drop")
    drop.pipeline, drop.keep = "retail.py:p", "False"
    ti = SimpleNamespace(get_task_states=lambda dag_id, run_ids: {run_ids[0]: {"replay": "success", "promote": state}})
    with pytest.raises(AirflowSkipException, match="stays, because `promote` failed; clear the task to continue, or"):
        drop.execute({"dag": dag, "run_id": "manual__1", "ti": ti})


def states(run: Any) -> dict[str, str]:
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def xcom(run: Any, task_id: str) -> Any:
    return run.get_task_instance("branch").xcom_pull(task_ids=task_id)


@pytest.mark.servers("run Airflow tasks")
@pytest.mark.parametrize(("code", "promoted"), [("same", True), ("twice", False)])
def test_replay_is_promoted_without_a_question_only_if_it_is_equal(shop: Shop, code: str, promoted: bool) -> None:
    before = shop.sums()
    form = {"code": f"{shop.folder}/shop.py:{code}", "promote": "if equal", "from_version": 1, "keep_branch": True}
    run = shop.replay(**form)
    assert states(run)["approve"] == "success"
    assert states(run)["promote"] == ("success" if promoted else "skipped")
    assert xcom(run, "diff")["is_equal"] is promoted
    assert (shop.open().head.kind, shop.sums()) == ("promote" if promoted else "batch", before)
    assert [one.name for one in shop.open().branches()][1:] == [branch_of_run("shop__replay", run.run_id)]
    assert states(run)["drop"] == "skipped", "the form keeps the branch"


@pytest.mark.servers("run Airflow tasks")
def test_replay_of_a_part_is_not_promoted_without_a_question_though_it_is_equal(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """The version after the part would be replayed with the new code, and was not compared."""
    before = shop.sums()
    form = {"code": f"{shop.folder}/shop.py:late", "promote": "if equal", "from_version": 0, "to_version": 1}
    run = shop.replay(**form)
    assert (xcom(run, "diff")["is_equal"], xcom(run, "diff")["behind"]) == (True, [2])
    assert states(run)["promote"] == "skipped"
    assert "nothing is promoted, because the versions [2] were not compared" in capsys.readouterr().out
    assert (shop.open().head.kind, shop.sums()) == ("batch", before)


OWN = """
from airflow.sdk import DAG, task, task_group
from tidemill.airflow import *

code = dict(pipeline={code!r}, root={root!r})


@task
def decide(diff, name):
    assert diff["branch"] == name and diff["markdown"].startswith("**Nothing differs**")
    return name if diff["is_equal"] else "none"


with DAG("own", schedule=None, default_args={{"retries": 0}}) as dag:
    branch = TidemillBranchOperator(task_id="branch", name="trial", at=0, **code)

    @task_group
    def work():
        name = branch.output["name"]
        replay = TidemillReplayOperator(task_id="replay", from_version=1, into=name, engine="local", **code)
        check = TidemillCheckOperator(task_id="check", against=name, fail_if_different=True, **code)
        diff = TidemillDiffOperator(task_id="diff", against=name, **code)
        replay >> [check, diff]
        found = decide(diff.output, name)
        preview = TidemillPromoteOperator(task_id="preview", name=found, report_only=True, engine="local", **code)
        promote = TidemillPromoteOperator(
            task_id="promote", name=found, expect=preview.output["requires"], engine="local", **code
        )
        check >> preview >> promote

    upkeep = TidemillMaintainOperator(task_id="upkeep", keep_versions=1, report_only=True, **code)
    agreed = "{{{{ ti.xcom_pull(task_ids='upkeep')['requires'] }}}}"
    work() >> upkeep >> TidemillMaintainOperator(task_id="maintain", keep_versions=1, expect=agreed, **code)
"""


@pytest.mark.servers("run Airflow tasks")
def test_operators_in_a_dag_of_a_users_own_hand_their_results_on(shop: Shop) -> None:
    text = OWN.format(code=f"{shop.folder}/shop.py:same", root=str(shop.folder / "lake"))
    bag = shop.parse("# an airflow dag\n" + text, "own_dag.py")
    assert bag.import_errors == {}
    run = bag.dags["own"].test()
    assert set(states(run).values()) == {"success"}
    assert xcom(run, "work.promote")["versions"] == [[3, 3]]
    assert xcom(run, "work.check")["against"]["is_equal"] is True
    assert xcom(run, "work.preview")["changes"][0] == "the state becomes that of version 2 of branch `trial`"
    assert xcom(run, "work.preview")["versions"] == []
    assert xcom(run, "upkeep")["requires"].startswith("refs:") and xcom(run, "maintain")["status"] == "done"

"""`NAME__correct` and the operators of corrections in Airflow, with the real command line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.airflow.answers import answering
from tests.world import World
from tidemill.airflow.tasks.correction_form import FIELDS, correction_markdown, fault_of
from tidemill.pipeline.load import load

PIPELINE = """
from pathlib import Path
import tidemill as tm

HERE = Path(__file__).parent
p = tm.Pipeline("shop")
files = tm.Files(str(HERE / "in"), format="csv", schema="k string, n int, t timestamp", maxFilesPerTrigger=1)
rows = p.read(files).withWatermark("t", "1 hour", late="keep")
rows.groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(str(HERE / "out")))
"""
DAG = """
# an airflow dag
from datetime import timedelta
from tidemill.airflow import Correct, TidemillVerifyOperator, tidemill_dags
from airflow.sdk import DAG
place = dict(pipeline={reference!r}, root={root!r})
tidemill_dags(
    {reference!r}, root={root!r}, schedule="@daily", name="shop", engine="local", sweep=False, maintain=False,
    replay=False, correct=Correct(response_timeout=timedelta(hours=1)), dag_args={{"default_args": {{"retries": 0}}}},
)
with DAG("verify", schedule=None):
    TidemillVerifyOperator(task_id="verify", deep=True, retries=3, **place)
"""


class Shop(World):
    """A pipeline with three versions, one for each file, and its DAGs."""

    def __init__(self, folder: Path, parse: Callable[..., Any]) -> None:
        super().__init__(folder, root="lake")
        self.parse = parse
        (folder / "shop.py").write_text(PIPELINE)
        self.open()
        for n in range(3):
            self.put(f"{n}", f"a,{n + 1},2026-01-0{n + 1}T00:00:00\n")
        self.run()
        self.read_again()

    def read_again(self) -> None:
        """Parse the DAG file; `test` leaves the values of a form in a DAG."""
        text = DAG.format(reference=f"{self.folder}/shop.py:p", root=self.root)
        self.dags = self.parse(text, "shop_dag.py").dags

    def pipeline(self) -> tm.Pipeline:
        return load(f"{self.folder}/shop.py:p")

    def head(self) -> tm.Commit:
        head = self.open().head
        assert head is not None
        return head

    def correct(
        self, answer: str | None = None, meanwhile: Callable[[], Any] = lambda: None, **form: Any
    ) -> dict[str, Any]:
        """Run the DAG with this form. Return its tasks by id. `meanwhile` is called before the answer."""
        with answering("shop__correct", answer, meanwhile):
            run = self.dags["shop__correct"].test(run_conf=form)
        self.read_again()
        return {ti.task_id: ti for ti in run.get_task_instances()}


@pytest.fixture
def shop(tmp_path: Path, airflow_home: Path, parse: Callable[..., Any]) -> Shop:
    return Shop(tmp_path, parse)


def states(tasks: dict[str, Any]) -> dict[str, str]:
    return {name: str(ti.state) for name, ti in tasks.items()}


DONE = {"preview": "success", "approve": "success", "correct": "success"}


@pytest.mark.servers("run Airflow tasks")
def test_rewind_says_what_it_will_do_asks_and_does_it(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = shop.correct("Approve", correction="rewind", to_version="0", without=["2.csv"], reason="bad day")
    assert states(tasks) == DONE
    preview, done = (tasks["preview"].xcom_pull(task_ids=name) for name in ("preview", "correct"))
    assert (preview["dry_run"], preview["versions"], preview["undone"]) == (True, [], [[1, 2]])
    assert preview["changes"][:4] == [
        "the state becomes that of version 0",
        "undone: versions 1–2",
        "1 file (`1.csv`) will be read again",
        "1 file (`2.csv`) will not be read",
    ]
    assert preview["markdown"].startswith("`rewind` after version 2:\n\n```text\nthe state becomes that of version 0\n")
    assert (done["versions"], done["changes"]) == ([[3, 3]], preview["changes"])
    head = shop.head()
    assert (head.version, head.kind, head.reason) == (3, "rewind", "bad day; approved by ann")
    assert (head.airflow["dag_id"], head.airflow["task_id"]) == ("shop__correct", "correct")
    output = capsys.readouterr().out
    assert "tidemill: nothing is changed yet" in output
    assert "tidemill: corrected in version 3" in output
    assert [one.input_files for one in shop.open().run(engine="local")] == [1]


@pytest.mark.servers("run Airflow tasks")
def test_a_no_changes_nothing(shop: Shop) -> None:
    tasks = shop.correct("Reject", correction="rewind", to_version="0", reason="r")
    assert states(tasks) == {**DONE, "correct": "skipped"}
    assert shop.head().version == 2


@pytest.mark.servers("run Airflow tasks")
def test_what_was_agreed_to_is_done_or_nothing(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    def another_batch() -> None:
        shop.put("3", "a,9,2026-01-04T00:00:00\n")
        shop.run()

    tasks = shop.correct("Approve", another_batch, correction="rewind", to_version="0", reason="bad day")
    assert states(tasks) == {**DONE, "correct": "failed"}
    assert (shop.head().version, shop.head().kind) == (3, "batch")
    assert "rewind: what would happen now is not what was expected: found `main@3:" in capsys.readouterr().out


@pytest.mark.servers("run Airflow tasks")
def test_skip_replan_and_reset_at_once(shop: Shop) -> None:
    shop.put("3", "this is no row\n")
    with pytest.raises(tm.InvalidInput):
        shop.run()
    at_once = {"reason": "r", "carry_out": "at once"}
    assert states(shop.correct(correction="replan", **at_once)) == DONE
    assert states(shop.correct(correction="skip", file="3.csv", **at_once)) == DONE
    assert shop.run() == []
    assert states(shop.correct(correction="reset", watermark="2026-01-02T00:00:00", **at_once)) == DONE
    assert [(commit.version, commit.kind) for commit in shop.open().log(3)] == [(5, "reset"), (4, "skip"), (3, "void")]
    assert shop.head().reason == "r"
    assert shop.head().watermarks == {"source.t": 1_767_312_000_000}


@pytest.mark.servers("run Airflow tasks")
@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"correction": "replan", "file": "1.csv"}, "`file` is not a field of replan, but of skip"),
        ({"correction": "skip", "file": "1.csv"}, "version 1 has read it, so its rows are in the state"),
    ],
)
def test_what_cannot_be_done_fails_in_the_dry_run(
    shop: Shop, capsys: pytest.CaptureFixture[str], form: dict[str, Any], said: str
) -> None:
    tasks = shop.correct(**form, reason="r", carry_out="at once")
    assert states(tasks) == {"preview": "failed", "approve": "upstream_failed", "correct": "upstream_failed"}
    assert said in capsys.readouterr().out
    assert shop.head().version == 2


@pytest.mark.servers("run Airflow tasks")
def test_a_correction_is_not_made_again_by_another_try(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cleared, or whose first try died after its commit."""
    import json
    import subprocess
    import sys

    names = {"DAG_ID": "shop__correct", "TASK_ID": "correct", "DAG_RUN_ID": "manual__1"}

    def rewind(number: int, to: int = 0, reason: str = "r", run: str = "manual__1") -> Any:
        for name, value in {**names, "TRY_NUMBER": str(number), "DAG_RUN_ID": run}.items():
            monkeypatch.setenv(f"AIRFLOW_CTX_{name}", value)
        done = subprocess.run(
            [sys.executable, "-m", "tidemill", "rewind", f"{shop.folder}/shop.py:p", "--root", f"{shop.folder}/lake",
             f"--to={to}", f"--reason={reason}", "--if-needed", "--yes", "--json"],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        found = json.loads(done.stdout.splitlines()[-1])
        return done.returncode, found["versions"], found["already_committed"]

    assert rewind(1) == (0, [3], [])
    assert rewind(2) == (3, [], [3])
    assert rewind(2, to=1, reason="another one") == (0, [4], [])
    assert rewind(2, run="manual__2") == (0, [5], [])


@pytest.mark.servers("run Airflow tasks")
def test_verify_counts_and_fails_without_a_retry(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    (ti,) = shop.dags["verify"].test().get_task_instances()
    assert ti.state == "success"
    found = ti.xcom_pull(task_ids="verify")
    assert (found["commits"], found["problems"], found["deep"]) == (3, [], True)
    (segment, *_) = sorted((shop.folder / "lake/shop/state").rglob("*.parquet"))
    segment.unlink()
    capsys.readouterr()
    (ti,) = shop.dags["verify"].test().get_task_instances()
    assert (ti.state, ti.try_number) == ("failed", 1)
    output = capsys.readouterr().out
    assert f"AirflowFailException: 1 problem: {segment.relative_to(shop.folder / 'lake/shop')}: " in output
    assert "hint: restore the object from a backup" in output


BARE = """
from tidemill.airflow import Launch, tidemill_dags
tidemill_dags(
    "retail.py:p", root="s3://lake", schedule="@daily", launch=Launch(python="/venv/bin/python"), branch="trial", {more}
)
"""


def test_dag_runs_by_hand_and_is_off_on_request(parse: Callable[..., Any]) -> None:
    bag = parse(BARE.replace("{more}", ""))
    dag = bag.dags["retail__correct"]
    assert [task.task_id for task in dag.topological_sort()] == ["preview", "approve", "correct"]
    assert (dag.max_active_runs, dag.timetable.can_be_scheduled) == (4, False)
    for name in ("preview", "correct"):
        task = dag.get_task(name)
        assert (task.python, task.branch, task.root) == ("/venv/bin/python", "trial", "s3://lake")
    assert dag.get_task("approve").response_timeout == timedelta(days=7)
    assert "retail__correct" not in parse(BARE.replace("{more}", "correct=False")).dags
    (error,) = parse(BARE.replace("{more}", "correct='no'")).import_errors.values()
    assert "correct is a str: expected True, False or `Correct(…)`" in error


def test_form_needs_a_correction_and_a_reason(parse: Callable[..., Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    def accepts(**form: Any) -> bool:
        params = parse(BARE.replace("{more}", "")).dags["retail__correct"].params
        try:
            for name, value in form.items():
                params[name] = value
            params.validate()
        except ParamValidationError:
            return False
        return True

    assert accepts(correction="replan", reason="r")
    assert accepts(correction="rewind", reason="r", to_version="tag", without=["a", "b"], carry_out="never")
    wrong: list[dict[str, Any]] = [
        {}, {"correction": "replan"}, {"reason": "r"}, {"correction": "replan", "reason": ""},
        {"correction": "drop", "reason": "r"}, {"correction": "rewind", "reason": "r", "without": "a"},
        {"correction": "replan", "reason": "r", "carry_out": "soon"},
    ]  # fmt: skip
    assert [form for form in wrong if accepts(**form)] == []


def test_each_correction_takes_its_own_fields() -> None:
    for correction, names in FIELDS.items():
        filled = dict.fromkeys(names, "1")
        assert fault_of(correction, filled) is None
        for other in {name for one in FIELDS.values() for name in one} - set(names):
            assert fault_of(correction, {**filled, other: "1"}) is not None
            assert fault_of(correction, {**filled, other: "None"}) is None
    assert fault_of("reset", {"batch_time": "1"}) is None
    assert fault_of("drop", {}) == "unknown correction `drop`: expected one of rewind, skip, replan, reset"


def test_a_name_of_a_file_adds_no_markup_to_the_page() -> None:
    page = correction_markdown("skip", {"head": 2, "changes": ["file `a```\n# big` will not be read"]})
    assert page.count("```") == 2

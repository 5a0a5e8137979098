"""The DAG file that ships, on real flights, with the real command line on real Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.demo import data
from tidemill.errors import InvalidInput
from tidemill.pipeline.load import load

REPOSITORY = Path(__file__).resolve().parents[2]
DAG_FILE = REPOSITORY / "dags" / "flights.py"
REFERENCE = f"{REPOSITORY}/examples/flights.py:p"


@dataclass
class Demo:
    """A demo folder with its flights, and a repository that `init` has made."""

    folder: Path

    @property
    def root(self) -> str:
        return str(self.folder / "repository")

    def add_days(self, days: int) -> None:
        flights = self.folder / "flights"
        data.write_days(flights, data.missing_days(flights, days), lambda: None)

    def lines(self) -> int:
        """How many flights there are, by counting lines."""
        return sum(len(path.read_text().splitlines()) - 1 for path in (self.folder / "flights").glob("*.csv"))

    def open(self) -> tm.Repository:
        return tm.open(load(REFERENCE), self.root)


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Demo:
    demo = Demo(tmp_path / "demo")
    monkeypatch.setenv("TIDEMILL_DEMO", str(demo.folder))
    monkeypatch.delenv("TIDEMILL_ROOT", raising=False)
    monkeypatch.setenv("TIDEMILL_EXAMPLES", str(REPOSITORY / "examples"))
    demo.add_days(9)
    arguments = [sys.executable, "-m", "tidemill", "init", REFERENCE, "--root", demo.root]
    subprocess.run(arguments, check=True, capture_output=True)
    return demo


@pytest.mark.servers("run Airflow tasks")
def test_cadence_drains_real_files_and_resumes_after_a_stop(demo: Demo, parse: Callable[..., Any]) -> None:
    bag = parse(DAG_FILE.read_text(), DAG_FILE.name)
    (first,) = bag.dags["flights"].test().get_task_instances()
    assert first.state == "success"
    result = first.xcom_pull(task_ids="run")
    assert {key: result[key] for key in ("status", "versions", "already_committed", "published", "head")} == {
        "status": "done",
        "versions": [[0, 1]],
        "already_committed": [],
        "published": [[0, 1]],
        "head": 1,
    }
    outputs = {sink: demo.open().outputs(sink=sink).num_rows for sink in result["sinks"]}
    assert outputs == {sink: change["rows"] for sink, change in result["sinks"].items()}
    assert outputs
    (idle,) = bag.dags["flights"].test().get_task_instances()
    assert (idle.state, idle.xcom_pull(task_ids="run")["status"]) == ("success", "nothing")

    demo.add_days(12)
    (second,) = bag.dags["flights"].test().get_task_instances()
    assert (second.state, second.xcom_pull(task_ids="run")["versions"]) == ("success", [[2, 2]])

    repository = demo.open()
    assert sum(repository.state("carriers")["flights"].to_pylist()) == demo.lines()
    runs = [commit.airflow["dag_run_id"] for commit in repository.commits()]
    assert runs == [first.run_id, first.run_id, second.run_id]

    (sweep,) = bag.dags["flights__sweep"].test().get_task_instances()
    assert (sweep.state, sweep.xcom_pull(task_ids="sweep")["status"]) == ("success", "nothing")

    form = {"keep_versions": 1, "dry_run": True}
    trial, verified = bag.dags["flights__maintain"].test(run_conf=form).get_task_instances()
    assert (verified.task_id, verified.state, verified.xcom_pull(task_ids="verify", key="deep")) == (
        "verify", "success", False
    )  # fmt: skip
    assert (trial.state, demo.open().state("carriers", version=0).num_rows > 0) == ("success", True)
    bag = parse(DAG_FILE.read_text(), DAG_FILE.name)  # `test` leaves the values of a form in the DAG
    upkeep, verified = bag.dags["flights__maintain"].test(run_conf={"keep_versions": 1}).get_task_instances()
    assert verified.state == "success"
    assert (upkeep.state, upkeep.xcom_pull(task_ids="maintain")["status"]) == ("success", "done")
    with pytest.raises(InvalidInput, match="version 0"):
        demo.open().state("carriers", version=0)
    next(
        path for path in Path(demo.root).rglob("*") if {"state", "carriers"} <= set(path.parts) and path.is_file()
    ).unlink()
    bag = parse(DAG_FILE.read_text(), DAG_FILE.name)
    upkeep, verified = bag.dags["flights__maintain"].test(run_conf={"dry_run": True}).get_task_instances()
    assert (upkeep.state, verified.state) == ("success", "failed"), "an object is lost"


@pytest.mark.servers("run Airflow tasks")
def test_repository_that_was_never_made_fails_at_once(
    demo: Demo, parse: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEMILL_ROOT", str(demo.folder / "elsewhere"))
    bag = parse(DAG_FILE.read_text(), DAG_FILE.name)
    (task,) = bag.dags["flights"].test().get_task_instances()
    assert (task.state, task.try_number) == ("failed", 1)
    assert "AirflowFailException: InvalidInput: " in capsys.readouterr().out

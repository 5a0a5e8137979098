"""Freshness: what counts as behind, and the task that says so, on a real pipeline."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.airflow.calls.ages import ages_of, exceeded
from tidemill.errors import InvalidInput
from tidemill.pipeline.load import load

PIPELINE = """
from pathlib import Path
import tidemill as tm

p = tm.Pipeline("timed")
rows = p.read(tm.Files(str(Path(__file__).parent / "in"), format="csv", schema="k int, t timestamp"))
rows.withWatermark("t", "1 hour").groupBy("k").agg(n=tm.count(), name="n")
"""
DAG = """
from datetime import timedelta
from tidemill.airflow import Freshness, tidemill_dags
tidemill_dags({reference!r}, root={root!r}, schedule=None, sweep=False, maintain=False, freshness=Freshness({limits}))
"""


@pytest.fixture
def repository(tmp_path: Path) -> tm.Repository:
    """A repository with one version, and one file that has waited for two hours."""
    (tmp_path / "in").mkdir()
    (tmp_path / "timed.py").write_text(PIPELINE)
    repository = tm.open(load(f"{tmp_path / 'timed.py'}:p"), root=str(tmp_path / "root"))
    repository.init()
    (tmp_path / "in" / "a.csv").write_text("1,2026-01-05T10:00:00\n")
    repository.run(engine="local")
    late = tmp_path / "in" / "b.csv"
    late.write_text("2,2026-01-05T10:00:00\n")
    os.utime(late, (time.time() - 7200,) * 2)
    return repository


@pytest.mark.servers("run Airflow tasks")
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (
            "oldest_waiting=timedelta(hours=1)",
            r"`timed` is behind: the oldest waiting file is 2:0\d:\d\d old, allowed are 1:00:00$",
        ),
        (
            "lag=60.0, head_age=timedelta(days=1)",
            r"`timed` is behind: the watermark is \d+ days, [\d:]+ behind now, allowed are 0:01:00$",
        ),
        ("oldest_waiting=timedelta(hours=3), lag=1e10", None),
    ],
)
def test_task_fails_with_one_line_if_the_pipeline_is_behind(
    repository: tm.Repository, parse: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    limits: str, said: str | None,
) -> None:  # fmt: skip
    bag = parse(DAG.format(reference=f"{tmp_path}/timed.py:p", root=str(tmp_path / "root"), limits=limits))
    assert bag.import_errors == {}
    (ti,) = bag.dags["timed__freshness"].test().get_task_instances()
    output = capsys.readouterr().out
    if said is None:
        assert ti.state == "success"
        xcom = ti.xcom_pull(task_ids="freshness")
        assert (xcom["head"], xcom["waiting_files"]) == (0, 1)
        assert 7200 <= xcom["oldest_waiting_s"] < 10_800
    else:
        assert (ti.state, ti.try_number) == ("failed", 1)
        assert re.search("AirflowFailException: " + said, output, re.MULTILINE), output
    head = repository.head
    assert head is not None
    assert head.version == 0


def test_failures_do_not_pause_the_alarm(parse: Callable[..., Any]) -> None:
    bag = parse(DAG.format(reference="a/timed.py:p", root="/root", limits="lag=1"))
    assert bag.dags["timed__freshness"].max_consecutive_failed_dag_runs == 0
    assert bag.dags["timed"].max_consecutive_failed_dag_runs == 10


@pytest.mark.parametrize(("limits", "said"), [({}, "no limit"), ({"lag": 0}, "lag is 0"), ({"lag": "1 h"}, "lag is")])
def test_limits_are_checked(limits: dict[str, Any], said: str) -> None:
    from tidemill.airflow import Freshness

    with pytest.raises(InvalidInput, match=said):
        Freshness(**limits)


def test_ages_that_nothing_has_are_not_exceeded() -> None:
    limits = {"oldest_waiting": 1.0, "lag": 1.0, "head_age": 1.0}
    status = {"oldest_waiting_s": None, "since_commit_s": None, "watermark_lag_s": {}}
    assert exceeded(ages_of(status), limits) == []
    status = {"oldest_waiting_s": 1.0, "since_commit_s": 0.5, "watermark_lag_s": {"a": {"now": 1}, "b": {"now": 1.5}}}
    assert exceeded(ages_of(status), limits) == ["the watermark is 0:00:01 behind now, allowed are 0:00:01"]

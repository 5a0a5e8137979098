"""What a run tells OpenLineage: the datasets and figures of a result, and the events of a real run in Airflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DAG = """
from tidemill.airflow import tidemill_dags
tidemill_dags(
    {pipeline!r}, root={root!r}, schedule=None, engine="local", sweep=False, maintain=False, replay=False, correct=False
)
"""
PIPELINE = """
import tidemill as tm
p = tm.Pipeline("words")
rows = p.read(tm.Files({inbox!r}, format="csv", schema="word string", header=True))
rows.groupBy("word").agg(n=tm.count(), name="totals").write(tm.Parquet({out!r}))
"""
# A process of its own, because Airflow reads the settings of listeners when it is imported.
TEST_RUN = """
import sys
from airflow.dag_processing.dagbag import DagBag
dag = DagBag(dag_folder=sys.argv[1]).dags["words"]
for _ in range(2):
    print("STATE", dag.test().state, flush=True)
"""
XCOM = {
    "pipeline": "words", "repository": "s3://lake/tidemill/words", "branch": "main", "versions": [[3, 9]], "head": 9,
    "rows": 70, "late_rows": 1, "quarantined_rows": 2, "files": 7, "bytes": 900, "watermarks": {},
    "sources": {"orders": "s3a://lake/in/orders/"},
    "sinks": {"totals": {"first_version": 3, "last_version": 9, "rows": 12, "path": "/data/out"}},
}  # fmt: skip


def test_folders_of_sources_and_sinks_are_datasets(airflow_home: object) -> None:
    from tidemill.airflow.tasks.lineage import lineage_of

    found = lineage_of(XCOM)
    (read,), (written,) = found.inputs, found.outputs
    assert (read.namespace, read.name) == ("s3://lake", "in/orders")
    assert (written.namespace, written.name) == ("file", "/data/out")
    counted = read.inputFacets["inputStatistics"]
    assert (counted.rowCount, counted.fileCount, counted.size) == (70, 7, 900)
    assert written.outputFacets["outputStatistics"].rowCount == 12
    facet = found.run_facets["tidemill"]
    assert (facet.versions, facet.head, facet.lateRows, facet.quarantinedRows) == ([[3, 9]], 9, 1, 2)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3a://lake/in/orders/", ("s3://lake", "in/orders")),
        ("s3://lake", ("s3://lake", "/")),
        ("file:///data/out", ("file", "/data/out")),
        ("/data/out/", ("file", "/data/out")),
    ],
)
def test_folders_have_the_names_of_openlineage(airflow_home: object, uri: str, expected: tuple[str, str]) -> None:
    from tidemill.airflow.tasks.lineage import dataset

    assert dataset(uri) == expected


def test_rows_of_several_sources_are_not_counted_by_source(airflow_home: object) -> None:
    from tidemill.airflow.tasks.lineage import lineage_of

    found = lineage_of({**XCOM, "sources": {"a": "s3://lake/a", "b": "s3://lake/b", "table": None}})
    assert [(one.name, one.inputFacets) for one in found.inputs] == [("a", {}), ("b", {})]


def test_a_run_with_nothing_to_do_reads_and_writes_no_dataset(airflow_home: object) -> None:
    from tidemill.airflow.tasks.lineage import lineage_of

    found = lineage_of({**XCOM, "versions": [], "sinks": {}})
    assert (found.inputs, found.outputs) == ([], [])


@pytest.mark.servers("run Airflow with a listener")
def test_a_real_run_emits_its_lineage(tmp_path: Path, airflow_home: Path) -> None:
    inbox, out, log = (tmp_path / name for name in ("inbox", "out", "events.jsonl"))
    inbox.mkdir()
    (inbox / "1.csv").write_text("word\na\nb\na\n")
    pipeline = tmp_path / "words.py"
    pipeline.write_text(PIPELINE.format(inbox=str(inbox), out=str(out)))
    (airflow_home / "dags/words_dag.py").write_text(DAG.format(pipeline=f"{pipeline}:p", root=str(tmp_path / "root")))
    transport = {"type": "file", "log_file_path": str(log), "append": True}
    env = {**os.environ, "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport)}
    subprocess.run(
        [sys.executable, "-m", "tidemill", "init", f"--root={tmp_path / 'root'}", f"{pipeline}:p"], check=True
    )
    done = subprocess.run(
        [sys.executable, "-c", TEST_RUN, str(airflow_home / "dags")], env=env, capture_output=True, text=True
    )
    assert done.stdout.count("STATE success") == 2, done.stdout + done.stderr
    events = [json.loads(line) for line in log.read_text().splitlines()]
    first, second = [one for one in events if one["eventType"] == "COMPLETE" and one["job"]["name"] == "words.run"]
    assert [(one["namespace"], one["name"]) for one in first["inputs"]] == [("file", str(inbox))]
    assert first["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 3
    assert [(one["namespace"], one["name"]) for one in first["outputs"]] == [("file", str(out))]
    assert first["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert lineage(first)["versions"] == [[0, 0]]
    assert (second["inputs"], second["outputs"], lineage(second)["versions"]) == ([], [], [])


def lineage(event: Any) -> Any:
    return event["run"]["facets"]["tidemill"]

"""A Spark cluster whose tasks raise, whose workers and executors die, and which runs slow tasks twice.

State and outputs equal those of the local engine to the last bit, and `maintain` deletes what failed and speculative
attempts stored. See `unreliable_cluster.py`, which runs as a script.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import tidemill as tm
from tests.spark.unreliable_cluster import FIRST_FAULTS, SECOND_FAULTS, TASKS, pipeline
from tidemill.engines import java
from tidemill.protocol.named import named

pytestmark = pytest.mark.servers("start Spark")

SCRIPT = Path(__file__).with_name("unreliable_cluster.py")
BATCHES, FILES_A_BATCH = 4, 3
FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
STORED = ("state", "output", "quarantine")


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """Twelve files, three a batch. A row in the middle file of a batch brings each of its faults."""
    folder, chance = tmp_path / "inbox", random.Random(5)
    folder.mkdir()
    for number in range(BATCHES * FILES_A_BATCH):
        rows = [
            {"user": f"u{chance.randrange(40)}", "n": chance.randrange(9),
             "value": chance.uniform(-1, 1) * 10 ** chance.randint(-9, 9)}
            for _ in range(60)
        ]  # fmt: skip
        batch, place = divmod(number, FILES_A_BATCH)
        if place == 1:
            for row, faults, at in ((20, FIRST_FAULTS, "first"), (40, SECOND_FAULTS, "second")):
                if batch in faults:
                    rows[row] |= {"fault": faults[batch], "place": at}
        (folder / f"{number:04d}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def on_cluster(inbox: Path, root: Path, markers: Path, workers: Path) -> None:
    """Run the script."""
    home = java.home_for_spark(java.find_java(os.environ, pyspark.__version__))
    ran = subprocess.run(
        [sys.executable, SCRIPT, inbox, root, markers, workers],
        env=os.environ | {
            "JAVA_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(Path(tm.__file__).parents[1]),
            "SPARK_LAUNCHER_OPTS": FAST,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": FAST,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


def stored(root: Path) -> set[str]:
    folder = root / "unreliable"
    return {str(file.relative_to(folder)) for of in STORED for file in (folder / of).rglob("*") if file.is_file()}


def test_failed_and_speculative_attempts_leave_the_result_of_the_local_engine(
    inbox: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    markers = tmp_path / "markers"
    markers.mkdir()
    on_cluster(inbox, tmp_path / "cluster", markers, tmp_path / "workers")
    faults = {*FIRST_FAULTS.values(), *SECOND_FAULTS.values()}
    assert {one.name for one in markers.iterdir()} == faults | {f"{fault} again" for fault in faults}

    local = tm.open(pipeline(inbox), root=str(tmp_path / "local"))
    local.init()
    local.run(engine="local", tasks=TASKS)
    cluster = tm.open(pipeline(inbox), root=str(tmp_path / "cluster"))
    assert cluster.head is not None and cluster.head.version == BATCHES - 1
    for ours, theirs in zip(cluster.commits(), local.commits(), strict=True):
        for operator in ("totals", "buckets"):
            assert checksums(ours, operator) == checksums(theirs, operator)
        assert cluster.outputs(ours.version).equals(local.outputs(ours.version))
        assert (ours.counts, ours.rows, ours.watermarks) == (theirs.counts, theirs.rows, theirs.watermarks)

    alive = {one.name for commit in cluster.opened.log.commits() for one in named(commit)}
    orphans = stored(tmp_path / "cluster") - alive
    report = cluster.maintain()
    assert {one.name for one in report.garbage} >= orphans
    assert stored(tmp_path / "cluster") == stored(tmp_path / "cluster") & alive
    assert cluster.verify(deep=True).problems == []
    by_batch = {batch: sum(f"/{batch:010d}-" in name for name in orphans) for batch in range(BATCHES)}
    with capsys.disabled():
        print(f"\norphans of attempts by batch: {by_batch}")
    assert by_batch[2] and by_batch[3], "the slow attempt, and the killed executor's tasks, had stored nothing"


def checksums(commit: object, operator: str) -> list[tuple[str, int, int]]:
    segments = commit.state[operator]  # type: ignore[attr-defined]
    return sorted((one.checksum, one.lo, one.hi) for of_map in segments.values() for one in of_map)

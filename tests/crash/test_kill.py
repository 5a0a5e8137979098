"""`kill -9` of a running drain at ten points, then a rerun: everything equals an undisturbed run's.

The drain is the real command line on real files. A watcher kills it when a file appears that marks a step; what was
hit is read from the folder afterwards and printed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tidemill as tm

BATCHES = 12
PIPELINE = """
import tidemill as tm
from pathlib import Path

def track(batch_time, user, row, state):
    if state.isTimingOut:
        return (user, state.get, True)
    state.update((state.getOption or 0) + row.n)
    return (user, state.get, False)

here = Path(__file__).parent
p = tm.Pipeline("killed")
p.batch_time(lambda plan: 1000 * int(Path(plan.splits[-1].path).stem))
rows = p.read(tm.Files(str(here / "data"), format="json", schema="user string, n int, ts timestamp",
                       maxFilesPerTrigger=1)).withWatermark("ts", "1 second")
rows.groupBy("user").mapWithState(
    tm.StateSpec.function(track).timeout("2 seconds", clock="event"),
    stateSchema="long", outputSchema="user string, n long, closed boolean", name="users",
).write(tm.Parquet(str(here / "published")))
rows.groupBy("n").agg(users=tm.count(), name="by-n").write(tm.Json(str(here / "json")))
"""

MARKS = [  # (what appears, its file) – the drain is killed as soon as it is seen
    ("plan", "branches/main/plans/0000000001.json"),
    ("segment", "state/users/*/main/0000000002-*.parquet"),
    ("output", "output/users/main/0000000003-*"),
    ("ledger", "state/_ledger/files/main/0000000004-*"),
    ("commit", "branches/main/commits/0000000005.json"),
    ("published", "../../published/killed.users-0000000006-*"),
    ("published", "../../json/killed.by-n-0000000007-*"),
    ("plan", "branches/main/plans/0000000008.json"),
    ("segment", "state/by-n/*/main/0000000009-*.parquet"),
    ("commit", "branches/main/commits/0000000010.json"),
]


@pytest.fixture
def project(tmp_path):
    def make(name: str) -> Path:
        folder = tmp_path / name
        (folder / "data").mkdir(parents=True)
        (folder / "pipeline.py").write_text(PIPELINE)
        chance = random.Random(3)
        for number in range(BATCHES):
            lines = [
                f'{{"user": "u{chance.randint(0, 200)}", "n": {i % 7}, "ts": "2024-01-01T00:00:{number:02d}"}}'
                for i in range(800)
            ]
            (folder / "data" / f"{number:04d}.json").write_text("\n".join(lines) + "\n")
        return folder

    return make


def command(folder: Path, verb: str) -> list[str]:
    return [sys.executable, "-m", "tidemill", verb, f"{folder}/pipeline.py:p", "--root", f"{folder}/root",
            *(["--engine", "local", "--tasks", "2"] if verb == "run" else [])]  # fmt: skip


def kill_at(folder: Path, mark: str) -> bool:
    """Starts a drain and kills it when `mark` appears; whether it was still running."""
    place, _, pattern = mark.rpartition("/")
    directory = folder / "root" / "killed" / place
    process = subprocess.Popen(command(folder, "run"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    try:
        while process.poll() is None and time.monotonic() < deadline:
            parents = (
                directory.parent.parent.glob(directory.parent.name + "/" + directory.name)
                if "*" not in place
                else (folder / "root" / "killed").glob(place)
            )
            if any(any(parent.glob(pattern)) for parent in parents):
                os.kill(process.pid, signal.SIGKILL)
                break
        process.wait(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return process.returncode == -signal.SIGKILL


def step(folder: Path) -> str:
    """Where the drain stood when it died, told by what is there."""
    base = folder / "root" / "killed"
    plans = sorted(path.stem for path in (base / "branches/main/plans").glob("*.json"))
    commits = sorted(path.stem for path in (base / "branches/main/commits").glob("*.json"))
    if plans and plans[-1] not in commits:
        newest = plans[-1]
        written = [kind for kind, pattern in [("ledger", f"state/_ledger/*/main/{newest}-*"),
                   ("outputs", f"output/*/main/{newest}-*"), ("segments", f"state/[!_]*/*/main/{newest}-*")]
                   if any(base.glob(pattern))]  # fmt: skip
        return f"batch {int(newest)}: planned, {written[0] if written else 'nothing'} written, not committed"
    newest = commits[-1]
    published = len(list((folder / "published").glob(f"*-{newest}-*"))) + len(
        list((folder / "json").glob(f"*-{newest}-*"))
    )
    return f"batch {int(newest)}: committed, {published} files published"


def is_between(folder: Path) -> bool:
    """Whether the drain died between the first plan and the last publish, told by what is there."""
    planned = any((folder / "root" / "killed" / "branches/main/plans").glob("*.json"))
    return planned and not any((folder / "published").glob(f"*-{BATCHES - 1:010d}-*"))


def named(name: str) -> str:
    """A published name without the repository's uuid."""
    return name.rpartition("-")[0]


def seen(folder: Path) -> dict:
    repository = tm.open(tm.load(f"{folder}/pipeline.py:p"), root=f"{folder}/root")
    return {
        "version": repository.head.version,
        "users": repository.state("users").to_pylist(),
        "by-n": repository.state("by-n").to_pylist(),
        "outputs": repository.outputs(sink="users").to_pylist(),
        "counts": [commit.counts for commit in repository.commits()],
        "parquet": [
            (named(p.name), pq.read_table(p).to_pylist()) for p in sorted((folder / "published").glob("*.parquet"))
        ],
        "json": [(named(p.name), p.read_text()) for p in sorted((folder / "json").glob("*.json"))],
    }


def test_ten_kills_and_reruns_equal_an_undisturbed_run(project):
    calm, killed = project("calm"), project("killed")
    for folder in (calm, killed):
        subprocess.run(command(folder, "init"), check=True, capture_output=True)
    subprocess.run(command(calm, "run"), check=True, capture_output=True)
    between = 0
    for number, (_, mark) in enumerate(MARKS):
        assert kill_at(killed, mark), f"the drain ended before {mark} appeared"
        where = step(killed)
        print(f"kill {number + 1}: {where}")
        between += is_between(killed)
    assert between >= 7
    subprocess.run(command(killed, "run"), check=True, capture_output=True)
    expected, found = seen(calm), seen(killed)
    assert expected["version"] == BATCHES - 1
    for part, value in expected.items():
        assert found[part] == value, part
    assert subprocess.run(command(killed, "run"), capture_output=True).returncode == 3

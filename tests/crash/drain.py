"""Run and kill a drain by the real command line: its project, the kill at a chosen step, and the files it leaves.

A watcher kills it when a file appears that marks a step; the step that was hit is read from the folder afterwards.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tidemill as tm
from tests.crash.processes import Process, family

Project = Callable[[str], Path]

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

ROOT = "root/killed"
ENGINES = {
    "local": ["--engine", "local", "--tasks", "2"],
    "spark": ["--engine", "spark", "--tasks", "2", "--conf", "spark.master=local[2]"],
}
_MOST_SECONDS = 120
_SECONDS_BETWEEN_LOOKS = 0.1


def make_project(folder: Path, batches: int = BATCHES) -> Path:
    """A pipeline and a file for each of its batches; the same in every folder."""
    (folder / "data").mkdir(parents=True)
    (folder / "pipeline.py").write_text(PIPELINE)
    chance = random.Random(3)
    for number in range(batches):
        lines = [
            f'{{"user": "u{chance.randint(0, 200)}", "n": {i % 7}, "ts": "2024-01-01T00:00:{number:02d}"}}'
            for i in range(800)
        ]
        (folder / "data" / f"{number:04d}.json").write_text("\n".join(lines) + "\n")
    return folder


def command(folder: Path, verb: str, engine: str = "local") -> list[str]:
    """The command line of a verb on a project."""
    return [sys.executable, "-m", "tidemill", verb, f"{folder}/pipeline.py:p", "--root", f"{folder}/root",
            *(ENGINES[engine] if verb == "run" else [])]  # fmt: skip


@dataclass(frozen=True)
class Point:
    """A moment to kill a drain: `file` exists below its project, and it has these processes, by name."""

    file: str
    processes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Death:
    """The step that a kill hit."""

    step: str
    is_between: bool
    """Whether it is between the first plan and the last publish."""
    session: int
    processes: set[Process]
    """The processes of the drain just before the kill, itself included."""

    @property
    def names(self) -> Counter[str]:
        """How many processes of each name it had."""
        return Counter(process.name for process in self.processes)


def kill_at(folder: Path, engine: str, point: Point) -> Death:
    """Start a drain and kill only its process at `point`. Fail if the drain ends first or never gets there."""
    log = folder / "drain.log"
    with log.open("wb") as stderr:
        drain = subprocess.Popen(
            command(folder, "run", engine), stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
    try:
        processes = _watched(folder, drain, point)
        drain.kill()
        drain.wait(timeout=60)
    finally:
        if drain.poll() is None:
            drain.kill()
            drain.wait()
    assert drain.returncode == -signal.SIGKILL, f"the drain ended before {point}: {log.read_text()[-3000:]}"
    return Death(step_of(folder), _is_between(folder), drain.pid, processes)


def _watched(folder: Path, drain: subprocess.Popen[bytes], point: Point) -> set[Process]:
    """Wait until the drain reaches `point` or ends. Return the processes that it had shortly before.

    The processes are listed rarely, because a list takes a few ms, as long as the step from commit to publish.
    """
    processes, looked, deadline = family(drain.pid), time.monotonic(), time.monotonic() + _MOST_SECONDS
    while drain.poll() is None:
        now = time.monotonic()
        assert now < deadline, f"after {_MOST_SECONDS} s the drain had not reached {point}"
        if now - looked > _SECONDS_BETWEEN_LOOKS:
            processes, looked = family(drain.pid), now
        if point.processes <= Counter(process.name for process in processes) and any(folder.glob(point.file)):
            break
        time.sleep(0.0002)
    return processes


def step_of(folder: Path) -> str:
    """Return the step at which the drain died, judged by the files that exist."""
    base = folder / ROOT
    plans = sorted(path.stem for path in (base / "branches/main/plans").glob("*.json"))
    commits = sorted(path.stem for path in (base / "branches/main/commits").glob("*.json"))
    if plans and plans[-1] not in commits:
        newest = plans[-1]
        written = [kind for kind, pattern in [("ledger", f"state/_ledger/*/main/{newest}-*"),
                   ("outputs", f"output/*/main/{newest}-*"), ("segments", f"state/[!_]*/*/main/{newest}-*")]
                   if any(base.glob(pattern))]  # fmt: skip
        return f"batch {int(newest)}: planned, {written[0] if written else 'nothing'} written, not committed"
    if not commits:
        return "nothing planned"
    newest = commits[-1]
    published = len(list((folder / "published").glob(f"*-{newest}-*"))) + len(
        list((folder / "json").glob(f"*-{newest}-*"))
    )
    return f"batch {int(newest)}: committed, {published} files published"


def _is_between(folder: Path) -> bool:
    planned = any((folder / ROOT / "branches/main/plans").glob("*.json"))
    return planned and not any((folder / "published").glob(f"*-{BATCHES - 1:010d}-*"))


def seen(folder: Path) -> dict[str, Any]:
    """Everything that a user can see of a project."""
    repository = tm.open(tm.load(f"{folder}/pipeline.py:p"), root=f"{folder}/root")
    head = repository.head
    return {
        "version": None if head is None else head.version,
        "users": repository.state("users").to_pylist(),
        "by-n": repository.state("by-n").to_pylist(),
        "outputs": repository.outputs(sink="users").to_pylist(),
        "counts": [commit.counts for commit in repository.commits()],
        "parquet": [
            (_named(p.name), pq.read_table(p).to_pylist()) for p in sorted((folder / "published").glob("*.parquet"))
        ],
        "json": [(_named(p.name), p.read_text()) for p in sorted((folder / "json").glob("*.json"))],
    }


def _named(name: str) -> str:
    """A published name without the repository's uuid."""
    return name.rsplit("-", 2)[0]

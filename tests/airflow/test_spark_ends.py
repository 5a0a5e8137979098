"""The real command line on Spark, ended in the middle of a user function: driver, JVM, daemon and workers all go."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Alive = Callable[[list[int]], list[int]]
WaitFor = Callable[..., None]

PIPELINE = """
import os, time
from pathlib import Path
import tidemill as tm

FOLDER = Path(__file__).parent

def hold(batchTime, key, value, state):
    (FOLDER / f"worker-{os.getpid()}").touch()
    time.sleep(3600)

p = tm.Pipeline("hold")
rows = p.read(tm.Files(str(FOLDER / "in"), format="csv", header=True, schema="k int, v int"))
rows.groupBy("k").mapWithState(tm.StateSpec.function(hold), name="hold", stateSchema="int", outputSchema="k int")
"""

HOST = """
import signal, sys
from tidemill.airflow.command import Command
from tidemill.airflow.process import Child
child = Child(Command("run", sys.argv[1], sys.argv[2], {"engine": "spark"}), print, print)
signal.signal(signal.SIGTERM, lambda *_: child.end("asked to"))
print(child.run().ended, flush=True)
"""


def children(parent_of_leader: int) -> list[int]:
    """All living processes of the session that the only child of a process leads."""
    found = processes()
    leaders = [pid for pid, (parent, session) in found.items() if parent == parent_of_leader and session == pid]
    return [pid for leader in leaders for pid in in_session(leader)]


def in_session(leader: int) -> list[int]:
    """All living processes of a session."""
    return [pid for pid, (_, session) in processes().items() if session == leader]


def processes() -> dict[int, tuple[int, int]]:
    """Parent and session of every process."""
    found: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found[int(entry.name)] = (int(fields[1]), int(fields[3]))
    return found


@pytest.mark.parametrize("way", ["killed", "cancelled"])
def test_ended_in_a_user_function_leaves_no_process(tmp_path: Path, alive: Alive, wait_for: WaitFor, way: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("k,v\n1,1\n")
    (tmp_path / "hold.py").write_text(PIPELINE)
    reference, root = f"{tmp_path}/hold.py:p", f"{tmp_path}/root"
    subprocess.run([sys.executable, "-m", "tidemill", "init", reference, "--root", root], check=True)
    with subprocess.Popen([sys.executable, "-c", HOST, reference, root], stdout=subprocess.DEVNULL) as host:
        wait_for(lambda: list(tmp_path.glob("worker-*")), "a worker is in the user function", 180)
        everybody = children(host.pid)
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in everybody]
        assert "java" in names
        assert {int(path.name.partition("-")[2]) for path in tmp_path.glob("worker-*")} <= set(everybody)
        assert len(everybody) >= 4
        if way == "killed":
            host.kill()
        else:
            host.terminate()
    wait_for(lambda: alive(everybody) == [], "driver, JVM, daemon and workers are gone")

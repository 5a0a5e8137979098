"""A pipeline whose function never returns, and the processes of a session: for ending what runs on real Spark."""

from __future__ import annotations

from pathlib import Path

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

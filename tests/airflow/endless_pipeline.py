"""A pipeline whose function never returns, for tests that end a run on real Spark."""

from __future__ import annotations

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

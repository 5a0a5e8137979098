"""A process that forks after a run may run again in the child, as pre-forking servers and task runners do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, sys, pathlib
import tidemill as tm

here = pathlib.Path(sys.argv[1])
(here / "in").mkdir()
(here / "in" / "a.csv").write_text("x,1\\n")
p = tm.Pipeline("forks")
rows = p.read(tm.Files(str(here / "in"), format="csv", schema="k string, v int")).sql("SELECT k, v * 2 AS v FROM rows")
rows.groupBy("k").agg(n=tm.sum("v"), name="n").write(tm.Json(str(here / "out")))
r = tm.open(p, root=str(here / "root"))
r.init()
r.run(engine="local")
(here / "in" / "b.csv").write_text("x,1\\n")
child = os.fork()
if child == 0:
    print([batch.version for batch in r.run(engine="local")], r.state("n").column("n").to_pylist(), flush=True)
    if sys.argv[2] == "return":
        sys.exit(0)
    os._exit(0)
status = os.waitpid(child, 0)[1]
print(status, r.state("n").column("n").to_pylist(), flush=True)
"""


@pytest.mark.parametrize("end", ["at once", "return"])
def test_a_forked_child_runs_after_its_parent_ran(tmp_path: Path, end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), end], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.splitlines() == ["[1] [4]", "0 [4]"], done.stdout + done.stderr

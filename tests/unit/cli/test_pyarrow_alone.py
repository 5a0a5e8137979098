"""When a run imports pyarrow without NumPy: only if no code of the user can see the difference."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.cli.pyarrow_alone import only_declares

DECLARES = """
from __future__ import annotations
import os
from pathlib import Path
import tidemill as tm
from tidemill import Pipeline

p = Pipeline("words")
source = tm.Files(os.environ.get("INBOX", str(Path("in"))), format="csv", schema="word string, n int")
p.read(source).groupBy("word").agg(n=tm.sum("n"), name="totals")
"""
NUMPY = """
import tidemill as tm

p = tm.Pipeline("words")
words = p.read(tm.Files("in", format="csv", schema="word string, n int"))


def doubled(rows):
    import numpy as np
    import pyarrow as pa

    n = np.asarray(rows.column("n").to_numpy(zero_copy_only=False)) * 2
    return rows.set_column(1, "n", pa.array(n.astype("int32")))


words.map_batches(doubled, "word string, n int").groupBy("word").agg(n=tm.sum("n"), name="totals")
"""


def test_a_file_that_only_declares_is_recognised(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(DECLARES)
    assert only_declares(str(file))


@pytest.mark.parametrize(
    "line",
    [
        "def f(rows): return rows",
        "async def f(rows): return rows",
        "f = lambda rows: rows",
        "class Sink: pass",
        "import numpy",
        "import numpy.linalg as la",
        "from pandas import DataFrame",
        "import pyarrow as pa",
        "import shop.functions",
        "from . import functions",
        "from .functions import f",
        "import importlib",
        "__import__('numpy')",
        "exec('import numpy')",
        'q = tm.load("shop.py:p")',
        "from tidemill import load",
        "from tidemill import *",
        "import tidemill.testing",
        'print(p.preview(5)["totals"].to_pandas())',
        "words = p.read(source).map_batches(print, 'word string')",
        "word = getattr(tm, 'load')",
        "p = (",
        "p = '\0'",
    ],
)
def test_a_file_with_code_or_with_other_modules_is_not(tmp_path: Path, line: str) -> None:
    file = tmp_path / "job.py"
    file.write_text(f"{DECLARES}\n{line}\n")
    assert not only_declares(str(file))


@pytest.mark.parametrize("place", ["shop.jobs", "missing.py", ""])
def test_a_module_or_a_file_that_is_missing_is_not(place: str) -> None:
    assert not only_declares(place)


def test_a_function_of_the_user_gets_pyarrow_with_numpy(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("a,1\nb,2\na,3\n")
    (tmp_path / "job.py").write_text(NUMPY)
    tidemill = [sys.executable, "-m", "tidemill"]
    for command in (["init"], ["run", "--engine", "local"]):
        call = [*tidemill, *command, "job.py:p", "--root", "lake"]
        done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    call = [*tidemill, "state", "job.py:p", "--root", "lake", "--operator", "totals", "--json"]
    rows = [json.loads(line) for line in subprocess.run(call, cwd=tmp_path, capture_output=True).stdout.splitlines()]
    assert sorted((row["word"], row["n"]) for row in rows if "word" in row) == [("a", 8), ("b", 4)]


def test_numpy_is_importable_again_after_pyarrow_was_imported_without_it(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(DECLARES)
    code = (
        "from tidemill.cli.pyarrow_alone import import_pyarrow; import sys; import_pyarrow('job.py:p', 'local'); "
        "assert 'pyarrow' in sys.modules and 'numpy' not in sys.modules; import numpy; print(numpy.arange(3).sum())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "3\n", done.stderr


def test_a_process_that_goes_on_after_the_command_has_numpy(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("a,1\nb,2\na,3\n")
    (tmp_path / "job.py").write_text(DECLARES)
    code = (
        "from tidemill.cli.main import main\nimport tidemill as tm\n"
        "for command in (['init'], ['run', '--engine', 'local']):\n"
        "    assert main([*command, 'job.py:p', '--root', 'lake']) == 0\n"
        "found = tm.read('lake', 'words').state('totals')\n"
        "print(found.num_rows, found['n'].to_numpy())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1][:2]) == (0, "2 "), done.stderr

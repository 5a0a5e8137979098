"""The repository names no machine or package host, and importing tidemill imports nothing heavy."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, git_files

# Each written so that this file does not match itself.
HOSTS = re.compile(r"py[p]i\.org|python[h]osted|crates\.i[o](?!-index)|--(?:extra-)?index-u[r]l[ =]|--find-l[i]nks[ =]")
PATHS = re.compile(r"(?<![\w.*$}{])/(?:ro[o]t|hom[e]|User[s])/\w")


def offences(pattern: re.Pattern[str], content: str) -> list[str]:
    return [line.strip()[:120] for line in content.splitlines() if pattern.search(line)]


def contents() -> list[tuple[str, str]]:
    """Name and text of every text file of the repository."""
    found = []
    for name in git_files():
        data = (ROOT / name).read_bytes()
        if b"\0" not in data[:8192]:
            found.append((name, data.decode("utf-8", "replace")))
    return found


def test_no_file_names_a_package_index() -> None:
    assert {name: lines for name, content in contents() if (lines := offences(HOSTS, content))} == {}


def test_no_file_names_a_path_of_this_machine() -> None:
    here = [re.escape(str(folder)) for folder in {ROOT, Path.home()} if len(folder.parts) > 2]
    pattern = re.compile("|".join([PATHS.pattern, *here]))
    assert {name: lines for name, content in contents() if (lines := offences(pattern, content))} == {}


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (HOSTS, "source = https://py" + "pi.org/simple"),
        (HOSTS, "--index-" + "url https://mirror.example/simple"),
        (PATHS, "path = '/ho" + "me/ann/checkout'"),
    ],
)
def test_the_checks_above_find_each_offence(pattern: re.Pattern[str], line: str) -> None:
    assert offences(pattern, line) == [line]


def test_pins_name_hashes_for_every_package() -> None:
    for file in sorted(ROOT.joinpath(name) for name in git_files() if re.search(r"requirements.*\.txt$", name)):
        pins = re.split(r"\n(?=[a-z])", file.read_text())
        named = [pin for pin in pins if re.match(r"[a-z0-9._-]+(\[.*\])?==", pin)]
        assert named, file.name
        assert [pin.split("\n")[0] for pin in named if "--hash=sha256:" not in pin] == [], file.name


def test_pyspark_client_is_not_installed() -> None:
    """It overwrites files of pyspark in the same environment."""
    assert "pyspark-client" not in {dist.name.lower().replace("_", "-") for dist in metadata.distributions()}


@pytest.mark.parametrize("module", ["tidemill", "tidemill.airflow.provider", "tidemill.cli.main"])
def test_importing_pulls_in_neither_spark_nor_airflow_nor_pandas(module: str) -> None:
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {"pyspark", "airflow", "pandas"} & set(done.stdout.split())

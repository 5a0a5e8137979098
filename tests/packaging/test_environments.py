"""Wheel and sdist in environments of their own: the demo, and a tiny pipeline on the oldest and the newest Spark."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.conftest import ROOT, Environment, run_checked

pytestmark = pytest.mark.slow

SMOKE = Path(__file__).with_name("smoke.py")
EXPECTED = {
    "batches": 3,
    "state": [["ann", 3, 104], ["bob", 2, 12], ["cat", 2, 220]],
    "each": [
        ["ann", 1, 1, 0], ["ann", 2, 4, 0], ["ann", 3, 104, 2], ["bob", 1, 2, 0], ["bob", 2, 12, 1],
        ["cat", 1, 20, 1], ["cat", 2, 220, 2],
    ],
    "sums": [
        ["ann", 2, 4, 0], ["ann", 3, 104, 2], ["bob", 1, 2, 0], ["bob", 2, 12, 1], ["cat", 1, 20, 1],
        ["cat", 2, 220, 2],
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def from_wheel(uv: str, wheel: Path, empty_environment: Callable[[str], Environment]) -> Environment:
    """The wheel with the extra `demo`, as a user installs it, at the versions of requirements/dev.txt."""
    environment = empty_environment("3.11")
    install(uv, environment, "--constraint", ROOT / "requirements/dev.txt", f"tidemill[demo] @ {wheel.as_uri()}")
    return environment


@pytest.fixture(scope="module")
def from_sdist(uv: str, sdist: Path, empty_environment: Callable[[str], Environment]) -> Environment:
    """The sdist, compiled on the way, with the extra `demo`."""
    environment = empty_environment("3.11")
    install(uv, environment, "--constraint", ROOT / "requirements/dev.txt", f"tidemill[demo] @ {sdist.as_uri()}")
    return environment


@pytest.fixture(scope="module")
def oldest(uv: str, wheel: Path, empty_environment: Callable[[str], Environment]) -> Environment:
    """The wheel on the oldest Spark and the oldest dependencies that pyproject.toml allows."""
    environment = empty_environment("3.11")
    install(uv, environment, "--require-hashes", "--requirement", ROOT / "requirements/oldest.txt")
    install(uv, environment, "--no-deps", wheel)
    return environment


def install(uv: str, environment: Environment, *what: str | Path) -> None:
    run_checked(uv, "pip", "install", "--quiet", "--python", environment.python, *what)


def smoke(environment: Environment, folder: Path, engine: str, **environ: str) -> dict[str, Any]:
    """What smoke.py printed, with the fields that EXPECTED has, and the versions it ran on."""
    script = shutil.copy(SMOKE, folder)
    done = environment.run("python", script, folder / engine, engine, cwd=folder, **environ)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def path_without_java(folder: Path) -> str:
    """A PATH of one folder that links to every command of this machine's, but for java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for command in Path(place).iterdir() if Path(place).is_dir() else ():
            if not command.name.startswith("java") and not (folder / command.name).is_symlink():
                (folder / command.name).symlink_to(command)
    return str(folder)


def test_smoke_pipeline_runs_without_spark(from_wheel: Environment, tmp_path: Path) -> None:
    assert smoke(from_wheel, tmp_path, "local") == EXPECTED


def test_smoke_pipeline_runs_on_the_newest_spark(from_wheel: Environment, tmp_path: Path) -> None:
    found = smoke(from_wheel, tmp_path, "spark")
    assert found.pop("spark").startswith("4.3.")
    assert int(found.pop("java").partition(".")[0]) >= 17
    assert found == EXPECTED


def test_smoke_pipeline_runs_on_the_oldest_spark_and_dependencies(oldest: Environment, tmp_path: Path) -> None:
    """With the Java 17 that comes as a package: so this also shows that a machine needs none."""
    found = smoke(oldest, tmp_path, "spark", PATH=path_without_java(tmp_path / "bin"), JAVA_HOME="")
    assert found.pop("spark").startswith("3.5.")
    assert found.pop("java").startswith("17.")
    assert found == EXPECTED


@pytest.mark.parametrize("environment", ["from_wheel", "from_sdist"])
def test_demo_runs_where_tidemill_was_installed(
    environment: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    installed: Environment = request.getfixturevalue(environment)
    command = ("tidemill", "demo", "--days", "3", "--folder", tmp_path / "demo")
    done = installed.run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "demo").rglob("branches/main/commits/*.json"))) == 1
    assert "The busiest of 1,347 aircraft" in done.stdout
    assert "2,699 rows in 1 batch" in done.stdout


def test_environments_hold_no_pyspark_client(from_wheel: Environment, uv: str) -> None:
    installed = run_checked(uv, "pip", "freeze", "--python", from_wheel.python)
    assert "pyspark==" in installed
    assert "pyspark-client" not in installed

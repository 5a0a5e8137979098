"""A Spark Connect server for tests: the jar of the pyspark wheel, through spark-submit, on 127.0.0.1.

INVARIANT: the server dies with the process that started it, and is stopped by its own pid.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import pyspark

from tidemill.engines.java import find_java, home_for_spark

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_READY_S = 180
_PR_SET_PDEATHSIG = 1


class SparkConnectServer:
    """A running server: `url` for `SparkSession.builder.remote`. Without `settings` it has two cores of its own."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = dict(settings or {})
        self._folder = Path(tempfile.mkdtemp(prefix="tidemill-connect-"))
        self._process, self._port = self._start()

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> SparkConnectServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        """Start on a free port. If another process binds it first, try another port."""
        log = self._folder / "server.log"
        for _ in range(3):
            port = _free_port()
            process = subprocess.Popen(
                _command(port, self._settings),
                env=_environment(),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log.open("wb"),
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,
            )
            if _is_ready(process, port):
                return process, port
        raise RuntimeError(
            f"the Spark Connect server for tests did not start: {log.read_text(errors='replace')[-3000:]}"
        )


def _command(port: int, more: Mapping[str, str]) -> list[str]:
    settings = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.defaultJavaOptions": _JAVA_OPTIONS,
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **more,
    }
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    arguments = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    return [submit, *arguments, "--class", _CLASS, "spark-internal"]


def _environment() -> dict[str, str]:
    java = find_java(os.environ, pyspark.__version__)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return kept | {"JAVA_HOME": str(home_for_spark(java)), "PYSPARK_PYTHON": sys.executable}


def _die_with_parent() -> None:
    """The scripts of spark-submit become the JVM by exec, which keeps this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _is_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + _READY_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.1)
    if process.poll() is None:
        process.kill()
        process.wait()
    return False

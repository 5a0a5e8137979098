"""A Spark Connect server for tests: the jar of the pyspark wheel, through spark-submit, on 127.0.0.1.

INVARIANT: the server dies with the process that started it, and is stopped by its own pid.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType

import pyspark

from tests.servers.children import answers, die_with_parent, end, free_port, is_ready
from tidemill.engines.java import find_java, home_for_spark

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_READY_S = 180


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
        end(self._process, 20)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> SparkConnectServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        """Start on a free port. If another process binds it first, try another port."""
        log = self._folder / "server.log"
        for _ in range(3):
            port = free_port()
            process = subprocess.Popen(
                _command(port, self._settings),
                env=_environment(),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log.open("wb"),
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
            if is_ready(process, partial(answers, port), _READY_S):
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

"""What all tests share: the S3 server, the Spark cluster, and which tests a command leaves out (`later`)."""

from __future__ import annotations

import compileall
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests import later
from tests.airflow import home as airflow_home
from tests.servers.minio import MinioServer
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from tests.servers.spark_cluster import SparkCluster

pytest.register_assert_rewrite(
    "tests.model.at_once", "tests.airflow.facts", "tests.golden.damaging", "tests.unit.upkeep.merged"
)
_workers: list[dict[str, int]] = []
# A busy machine may take any time for an example.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    """Set where Airflow lives, and let this process store bytecode, also where PYTHONDONTWRITEBYTECODE is set.

    Tests start hundreds of processes, which would compile the package again each. The bytecode of what tests write
    themselves is not stored, because they may write a file again within a second.
    """
    airflow_home.begin()
    sys.dont_write_bytecode = False
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(__file__).parents[1] / "pyspark_jobs", quiet=2)


def pytest_unconfigure() -> None:
    airflow_home.end()


def pytest_collection_finish() -> None:
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    later.mark(items)


def pytest_deselected(items: list[pytest.Item]) -> None:
    if items:
        later.count(items[0].config, items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = later.counted(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _workers.append(dict(getattr(node, "workeroutput", {}).get("left_out", {})))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lines = later.summary(config, [counts for counts in _workers if counts])
    if lines:
        terminalreporter.section("tests left out by -m; `make check` and `make check-servers` run them")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A real S3 server on 127.0.0.1. Without its environment it fails and does not skip.

    With `TIDEMILL_S3=minio` it is MinIO; `tests/servers/minio.py` says what that takes.
    """
    with MinioServer() if os.environ.get("TIDEMILL_S3") == "minio" else S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def s3_root(s3_server: S3Server) -> str:
    """A URI on the server with nothing below it; `s3_server.new_root()` makes more."""
    return s3_server.new_root()


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """A standalone Spark cluster of two workers on 127.0.0.1."""
    from tests.servers import spark_cluster  # it imports pyspark, which most tests do not need

    if lacks := spark_cluster.missing():
        pytest.skip(lacks)
    with spark_cluster.SparkCluster() as running:
        yield running

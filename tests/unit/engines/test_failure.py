"""Errors of Spark that name what a cluster lacks. The texts are those of Spark 4.3 on a standalone cluster."""

from __future__ import annotations

import socket

import pytest

import tidemill as tm
from tidemill.engines import masters
from tidemill.engines.failure import failed
from tidemill.engines.masters import check_master

PYTHONS = (
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
    "version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions."
)
NO_PYTHON = 'java.io.IOException: Cannot run program "/env/bin/python": error=2, No such file or directory'
STOPPED = (
    "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PYTHONS, "workers have Python 3.12, the driver has 3.11"),
        ("[PYTHON_VERSION_MISMATCH] other words", "other words"),
        (NO_PYTHON, "a machine that runs tasks cannot start its Python, `/env/bin/python`"),
        (STOPPED, "Spark's context has stopped"),
    ],
)
def test_what_a_cluster_lacks_is_one_line_with_a_hint(text: str, line: str) -> None:
    found = failed(RuntimeError(f"An error occurred\n{text}\n\tat org.apache.spark"), "spark")
    assert type(found) is tm.InvalidInput
    assert found.first_line == f"run a batch on engine `spark`: {line}"
    assert found.hint


@pytest.fixture
def port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_a_master_that_is_away_is_named(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masters, "_PAUSE_S", 0.0)
    url = f"spark://127.0.0.1:{port}"
    with pytest.raises(tm.InvalidInput) as caught:
        check_master(url)
    assert str(caught.value).startswith(f"start Spark: no master answers at `{url}` (127.0.0.1:{port}: ")
    for bad in ("spark://127.0.0.1", "spark://127.0.0.1:x", "spark://"):
        with pytest.raises(tm.InvalidInput, match=f"no master answers at `{bad}`"):
            check_master(bad)


def test_one_master_of_several_suffices_and_other_clusters_are_not_asked(port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:{port},127.0.0.1:{server.getsockname()[1]}")
    for url in ("", "local[2]", "yarn", "k8s://https://127.0.0.1:1"):
        check_master(url)

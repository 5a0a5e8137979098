"""Errors of Spark that name what a cluster lacks. The texts are those of Spark 4.3 on a standalone cluster."""

from __future__ import annotations

import socket

import pytest

import tidemill as tm
from tidemill.engines import masters
from tidemill.engines.failure import failed
from tidemill.engines.masters import check_connect, check_master
from tidemill.engines.session import start

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


MEMORY = {
    "Total size of serialized results of 9 tasks (1.1 GiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)": (
        "the receipts of the tasks are larger than `spark.driver.maxResultSize`",
        "spark.driver.maxResultSize",
    ),
    "java.lang.OutOfMemoryError: Java heap space": (
        "the JVM of an executor or of the driver ran out of memory (OutOfMemoryError)",
        "spark.executor.memory",
    ),
    "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited with code 52": (
        "the JVM of an executor or of the driver ran out of memory (OutOfMemoryError)",
        "spark.executor.memory",
    ),
    "ExecutorLostFailure (executor 2 exited) Reason: Container killed by YARN for exceeding physical memory limits.": (
        "an executor was killed because its container has too little memory",
        "spark.executor.memoryOverhead",
    ),
    "ExecutorLostFailure: The executor with id 3 exited: exit code 137(SIGKILL, possible container OOM). OOMKilled": (
        "an executor was killed because its container has too little memory",
        "spark.executor.memoryOverhead",
    ),
}


@pytest.mark.parametrize("text", MEMORY)
def test_too_little_memory_names_the_setting_to_raise(text: str) -> None:
    found = failed(RuntimeError(f"An error occurred while calling o1.get.\n: Job aborted: {text}\n\tat org"), "spark")
    line, setting = MEMORY[text]
    assert type(found) is tm.InvalidInput
    assert found.first_line == f"run a batch on engine `spark`: {line}"
    assert found.hint is not None
    assert f"raise `{setting}`" in found.hint
    assert "nothing was committed, the next run retries the batch" in found.hint


def test_a_killed_worker_may_have_had_too_little_memory() -> None:
    found = failed(
        RuntimeError("ExecutorLostFailure (executor 1 exited) Reason: Command exited with code 137"), "spark"
    )
    assert type(found) is tm.InternalError
    assert "it was killed, ran out of memory, or crashed" in found.first_line
    assert "raise `spark.executor.memoryOverhead`" in (found.hint or "")


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


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has no proxy, and does not wait between two tries."""
    monkeypatch.setattr(masters, "_PAUSE_S", 0.0)
    for name in ("grpc_proxy", "https_proxy", "http_proxy", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_proxy")
@pytest.mark.parametrize("way", ["conf", "environment"])
def test_a_connect_server_that_is_away_is_named_without_its_token(
    port: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sc://ann@127.0.0.1:{port}/;token=hidden;use_ssl=true"
    if way == "environment":
        monkeypatch.setenv("SPARK_REMOTE", url)
    with pytest.raises(tm.InvalidInput) as caught:
        start({"spark.remote": url} if way == "conf" else {})
    server = f"127.0.0.1:{port}"
    assert str(caught.value).startswith(f"start Spark: no Connect server answers at `sc://{server}` ({server}: ")
    assert "hidden" not in str(caught.value)


@pytest.mark.usefixtures("no_proxy")
@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("sc://spark.example", ("spark.example", 15002)),
        ("sc://spark.example/;user_id=ann", ("spark.example", 15002)),
        ("sc://spark.example:443/;token=a:b", ("spark.example", 443)),
        ("sc://[::1]", ("::1", 15002)),
        ("sc://[::1]:7/", ("::1", 7)),
    ],
)
def test_a_connect_server_is_asked_at_its_host_and_port(
    url: str, asked: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    monkeypatch.setattr(socket, "create_connection", lambda address, _: found.append(address) or socket.socket())
    check_connect(url)
    assert found == [asked]


@pytest.mark.usefixtures("no_proxy")
@pytest.mark.parametrize("bad", ["sc://127.0.0.1:x", "sc://:", "sc://127.0.0.1:99999", "sc://127.0.0.1:1;token=hidden"])
def test_a_malformed_address_of_a_connect_server_is_an_error_without_the_token(bad: str) -> None:
    with pytest.raises(tm.InvalidInput, match=f"no Connect server answers at `{bad.partition(';')[0]}`") as caught:
        check_connect(bad)
    assert "hidden" not in str(caught.value)


@pytest.mark.usefixtures("no_proxy")
def test_a_connect_server_behind_a_proxy_and_other_remotes_are_not_asked(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in ("", "local[2]"):
        check_connect(url)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    check_connect(f"sc://127.0.0.1:{port}")

"""Runs on a standalone Spark cluster and on a Spark Connect server, started by spark-submit and by an operator.

The operator defers while the job runs. State and outputs equal those of the local engine to the last bit.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.model import retail, same_result
from tests.servers import spark_cluster
from tests.servers.s3 import S3Server
from tests.servers.spark_cluster import SparkCluster, Worker
from tests.servers.spark_connect import SparkConnectServer
from tidemill.reading.results import read_result

pytestmark = pytest.mark.servers("run jobs on a Spark cluster", seconds=180)

SOURCE = Path(same_result.__file__).read_text()
CONF = {"tidemill.block_rows": same_result.BLOCK_ROWS}
DAG = """
from tests.airflow.submitting import SubmitOperator
from tidemill.airflow import Launch, Run, tidemill_dags

def submit(job):
    return SubmitOperator(
        task_id="submit", command=job.{command}, environment={{**{environment!r}, **job.environment}},
    )

tidemill_dags(
    {reference!r}, root={root!r}, schedule=None, name="same", sweep=False, maintain=False, replay=False, correct=False,
    run=Run(run_with=submit, max_batches=2), launch=Launch(conf={conf!r}),
    dag_args={{"default_args": {{"retries": 0}}}},
)
"""
WAITING = """
import contextlib, os, time

PLACE = Path({place!r})

def waiting(batch_time, user, row, state):
    wait_for(batch_time)
    return sound(batch_time, user, row, state)

sound, running = running, waiting

GIVE_UP = []

def until(done):
    GIVE_UP[:] = GIVE_UP or [time.monotonic() + 60]  # once in a task, not for each row
    while not done() and time.monotonic() < GIVE_UP[0]:
        time.sleep(0.02)
"""
FOR_A_LOSS = """
def wait_for(batch_time):
    if batch_time <= START_US // 1000 + 1_200_000 or (PLACE / "lost").exists():
        return
    mine = PLACE / f"at-{os.getpid()}"
    mine.write_text(os.getcwd())
    with contextlib.suppress(FileExistsError):
        os.link(mine, PLACE / "at")
    until((PLACE / "lost").exists)
"""
"""A task of the second batch says in which folder it runs, and waits until its worker is lost."""
FOR_TWO = """
def wait_for(batch_time):
    (PLACE / "drivers").mkdir(exist_ok=True)
    (PLACE / "drivers" / str(os.getppid())).touch()
    until(lambda: len(os.listdir(PLACE / "drivers")) > 1)
"""
"""A task waits until an executor of another driver is in the same batch. Its parent is the daemon of its executor."""


def shared(place: Path) -> dict[str, str]:
    """Return the setting that says that the workers see a folder, as they do here."""
    return {"tidemill.shared_folders": str(place)}


def write_pipeline(place: Path, wait_for: str = "") -> str:
    """Write data and a pipeline file into a folder of their own, and return the reference.

    `wait_for` is the body of a function that is called with each row.
    """
    (place / "data").mkdir(parents=True)
    same_result.make_files(place / "data")
    waiting = WAITING.format(place=str(place)) + wait_for if wait_for else ""
    (place / "same.py").write_text(f"{SOURCE}{waiting}\np = pipeline(Path({str(place / 'data')!r}))\n")
    return f"{place / 'same.py'}:p"


def loaded(reference: str, root: Path | str, storage_options: dict[str, dict[str, str]] | None = None) -> tm.Repository:
    """Open a repository with the code of a file, which is loaded afresh."""
    file, _, name = reference.rpartition(":")
    spec = importlib.util.spec_from_file_location(f"loaded_{abs(hash(file))}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return tm.open(getattr(module, name), str(root), conf=CONF, storage_options=storage_options)


def results(repository: tm.Repository) -> dict[str, pa.Table]:
    found = {f"state {name}": repository.state(name) for name in repository.opened.job.operators}
    return found | {f"outputs {name}": repository.outputs(sink=name) for name in repository.opened.job.outputs}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """The result of the local engine."""
    place = tmp_path_factory.mktemp("local")
    repository = loaded(write_pipeline(place), place / "root")
    repository.init()
    repository.run(engine="local")
    return results(repository)


def run_dag(
    parse: Callable[..., Any],
    place: Path,
    reference: str,
    command: str,
    environment: dict[str, str],
    conf: dict[str, Any],
) -> dict[str, Any]:
    """Run the DAG once, and return the task instances by task."""
    conf = {**CONF, **shared(place), **conf}
    text = DAG.format(
        command=command, environment=environment, reference=reference, root=str(place / "root"), conf=conf
    )
    bag = parse(text)
    assert bag.import_errors == {}
    return {ti.task_id: ti for ti in bag.dags["same"].test().get_task_instances()}


def check_pair(tasks: dict[str, Any], repository: tm.Repository, versions: list[int], printed: str) -> None:
    """Check that the job was deferred, that the outcome is the run's, and that the commits name the job's task."""
    assert {name: str(ti.state) for name, ti in tasks.items()} == {"submit": "success", "run": "success"}, printed
    assert "DEFERRED until the status 0" in printed
    xcom = tasks["run"].xcom_pull(task_ids="run")
    assert (xcom["status"], xcom["versions"]) == ("done", [[versions[0], versions[-1]]])
    assert xcom["sinks"]["three"]["last_version"] == versions[-1]
    named = {**repository.commit(versions[0]).airflow}
    assert (named["dag_id"], named["task_id"], named["try_number"]) == ("same", "submit", "1")
    assert named["dag_run_id"] == tasks["run"].run_id


def test_pair_runs_on_a_cluster_by_spark_submit_and_survives_a_lost_worker(
    cluster: SparkCluster, local: dict[str, pa.Table], parse: Callable[..., Any], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    reference = write_pipeline(tmp_path, FOR_A_LOSS)
    loaded(reference, tmp_path / "root").init()
    command = f"submit_command(program={spark_cluster.SUBMIT!r})"
    environment = without_airflow(cluster.driver_environment)
    repository = loaded(reference, tmp_path / "root")
    with lost_worker(cluster, tmp_path) as lost:
        first = run_dag(parse, tmp_path, reference, command, environment, cluster.conf)
    assert lost, "a worker was killed in the middle of the second batch"
    check_pair(first, repository, [0, 1], capsys.readouterr().out)
    repository.run(engine="local")
    same_result.same(results(repository), local)


@contextmanager
def lost_worker(cluster: SparkCluster, place: Path) -> Iterator[list[Worker]]:
    """Kill the worker, with its executor, on which the first task waits `FOR_A_LOSS`. Start another one at the end."""
    is_over, lost = threading.Event(), list[Worker]()

    def kill() -> None:
        while not (place / "at").exists():
            if is_over.wait(0.02):
                return
        folder = Path((place / "at").read_text())
        (number,) = [n for n, worker in enumerate(cluster.workers) if worker.folder in folder.parents]
        lost.append(cluster.workers[number])
        cluster.kill_worker(number)
        (place / "lost").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield lost
    finally:
        is_over.set()
        killer.join()
        for worker in lost:
            cluster.workers.remove(worker)
            cluster.add_worker()
        cluster.wait_for_workers(2)


def test_two_drivers_at_once_on_a_store_make_the_bits_of_one(
    cluster: SparkCluster, local: dict[str, pa.Table], tmp_path: Path, s3_server: S3Server
) -> None:
    """Root and results are on S3. The keys are in the environment of spark-submit, and travel with the tasks."""
    reference, root, options = write_pipeline(tmp_path, FOR_TWO), s3_server.new_root(), {"root": s3_server.options}
    loaded(reference, root, options).init()
    conf = {**CONF, **cluster.conf, **shared(tmp_path), "spark.cores.max": "1"}
    drivers = {}
    for name in ("one", "two"):
        result = f"{root}/_results/{name}.json"
        job = tm.submit_args(reference, root, conf=conf, result=result, storage_options=options)
        command = job.submit_command(program=spark_cluster.SUBMIT)
        assert not any(s3_server.options["aws_secret_access_key"] == part.rpartition("=")[2] for part in command)
        environment = {**cluster.driver_environment, **job.environment}
        with (tmp_path / f"{name}.log").open("wb") as log:
            drivers[name] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        statuses = {name: driver.wait(150) for name, driver in drivers.items()}
    finally:
        for driver in drivers.values():
            driver.kill()
    ended = {name: read_result(f"{root}/_results/{name}.json", s3_server.options) or {} for name in drivers}
    for name, end in ended.items():
        logged = (tmp_path / f"{name}.log").read_text(errors="replace")[-3000:]
        assert (statuses[name], end.get("event")) == (0, "result") or end.get("kind") == "Fenced", logged
    assert len(list((tmp_path / "drivers").iterdir())) == 2, "both were in the first batch at once"
    own = sorted(version for end in ended.values() for version in end["versions"])
    repository = loaded(reference, root, options)
    assert own == [one.version for one in repository.commits()]
    repository.run(engine="local")
    same_result.same(results(repository), local)


def test_pair_runs_on_a_connect_server_of_the_cluster(
    local: dict[str, pa.Table], parse: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    cluster: SparkCluster,
) -> None:  # fmt: skip
    reference = write_pipeline(tmp_path)
    loaded(reference, tmp_path / "root").init()
    with SparkConnectServer(cluster.conf) as server:
        environment = without_airflow(cluster.driver_environment)
        command, conf = f"python_command({sys.executable!r})", {"spark.remote": server.url}
        tasks = run_dag(parse, tmp_path, reference, command, environment, conf)
        assert cluster.executors(0) and cluster.executors(1), "the server's executors are those of the cluster"
    repository = loaded(reference, tmp_path / "root")
    check_pair(tasks, repository, [0, 1], capsys.readouterr().out)
    assert [one.engine["name"] for one in repository.commits()] == ["connect", "connect"]
    repository.run(engine="local")
    same_result.same(results(repository), local)


DAYS = 10
DRIVER = {"spark.driver.memory": "512m", "spark.pyspark.python": sys.executable}


@pytest.mark.skipif(not retail.REAL.is_dir(), reason=f"needs the retail data in {retail.REAL}")
def test_driver_on_a_worker_of_the_cluster_makes_the_same_bits_of_real_data(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    """A standalone cluster refuses Python with `--deploy-mode cluster`, so the class is Spark's own PythonRunner."""
    (tmp_path / "days").mkdir()
    for day in sorted(retail.REAL.glob("*.csv"))[:DAYS]:
        (tmp_path / "days" / day.name).symlink_to(day)
    source = Path(retail.__file__).read_text().replace("Path(__file__).resolve().parents[3]", "Path()")
    (tmp_path / "sales.py").write_text(f"{source}\np = pipeline(Path({str(tmp_path / 'days')!r}), timeout=True)\n")
    reference, result = f"{tmp_path / 'sales.py'}:p", tmp_path / "results/1.json"
    loaded(reference, tmp_path / "root").init()
    ids = {"AIRFLOW_CTX_DAG_ID": "retail", "AIRFLOW_CTX_TASK_ID": "submit", "AIRFLOW_CTX_TRY_NUMBER": "1"}
    job = tm.submit_args(
        reference, tmp_path / "root", conf={**cluster.conf, **CONF, **DRIVER, **shared(tmp_path)}, env=ids,
        result=result.as_uri(), tasks=2,
    ).environment_in_arguments()  # fmt: skip
    jar = next((spark_cluster.HOME / "jars").glob("jsr305-*.jar"))
    runner = ("--deploy-mode", "cluster", "--class", "org.apache.spark.deploy.PythonRunner",
              "--conf", "spark.standalone.submit.waitAppCompletion=true")  # fmt: skip
    command = job.submit_command(*runner, program=spark_cluster.SUBMIT)
    at = command.index(job.application)
    command[at : at + 1] = [jar.as_uri(), job.application, str(Path(tm.__file__).parents[1])]
    ran = subprocess.run(
        command, env=cluster.driver_environment, capture_output=True, text=True, timeout=150, check=False
    )
    assert result.exists(), ran.stderr[-3000:] + cluster.said()
    repository = loaded(reference, tmp_path / "root")
    assert [one.version for one in repository.commits()] == list(range(DAYS))
    assert repository.commit(0).airflow == {"dag_id": "retail", "task_id": "submit", "try_number": "1"}
    other = loaded(reference, tmp_path / "local")
    other.init()
    other.run(engine="local")
    same_result.same(results(repository), results(other))


def without_airflow(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment without Airflow's variables, as that of a driver elsewhere."""
    return {name: value for name, value in environment.items() if not name.startswith("AIRFLOW")}

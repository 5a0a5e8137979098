"""A standalone Spark cluster: the same bits as the local engine, and what is refused before a plan is written.

Two drivers at once, a lost worker, spark-submit and cluster mode are in `tests/airflow/test_remote_spark.py`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
import venv
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

import tidemill as tm
from tests.interpreters import interpreter
from tests.model import retail, same_result
from tests.model.real_days import real_days
from tests.servers.s3 import S3Server
from tests.servers.spark_cluster import SparkCluster
from tidemill.engines.worker import MANIFEST, built_for

pytestmark = pytest.mark.servers("start Spark", seconds=280)

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("on_a_cluster.py")
SECTIONS = ("root", "source", "sink")
DAYS, FILES_A_BATCH = 60, 24
TWICE = """
import sys
from tidemill.cli.main import main
verbs = sys.argv[1 :sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:]
sys.exit(sum(10**place * main(list(words)) for place, words in enumerate(verbs)))
"""
"""Two command lines in one process with one Spark context. The second exit status counts ten times."""


def tidemill(
    cluster: SparkCluster, *words: str, conf: dict[str, str] | None = None, code: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process, or `code` with its arguments. Settings are those of the cluster and `conf`."""
    environment = cluster.driver_environment | more | {"TIDEMILL_CONF": json.dumps({**cluster.conf, **(conf or {})})}
    command = [sys.executable, *(["-c", code] if code else ["-m", "tidemill"]), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)


def results(repository: tm.Repository) -> dict[str, pa.Table]:
    found = {f"state {name}": repository.state(name) for name in repository.opened.job.operators}
    return found | {f"outputs {name}": repository.outputs(sink=name) for name in repository.opened.job.outputs}


def plans(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if "plans" in path.parts and path.is_file()]


def shared(folder: Path) -> dict[str, str]:
    return {"tidemill.shared_folders": str(folder)}


def upload(folder: Path, to: str, options: dict[str, str]) -> None:
    bucket, _, prefix = to.removeprefix("s3://").partition("/")
    client = boto3.client("s3", **options)
    for file in sorted(folder.glob("*.csv")):
        client.put_object(Bucket=bucket, Key=f"{prefix}/{file.name}", Body=file.read_bytes())


def test_days_of_retail_on_s3_have_the_bits_of_the_local_engine(
    cluster: SparkCluster, tmp_path: Path, s3_server: S3Server
) -> None:
    has_real = retail.REAL.is_dir()
    folder = real_days(tmp_path / "days", DAYS) if has_real else retail.make_small(tmp_path)
    root, options = s3_server.new_root(), dict.fromkeys(SECTIONS, s3_server.options)
    upload(folder, f"{root}/in", s3_server.options)
    source = Path(retail.__file__).read_text().replace("Path(__file__).resolve().parents[3]", "Path()")
    made = f"pipeline({f'{root}/in'!r}, True, {FILES_A_BATCH}, {f'{root}/out'!r})"
    (tmp_path / "sales.py").write_text(f"{source}\np = {made}\n")
    secrets = {"TIDEMILL_STORAGE_OPTIONS": json.dumps(options)}
    for words in (["init"], ["run", "--engine", "spark"]):
        ran = tidemill(cluster, *words, f"{tmp_path / 'sales.py'}:p", "--root", f"{root}/root", **secrets)
        assert ran.returncode == 0, ran.stderr[-3000:]
    found = {}
    for name, files in (("root", f"{root}/root"), ("local", str(tmp_path / "local"))):
        p = retail.pipeline(
            f"{root}/in", True, FILES_A_BATCH, f"{root}/out" if name == "root" else str(tmp_path / "out")
        )
        repository = tm.open(
            p, root=files, storage_options=options if name == "root" else {"source": options["source"]}
        )
        if name == "local":
            repository.init()
            repository.run(engine="local")
        found[name] = results(repository)
    same_result.same(found["root"], found["local"])


@pytest.fixture(scope="module")
def driver(
    cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server
) -> tuple[Path, dict[str, Any]]:
    """A folder, and what on_a_cluster.py, which runs as a script, printed of it."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "in").mkdir()
    for number in range(2):
        lines = "".join(f"u{row % 3},{0.1 * row + number}\n" for row in range(9))
        (folder / f"in/{number}.csv").write_text(f"user,value\n{lines}")
    endpoint = {name: s3_server.options[name] for name in ("endpoint_url", "region_name")}
    keys = {name: value for name, value in s3_server.environment.items() if "KEY" in name}
    ran = subprocess.run(
        [sys.executable, SCRIPT, folder, json.dumps(cluster.conf), s3_server.new_root(), json.dumps(endpoint)],
        env=cluster.driver_environment | keys, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return folder, json.loads(ran.stdout)


@pytest.mark.parametrize("way", ["script", "cell", "file"])
def test_a_pipeline_that_only_the_driver_has_runs_on_a_shared_folder(
    driver: tuple[Path, dict[str, Any]], way: str
) -> None:
    found = driver[1][way]
    assert len(found["spark"]) == 3
    assert found["spark"] == found["local"]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("root", "InvalidInput: the root `file://{folder}/here` is a folder of this machine, and the tasks run on"),
        ("source", "InvalidInput: the source `source` `file://{folder}/in` is a folder of this machine"),
        ("module", "cannot import `a_module`: No module named 'a_module'"),
        ("package", "cannot import `a_package`\nhint: ship the driver's environment to them (`spark.archives`)"),
        (
            "keys",
            "no usable AWS credentials (NoCredentialsError)\nhint: give the workers the credentials, the endpoint",
        ),
    ],
)
def test_what_workers_cannot_reach_or_import_is_refused_before_a_plan(
    driver: tuple[Path, dict[str, Any]], what: str, expected: str
) -> None:
    folder, found = driver
    status, said, has_plan = found[what]
    assert (status, has_plan) == (1, False), said
    assert expected.format(folder=folder) in said
    assert said.count("InvalidInput: ") == 1


def test_warm_says_what_workers_have(driver: tuple[Path, dict[str, Any]]) -> None:
    status, said = driver[1]["warm"]
    assert status == 0, said
    assert "first job" in said and f"(Python {sys.version.split()[0]}, tidemill {tm.__version__})" in said
    assert "classes" not in said, "the driver of a cluster does not use the archive"


def test_warm_asks_workers_for_what_a_pipeline_imports(driver: tuple[Path, dict[str, Any]]) -> None:
    status, said, _ = driver[1]["warm a package"]
    assert status == 1
    (line,) = [line for line in said.splitlines() if "PROBLEM" in line]
    assert line.startswith("first job") and line.endswith(" cannot import `a_package`")


def shop(folder: Path) -> str:
    """Make data, a pipeline file and its repository, and return the reference."""
    (folder / "data").mkdir()
    same_result.make_files(folder / "data", files=2, rows=20)
    source = Path(same_result.__file__).read_text()
    (folder / "same.py").write_text(f"{source}\np = pipeline(Path({str(folder / 'data')!r}))\n")
    tm.open(same_result.pipeline(folder / "data"), root=str(folder / "root")).init()
    return f"{folder / 'same.py'}:p"


def test_a_python_without_packages_is_named_by_warm_and_before_a_plan(cluster: SparkCluster, tmp_path: Path) -> None:
    """Workers on this machine find the driver's Tidemill by its path, but nothing that it needs."""
    venv.create(tmp_path / "bare", with_pip=False)
    python = str(tmp_path / "bare/bin/python")
    conf = {"spark.pyspark.python": python, "spark.cores.max": "1", **shared(tmp_path)}
    run = ("run", shop(tmp_path), "--root", str(tmp_path / "root"), "--engine", "spark")
    ran = tidemill(cluster, "warm", "--engine", "spark", "--json", "--", *run, conf=conf, code=TWICE)
    assert ran.returncode == 11, ran.stderr[-3000:]
    lacks = f"with `{python}` cannot import `pyarrow`, `duckdb`, `boto3`"
    warm, _ = json.JSONDecoder().raw_decode(ran.stdout)
    problems = {one["name"]: one["problem"] for one in warm["steps"] if one["problem"]}
    assert list(problems) == ["first job"]
    assert lacks in problems["first job"]
    assert lacks in ran.stderr and "hint: ship the driver's environment to them" in ran.stderr
    assert plans(tmp_path / "root") == []


PACKED = """
from pathlib import Path
import packed_same
import tidemill

def noting(batch_time, user, row, state):
    Path({noted!r}).write_text(f"{{tidemill.__file__}}\\n{{packed_same.__file__}}\\n{{__file__}}")
    return sound(batch_time, user, row, state)

sound, packed_same.running = packed_same.running, noting
p = packed_same.pipeline(Path({data!r}))
"""
"""A module with the pipeline of another module, and with a function that says from where its worker imports."""
FAR_AWAY = """
import sys
from tidemill.cli.main import main
from tidemill.engines import shipping
from tidemill.pipeline import load
load.search_paths = tuple
shipping.__file__ = "/elsewhere/tidemill/engines/shipping.py"
sys.exit(main(sys.argv[1:]))
"""
"""A command line that gives workers no path of the driver's modules, as if they ran on another machine."""


def test_a_python_without_packages_works_with_a_packed_archive(cluster: SparkCluster, tmp_path: Path) -> None:
    """Workers import everything from the archive: Tidemill, what it needs, and the modules of the pipeline."""
    venv.create(tmp_path / "bare", with_pip=False)
    shop(tmp_path)
    modules, noted, target = tmp_path / "modules", tmp_path / "noted", tmp_path / "env.tar.gz"
    modules.mkdir()
    (modules / "packed_same.py").write_text(Path(same_result.__file__).read_text())
    code = PACKED.format(noted=str(noted), data=str(tmp_path / "data"))
    (modules / "packed_shop.py").write_text(code)
    path = os.pathsep.join([str(modules), cluster.driver_environment["PYTHONPATH"]])
    words = ("--module", "packed_same", "--module", "packed_shop", "--json")
    packed = tidemill(cluster, "pack", "-o", str(target), *words, PYTHONPATH=path)
    assert packed.returncode == 0, packed.stderr
    conf = {
        "spark.pyspark.python": str(tmp_path / "bare/bin/python"), "spark.cores.max": "1", **shared(tmp_path),
        **json.loads(packed.stdout)["settings"],
    }  # fmt: skip
    run = ("run", "packed_shop:p", "--root", str(tmp_path / "root"), "--engine", "spark")
    ran = tidemill(cluster, *run, conf=conf, code=FAR_AWAY, PYTHONPATH=path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    origins = noted.read_text().split()
    assert ["/tidemill-env/" in origin for origin in origins] == [True] * 3, origins
    repository = tm.open(same_result.pipeline(tmp_path / "data"), root=str(tmp_path / "root"))
    (tmp_path / "local").mkdir()
    shop(tmp_path / "local")
    other = tm.open(same_result.pipeline(tmp_path / "local/data"), root=str(tmp_path / "local/root"))
    other.run(engine="local")
    same_result.same(results(repository), results(other))


def test_an_archive_for_another_machine_is_named_before_a_plan(cluster: SparkCluster, tmp_path: Path) -> None:
    manifest = json.dumps({"packages": {}, "modules": [], **built_for(), "machine": "linux-sparc64"}).encode()
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo(MANIFEST)
        entry.size = len(manifest)
        archive.addfile(entry, io.BytesIO(manifest))
    conf = {
        "spark.archives": f"{tmp_path / 'env.tar.gz'}#tidemill-env",
        "spark.executorEnv.PYTHONPATH": "tidemill-env",
        "spark.cores.max": "1",
        **shared(tmp_path),
    }
    ran = tidemill(cluster, "run", shop(tmp_path), "--root", str(tmp_path / "root"), "--engine", "spark", conf=conf)
    assert ran.returncode == 1
    ours = " on ".join((f"Python {built_for()['python']}", "linux-sparc64"))
    assert f"was given an archive of `tidemill pack` for {ours}, and is Python" in ran.stderr, ran.stderr[-3000:]
    assert plans(tmp_path / "root") == []


def other_python() -> str | None:
    """Return a Python of another version, or None."""
    ours = f"3.{sys.version_info.minor}"
    return next((found for one in ("3.12", "3.13", "3.11") if one != ours and (found := interpreter(one))), None)


def test_another_version_of_python_is_named_before_a_plan(cluster: SparkCluster, tmp_path: Path) -> None:
    python = other_python()
    if python is None:
        pytest.skip("needs a second version of Python, such as python3.12")
    conf = {"spark.pyspark.python": python, "spark.cores.max": "1", **shared(tmp_path)}
    ran = tidemill(cluster, "run", shop(tmp_path), "--root", str(tmp_path / "root"), "--engine", "spark", conf=conf)
    assert ran.returncode == 1
    theirs, ours = subprocess.check_output([python, "-V"], text=True).split()[1], sys.version_info
    expected = f"workers have Python {theirs.rpartition('.')[0]}, the driver has {ours[0]}.{ours[1]}"
    assert f"InvalidInput: run a batch on engine `spark`: {expected}\nhint: set `spark.pyspark.python`" in ran.stderr
    assert plans(tmp_path / "root") == []


def test_a_cluster_that_is_away_is_an_error_within_seconds(cluster: SparkCluster, tmp_path: Path) -> None:
    ran = tidemill(
        cluster, "run", shop(tmp_path), "--root", str(tmp_path / "root"), "--engine", "spark",
        conf={"spark.master": "spark://127.0.0.1:9", **shared(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stderr.startswith("InvalidInput: start Spark: no master answers at `spark://127.0.0.1:9` (127.0.0.1:9: ")
    assert plans(tmp_path / "root") == []


def test_a_cluster_that_grants_no_executor_is_reported_and_then_an_error(cluster: SparkCluster, tmp_path: Path) -> None:
    """No worker has so much memory. The master accepts the application all the same."""
    conf = {"spark.executor.memory": "64g", "tidemill.executor_wait": "7 seconds", **shared(tmp_path)}
    ran = tidemill(cluster, "run", shop(tmp_path), "--root", str(tmp_path / "root"), "--engine", "spark", conf=conf)
    assert ran.returncode == 1, ran.stderr[-3000:]
    assert f"warning: waiting for executors: the cluster at `{cluster.url}` has granted none for " in ran.stderr
    where = f"the cluster at `{cluster.url}` has granted no executor for "
    assert f"StoreUnavailable: run a batch on engine `spark`: {where}" in ran.stderr
    assert "\nhint: look at the cluster's page: start workers, or free cores" in ran.stderr
    assert plans(tmp_path / "root") == []


FAULTY = """
def faulty(batch_time, user, row, state):
    marker = Path({folder!r}, "raised")
    if not state.isTimingOut and not marker.exists():
        marker.touch()
        raise ConnectionError("once")
    return sound(batch_time, user, row, state)

sound, running = running, faulty
p = pipeline(Path({folder!r}, "data"))
"""


def test_a_lost_executor_speculation_and_a_function_that_raises_once_change_no_bit(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    same_result.make_files(tmp_path / "data")
    source = Path(same_result.__file__).read_text()
    (tmp_path / "faulty.py").write_text(source + FAULTY.format(folder=str(tmp_path)))
    conf = {"tidemill.block_rows": str(same_result.BLOCK_ROWS)}
    repository = tm.open(same_result.pipeline(tmp_path / "data"), root=str(tmp_path / "root"), conf=conf)
    repository.init()
    hurried = {
        "spark.speculation": "true", "spark.speculation.interval": "20ms", "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.1", "spark.speculation.minTaskRuntime": "50ms",
    }  # fmt: skip
    killed: list[int] = []

    def kill() -> None:
        while repository.head is None and time.monotonic() < end:
            time.sleep(0.02)
        for pid in cluster.executors(0):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    end = time.monotonic() + 120
    killer = threading.Thread(target=kill)
    killer.start()
    run = ("run", f"{tmp_path / 'faulty.py'}:p", "--root", str(tmp_path / "root"), "--engine", "spark")
    ran = tidemill(cluster, *run, "--", *run, conf={**conf, **hurried, **shared(tmp_path)}, code=TWICE)
    end = 0
    killer.join()
    assert ran.returncode == 1, ran.stderr[-3000:]  # the first run fails, the second one resumes its plan
    assert ran.stderr.count("InvalidInput: function `faulty` of operator `running` raised `ConnectionError: once`") == 1
    assert killed and "Lost executor" in ran.stderr
    local = tm.open(same_result.pipeline(tmp_path / "data"), root=str(tmp_path / "local"), conf=conf)
    local.init()
    local.run(engine="local", adopt_sink=True)
    same_result.same(results(repository), results(local))
    assert repository.verify(deep=True).problems == []

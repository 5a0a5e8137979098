"""Tidemill gives, micro-batch by micro-batch, what real Structured Streaming gives for the same rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.oracle import groups, track
from tests.oracle.case import declared, difference, ours
from tests.oracle.cases import CASES
from tests.oracle.make import OUTPUTS, recorded


@pytest.mark.parametrize(
    "tasks", [1, pytest.param(3, marks=pytest.mark.slow("replay Spark's outputs with three tasks"))]
)
@pytest.mark.parametrize("name", CASES)
def test_outputs_are_sparks_batch_by_batch(name: str, tasks: int) -> None:
    expected = recorded(name)
    found = ours(CASES[name], tasks)
    assert declared(CASES[name]) == expected.columns
    assert found.columns == expected.columns
    assert len(found.batches) == len(expected.batches)
    for number, (spark, tidemill) in enumerate(zip(expected.batches, found.batches, strict=True)):
        assert tidemill == spark, f"micro-batch {number}\n{difference(spark, tidemill)}"


def test_every_file_belongs_to_a_case_and_each_case_has_outputs() -> None:
    assert {file.stem for file in OUTPUTS.glob("*.json")} == set(CASES)
    assert all(any(recorded(name).batches) for name in CASES)


def test_without_a_java_compiler_the_error_names_the_package_to_install(monkeypatch: Any, tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(home))
    session = SimpleNamespace(conf={"spark.driver.extraClassPath": str(tmp_path)})
    with pytest.raises(RuntimeError, match=r"Groups\.java: there is no `javac`.*apt-get install openjdk-17-jdk"):
        groups.compiled(session)
    with pytest.raises(RuntimeError, match="apt-get install openjdk-17-jdk"):
        groups.compiled(session, track.SOURCE)
    (home / "bin" / "javac").touch(0o755)
    assert groups.compiler() == str(home / "bin" / "javac")

"""The benchmarks on clusters compare what they compute with the rows that they write; their parts still work."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(params=["memory", "scaling"])
def benchmark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    pytest.importorskip("pyspark", reason="install pyspark: pip install 'tidemill[spark]'")
    return importlib.import_module(request.param)


@pytest.mark.parametrize("benchmark", ["memory"], indirect=True)
def test_the_sum_and_the_keys_of_a_batch_are_those_of_its_files(benchmark: ModuleType, tmp_path: Path) -> None:
    keys = {}
    for number, kind in enumerate(("new", "new", "old", "hot")):
        total = benchmark.make_batch(tmp_path / f"{number}", number, 800, kind)
        rows = pq.read_table(tmp_path / f"{number}")
        assert (rows.num_rows, pc.sum(rows["v"]).as_py()) == (800, total)
        keys[number, kind] = set(rows["k"].to_pylist())
    assert keys[0, "new"] | keys[1, "new"] == set(range(1600))
    assert len(keys[2, "old"]) == 800 and len(keys[3, "hot"]) == 401


@pytest.mark.parametrize("benchmark", ["memory"], indirect=True)
def test_processes_that_the_kernel_ended_are_counted(benchmark: ModuleType, tmp_path: Path) -> None:
    for name, count in (("a", 2), ("b", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {count}\n")
    assert benchmark.kills([tmp_path / "a", tmp_path / "b"]) == 5
    assert benchmark.kills([]) == 0


@pytest.mark.parametrize("benchmark", ["scaling"], indirect=True)
def test_a_file_to_warm_up_comes_before_those_that_count(benchmark: ModuleType, tmp_path: Path) -> None:
    benchmark.make_rows(tmp_path / "data", 1600, 100)
    files = sorted((tmp_path / "data").iterdir())
    assert len(files) == benchmark.FILES + 1
    assert all(pq.read_metadata(file).num_rows == 100 for file in files)
    assert set(pq.read_table(tmp_path / "data")["k"].to_pylist()) <= set(range(100))

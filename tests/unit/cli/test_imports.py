"""Which packages a command imports: each costs every call of it a part of a second.

The list comes from `python -X importtime` of a process of its own. No time is asserted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.servers.s3 import S3Server

SLOW = (
    "pandas", "duckdb", "boto3", "botocore", "pyspark", "airflow", "rich", "polars", "pyarrow.dataset",
    "pyarrow.flight", "pyarrow.compute", "pyarrow.parquet", "pyarrow.csv", "pyarrow.json", "numpy", "numpy.testing",
    "numpy.random", "importlib.metadata", "email", "asyncio", "http.client",
)  # fmt: skip
PIPELINE = """
import os
import tidemill as tm
p = tm.Pipeline("words")
words = p.read(tm.Files(os.environ.get("INBOX", "in"), format={format!r}, schema="word string, n int"))
words.groupBy("word").agg(n=tm.sum("n"), name="totals").write(tm.Parquet("out"))
"""
ROWS = {"csv": b"a,1\nb,2\n", "json": b'{"word": "a", "n": 1}\n', "parquet": b""}
ARROW = {"pyarrow.compute", "pyarrow.parquet", "numpy"}
"""pyarrow imports NumPy if it is installed. `test_pyarrow_alone.py` says when it does not."""
RICH = {"rich", "importlib.metadata", "email"}
BOTO3 = {"boto3", "botocore", "importlib.metadata", "email", "http.client", "asyncio"}


def imported(folder: Path, *arguments: str, **env: str) -> set[str]:
    """Return the slow packages that a call of the command line imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tidemill", *arguments],
        cwd=folder, capture_output=True, text=True, env={**os.environ, **env},
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stderr[-2000:]
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    names = {line.rpartition("|")[2].strip() for line in lines}
    assert "tidemill.cli.main" in names
    return {name for name in SLOW if name in names}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def made(folder: Path, format: str) -> list[str]:
    """Write the pipeline and a file, initialise the repository, and return the arguments that name it."""
    (folder / "words.py").write_text(PIPELINE.format(format=format))
    (folder / f"in/1.{format}").write_bytes(ROWS[format])
    if format == "parquet":
        pq.write_table(pa.table({"word": ["a"], "n": pa.array([1], "int32")}), folder / "in/1.parquet")
    target = ["words.py:p", "--root", "lake"]
    subprocess.run([sys.executable, "-m", "tidemill", "init", *target], cwd=folder, check=True, capture_output=True)
    return target


@pytest.mark.parametrize("format", list(ROWS))
def test_a_small_batch_imports_what_reads_its_format_and_no_more(folder: Path, format: str) -> None:
    target = made(folder, format)
    assert imported(folder, "run", *target) <= ARROW
    assert imported(folder, "run", *target) <= ARROW, "nothing waits any more"


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_small_batch_of_text_on_engine_local_needs_no_numpy(folder: Path, format: str) -> None:
    target = made(folder, format)
    assert imported(folder, "run", *target, "--engine", "local") == {"pyarrow.parquet"}
    assert imported(folder, "run", *target, "--engine", "local") <= {"pyarrow.parquet"}, "nothing waits any more"
    assert imported(folder, "sweep", *target, "--engine", "local") <= {"pyarrow.parquet"}


def test_commands_that_read_import_no_engine(folder: Path) -> None:
    target = made(folder, "json")
    imported(folder, "run", *target)
    for command in ("status", "log"):
        assert imported(folder, command, *target) <= {*ARROW, *RICH}, "rich prints tables"
    assert imported(folder, "state", *target, "--operator", "totals") <= {*ARROW, *RICH, "pyarrow.csv"}


def test_only_a_repository_on_s3_imports_boto3(folder: Path, s3_server: S3Server) -> None:
    target = made(folder, "json")
    root, options = s3_server.new_root(), s3_server.options
    env = {
        "AWS_ACCESS_KEY_ID": options["aws_access_key_id"], "AWS_SECRET_ACCESS_KEY": options["aws_secret_access_key"],
        "AWS_ENDPOINT_URL": options["endpoint_url"], "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    found = imported(folder, "init", target[0], "--root", root, **env)
    assert {"boto3", "botocore"} <= found <= {*ARROW, *BOTO3}

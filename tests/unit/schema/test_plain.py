"""Arrow arrays built without pandas: equal to those of pyarrow, and a local run never imports pandas."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tidemill.schema import (
    binary_array,
    empty_table,
    int64_array,
    int64_scalar,
    plain,
    records_batch,
    string_array,
    to_arrow,
)

NUMBERS = [[], [1, -(2**63), 2**63 - 1], [None], [None, 2, None, 4, None, None, 7, 8, None, 10]]


@pytest.mark.parametrize("values", NUMBERS)
def test_arrays_equal_those_of_pyarrow(values: list[int | None]) -> None:
    texts = [None if value is None else f"é{value}" for value in values]
    data = [None if text is None else text.encode() for text in texts]
    for made, expected in (
        (int64_array(values), pa.array(values, pa.int64())),
        (string_array(texts), pa.array(texts, pa.string())),
        (binary_array(data), pa.array(data, pa.binary())),
    ):
        made.validate(full=True)
        assert made.equals(expected)
        assert made.null_count == expected.null_count
    assert int64_scalar(5).equals(pa.scalar(5, pa.int64()))


def test_text_beyond_two_gibibytes_is_cut_into_chunks_as_pyarrow_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "_MOST_BYTES", 3)
    assert string_array(["ab", "cd"]).equals(pa.array(["ab", "cd"]))


def test_tables_without_rows_have_their_schema() -> None:
    schema = to_arrow("a int not null, b array<struct<x: decimal(5,2)>>, c map<string,timestamp>")
    for made in (empty_table(schema), plain.empty_batch(schema)):
        made.validate(full=True)
        assert made.schema.equals(schema)
        assert made.num_rows == 0


def test_records_become_a_batch_and_missing_keys_null() -> None:
    schema = to_arrow("s string, n bigint")
    made = records_batch([{"s": "a"}, {"n": 2, "s": None}], schema)
    assert made.equals(pa.RecordBatch.from_pylist([{"s": "a"}, {"n": 2}], schema=schema))


LOCAL_RUN = """
import sys
import tidemill as tm

p = tm.Pipeline("counts")
rows = p.read(tm.Files("in", format=sys.argv[1], schema="k string, n int", mode="PERMISSIVE"))
rows.groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Parquet("out", partitionBy="k"))
rows.dropDuplicates(["k"]).write(tm.Json("keys"))
repository = tm.open(p, "root")
repository.init()
for _ in range(2):
    [progress] = repository.run(engine="local", max_batches=1) or [None]
    assert progress is None or (progress.numInputRows, progress.quarantined_rows) == (2, 1)
print("pandas" in sys.modules)
"""


@pytest.mark.parametrize(("kind", "text"), [("csv", "a,1\nb,x\n"), ("json", '{"k":"a","n":1}\n{"k":"b","n":"x"}\n')])
def test_a_local_run_imports_no_pandas(kind: str, text: str, tmp_path: Path) -> None:
    """Importing pandas takes longer than a small batch."""
    assert importlib.util.find_spec("pandas"), "without pandas this test shows nothing"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text(text)
    command = [sys.executable, "-c", LOCAL_RUN, kind]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr

"""Which columns of Parquet files have a dictionary: those whose values repeat, and nested ones."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tidemill.sinks.dictionaries import DICTIONARY_ROWS, SAMPLE_ROWS, columns_with_dictionary

ROWS = 20_000


def encoded(**columns: Any) -> pq.ParquetFile:
    (file,) = tm.Parquet("out").stage(pa.table(columns))
    return pq.ParquetFile(io.BytesIO(file.data))


def with_dictionary(file: pq.ParquetFile) -> set[str]:
    group = file.metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


def test_a_column_of_distinct_values_has_no_dictionary() -> None:
    numbers = np.random.default_rng(7).permutation(ROWS)
    file = encoded(key=[f"k{number}" for number in numbers], total=numbers * 0.5, kind=numbers % 9, batch=[3] * ROWS)
    assert with_dictionary(file) == {"kind", "batch"}
    assert file.read().column("key").to_pylist() == [f"k{number}" for number in numbers]


def test_files_are_smaller_without_needless_dictionaries() -> None:
    text = [f"key-{number:08d}" for number in np.random.default_rng(1).permutation(100_000)]
    rows = pa.table({"key": text, "total": np.random.default_rng(2).random(100_000)})
    (file,) = tm.Parquet("out").stage(rows)
    # Every value is distinct, so the dictionaries would add about a third to the file.
    with_all = pa.BufferOutputStream()
    pq.write_table(rows, with_all, compression="zstd")
    assert len(file.data) < 0.9 * with_all.getvalue().size
    assert columns_with_dictionary(rows[:DICTIONARY_ROWS]) is True
    assert columns_with_dictionary(rows[: DICTIONARY_ROWS + 1]) == []


@pytest.mark.parametrize(
    ("numbers", "repeats"),
    [
        (np.arange(ROWS), False),
        (np.arange(ROWS) // 2, True),  # side by side
        (np.arange(ROWS) % (ROWS // 4), True),  # far apart
        (np.arange(10 * ROWS) // 10, True),
        (np.random.default_rng(3).permutation(np.arange(3 * ROWS) % ROWS), True),
        (np.random.default_rng(3).permutation(np.arange(3 * ROWS) % (2 * ROWS)), False),  # half of them once
        (np.where(np.arange(ROWS) < SAMPLE_ROWS, np.arange(ROWS), 0), True),
        (np.where(np.arange(ROWS) < SAMPLE_ROWS, 0, np.arange(ROWS)), True),
    ],
)
def test_repeated_values_have_a_dictionary_wherever_they_are(numbers: Any, repeats: bool) -> None:
    assert with_dictionary(encoded(one=numbers, other=np.zeros(len(numbers), int))) == {
        *({"one"} if repeats else ()), "other",
    }  # fmt: skip


def test_nested_columns_keep_their_dictionaries() -> None:
    kinds = {
        "s": pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))]),
        "l": pa.list_(pa.int64()),
        "m": pa.map_(pa.string(), pa.list_(pa.float64())),
    }
    rows = {
        "s": [{"a": 1, "b": {"c": "x"}}] * ROWS,
        "l": [[1, 2]] * ROWS,
        "m": [[("k", [0.5])]] * ROWS,
    }
    columns = {name: pa.array(rows[name], kind) for name, kind in kinds.items()}
    alone = with_dictionary(encoded(**columns))
    assert len(alone) == 5
    assert with_dictionary(encoded(**columns, one=np.arange(ROWS))) == alone


def test_columns_of_nulls_are_written() -> None:
    file = encoded(nothing=pa.nulls(ROWS), empty=pa.nulls(ROWS, pa.string()), one=np.arange(ROWS))
    assert file.read().column("empty").null_count == ROWS
    assert "one" not in with_dictionary(file)

"""`schema_of`: the schema that fits some files, and what they do not decide."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tidemill as tm
from tests.unit.sources.reading import blocks, file, rejects
from tidemill.cli.main import main, tidemill
from tidemill.cli.output import Output
from tidemill.schema import to_ddl
from tidemill.sources.files import Files
from tidemill.sources.inference import infer

CSV = """id,big,zip,amount,paid,day,at,flag,none,text
1,3000000000,01234,1.50,1e3,2024-01-05,2024-01-05 10:00:00,true,,x
2,1,98765,2.25,2,2024-02-29,2024-01-05T10:00:00.5,FALSE,,"y, z"
"""
JSON = """{"a":1,"b":1.5,"c":{"d":[1,2],"e":null},"f":"2024-01-05T10:00:00Z","g":true}
{"a":3000000000,"c":{"d":[]},"h":"x"}
"""


def test_csv_columns_have_the_narrowest_type_that_fits(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv.gz", gzip.compress(CSV.encode()))
    found = infer([str(path)], None, {"header": True})
    assert to_ddl(found.schema) == (
        "id int, big bigint, zip string, amount double, paid double, day date, at timestamp, flag boolean, "
        "none string, text string"
    )
    assert found.notes == [
        "column `zip` has numbers with leading zeros: string keeps them",
        "column `amount` has up to 2 digits after the point: decimal(18,2) keeps amounts exact",
        "column `paid` has fractions: double",
        "column `at` has times without an offset: they are in the time zone of the pipeline",
        "column `none` has no values: string is a guess",
    ]
    source = Files(tmp_path, format="csv", header=True, schema=found.schema, mode="PERMISSIVE")
    assert rejects(blocks(source)) == []


def test_json_columns_may_be_nested(tmp_path: Path) -> None:
    path = file(tmp_path, "a.jsonl", JSON)
    found = infer([str(path)], None, {})
    assert to_ddl(found.schema) == (
        "a bigint, b double, c struct<d: array<int>, e: string>, f timestamp, g boolean, h string"
    )
    assert "column `c.e` has no values: string is a guess" in found.notes


def test_types_of_several_files_are_widened_and_missing_columns_noted(tmp_path: Path) -> None:
    one, two = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"v": pa.array([1], pa.int32()), "t": pa.array([1], pa.time32("s"))}), one)
    pq.write_table(pa.table({"v": pa.array([1], pa.int64()), "w": ["x"]}), two)
    found = infer([str(one), str(two)], None, {})
    assert to_ddl(found.schema) == "v bigint, w string"
    assert found.notes == [
        f"column `t` of `{one}` has type time, which cannot be read",
        f'column `w` is not in `{one}`: declare missingColumns="null" if it is right',
    ]


def test_a_file_without_a_known_ending_or_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tm.InvalidInput, match="the ending of .* says no format"):
        tm.schema_of(file(tmp_path, "a.dat", "1\n"))
    with pytest.raises(tm.InvalidInput, match="not a valid Parquet file"):
        tm.schema_of(file(tmp_path, "a.parquet", "1\n"))
    with pytest.raises(tm.InvalidInput, match="No such file"):
        tm.schema_of(tmp_path / "none.csv")
    with pytest.raises(tm.InvalidInput, match="unknown option of tm.Files `heade`"):
        tm.schema_of(file(tmp_path, "a.csv", "1\n"), heade=True)


def test_the_command_prints_ddl_and_notes(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", CSV.replace(",", ";"))
    call = ["schema", str(path), "--header", "--option", "sep=;"]
    done = CliRunner().invoke(tidemill, call, obj=Output(), standalone_mode=False)
    assert done.stdout.startswith("id int, big bigint, zip string, ")
    assert "note: column `zip` has numbers with leading zeros" in done.stderr
    assert main(["schema", str(path), "--option", "sep"]) == 2

"""`Files`: partition folders, which give columns."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.sources.reading import blocks, file, rejects, values
from tidemill.errors import InvalidInput
from tidemill.sinks.partitions import folder_values
from tidemill.sources.files import Files
from tidemill.sources.listing import unescaped


def test_partition_folders_give_columns_of_the_schema(tmp_path: Path) -> None:
    file(tmp_path, "dt=2013-01-02/c=a%2Fb/x.csv", "1\n2\n")
    file(tmp_path, "dt=2013-01-03/c=__HIVE_DEFAULT_PARTITION__/x.csv", "3\n")
    source = Files(tmp_path, format="csv", schema="c string, v int, dt date")
    assert values(blocks(source)) == [
        ("a/b", 1, date(2013, 1, 2)),
        ("a/b", 2, date(2013, 1, 2)),
        (None, 3, date(2013, 1, 3)),
    ]
    assert values(blocks(Files(tmp_path, format="csv", schema="v int"))) == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        ("a%2Fb", "a/b"),
        ("%C3%A4", "ä"),
        ("ä%20%c3%a4", "ä ä"),
        ("%E4", "ä"),
        ("%FF", "ÿ"),
        ("日%FF%C3%A4", "日ÿÃ¤"),
        ("%C3ä", "Ãä"),
        ("100%", "100%"),
        ("%G1%4", "%G1%4"),
    ],
)
def test_bytes_in_names_of_folders_are_utf_8_or_else_characters(folder: str, text: str) -> None:
    assert unescaped(folder) == text
    assert folder_values(f"{folder}={folder}") == {text: text}


def test_folders_with_different_bytes_are_different_values(tmp_path: Path) -> None:
    file(tmp_path, "p=%E4/x.csv", "1\n")
    file(tmp_path, "p=%FF/x.csv", "2\n")
    assert values(blocks(Files(tmp_path, format="csv", schema="v int, p string"))) == [(1, "ä"), (2, "ÿ")]


def test_a_folder_that_does_not_fit_is_a_reject_of_its_file(tmp_path: Path) -> None:
    file(tmp_path, "dt=yesterday/x.csv", "1\n")
    source = Files(tmp_path, format="csv", schema="v int, dt date", badFiles="quarantine")
    [reject] = rejects(blocks(source))
    why = "folder `dt=yesterday`: found `yesterday`, expected date"
    assert reject["reason"] == f"{why}; its only row is not read"
    with pytest.raises(InvalidInput, match="folder `dt=yesterday`"):
        blocks(Files(tmp_path, format="csv", schema="v int, dt date"))


def test_a_folder_that_names_no_value_does_not_fit_a_column_that_must_have_one(tmp_path: Path) -> None:
    file(tmp_path, "dt=__HIVE_DEFAULT_PARTITION__/x.csv", "1\n")
    with pytest.raises(InvalidInput, match="folder `dt=__HIVE_DEFAULT_PARTITION__`: found no value, expected date not"):
        blocks(Files(tmp_path, format="csv", schema="v int, dt date not null"))


@pytest.mark.parametrize("folders", [("p=1", "p=2"), ("P=1", "p=1"), ("%70=1", "q=5", "p=__HIVE_DEFAULT_PARTITION__")])
def test_folders_that_name_a_column_twice_are_a_reject_of_their_file(tmp_path: Path, folders: tuple[str, ...]) -> None:
    file(tmp_path, "/".join([*folders, "x.csv"]), "1\n")
    first, last = folders[0].replace("%70", "p"), folders[-1]
    why = f"folder `{last}`: folder `{first}` of the path names the same column"
    [reject] = rejects(blocks(Files(tmp_path, format="csv", schema="v int, p string", badFiles="quarantine")))
    assert reject["reason"] == f"{why}; its only row is not read"
    with pytest.raises(InvalidInput, match=why):
        blocks(Files(tmp_path, format="csv", schema="v int, p int"))
    assert values(blocks(Files(tmp_path, format="csv", schema="v int"))) == [(1,)]
    with pytest.raises(InvalidInput, match="too few columns"):
        blocks(Files(tmp_path, format="csv", schema="v int, p int", recursiveFileLookup=True))


def test_a_folder_is_no_value_of_a_nested_column(tmp_path: Path) -> None:
    file(tmp_path, "s=1/x.json", '{"v": 1}\n')
    with pytest.raises(InvalidInput, match="folder `s=1`: found `1`, expected struct<x: int>"):
        blocks(Files(tmp_path, format="json", schema="v int, s struct<x:int>"))


def test_a_folder_is_a_column_whatever_the_case_of_its_letters(tmp_path: Path) -> None:
    file(tmp_path, "DT=2013-01-02/x.csv", "1\n")
    assert values(blocks(Files(tmp_path, format="csv", schema="v int, dt date"))) == [(1, date(2013, 1, 2))]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_that_a_folder_gives_is_not_an_extra_one_of_the_file(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "dt=2013-01-02"
    folder.mkdir()
    if kind == "csv":
        file(folder, "a.csv", "V,DT\n1,never\n")
    else:
        pq.write_table(pa.table({"V": pa.array([1], pa.int32()), "DT": ["never"]}), folder / "a.parquet")
    options = {"header": True} if kind == "csv" else {}
    source = Files(tmp_path, format=kind, schema="v int, dt date", extraColumns="fail", **options)  # type: ignore[arg-type]
    assert values(blocks(source)) == [(1, date(2013, 1, 2))]
    with pytest.raises(InvalidInput, match="has `DT`, which the schema lacks"):
        blocks(Files(tmp_path, format=kind, schema="v int", extraColumns="fail", **options))  # type: ignore[arg-type]

"""`Files`: which files are data, partition folders, options, changed and missing files; local, in memory and on S3."""

from __future__ import annotations

import bz2
import gzip
import os
import pickle
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.servers.s3 import S3Server
from tests.unit.sources.reading import blocks, file, rows, values
from tidemill.errors import InvalidInput, StoreUnavailable
from tidemill.sources import content
from tidemill.sources.contract import ReadContext
from tidemill.sources.files import Files
from tidemill.sources.globs import matches
from tidemill.sources.listing import is_data
from tidemill.store import folder_store, open_store

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "bz2": bz2.compress,
}


def paths(source: Files, **options: Any) -> list[str]:
    return [found.path for found in source.look("source", None, options or None)]


def one_column(folder: Path | str, **options: Any) -> Files:
    return Files(folder, format="csv", schema="v string", **options)


def test_files_that_are_still_being_copied_are_not_data() -> None:
    unfinished = ("a.csv._COPYING_", "a.csv.crdownload", "a.csv~", "a.csv.part", "a.csv.tmp", "dt=1/a.csv.filepart")
    assert not any(is_data(name, recursive=True, pattern=None) for name in unfinished)
    assert not is_data("a.csv.part", recursive=False, pattern="a*")
    assert is_data("a.csv.part", recursive=False, pattern="*.part")
    assert is_data("part-00000.csv", recursive=False, pattern=None)


def test_objects_with_which_hadoop_marks_folders_are_not_data() -> None:
    assert not is_data("dt=1_$folder$", recursive=False, pattern=None)
    assert not is_data("dt=1/h=2_$folder$", recursive=True, pattern=None)


def test_hidden_names_and_other_folders_are_not_data(tmp_path: Path) -> None:
    for name in (
        "b.csv",
        "a.csv",
        "_SUCCESS",
        ".hidden",
        "_tmp/x.csv",
        "dt=1/c.csv",
        "dt=1/h=2/d.csv",
        "dt=1/_x",
        "sub/e.csv",
    ):
        file(tmp_path, name, "x\n")
    assert paths(one_column(tmp_path)) == ["a.csv", "b.csv", "dt=1/c.csv", "dt=1/h=2/d.csv"]
    assert paths(one_column(tmp_path, recursiveFileLookup=True)) == [
        "a.csv",
        "b.csv",
        "dt=1/c.csv",
        "dt=1/h=2/d.csv",
        "sub/e.csv",
    ]
    assert paths(one_column(tmp_path, pathGlobFilter="[a-c].csv")) == ["a.csv", "b.csv", "dt=1/c.csv"]


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "a.csv.gz", False),
        ("?.csv", "ab.csv", False),
        ("{a,b*}.csv", "bcd.csv", True),
        ("{a,b}{1,2}", "b2", True),
        ("[^a]*", "abc", False),
        ("{a", "{a", False),
        ("{a,{b,c}d}e", "cde", True),
        ("{a,{b,c}d}e", "ce", False),
        (r"ok\.csv", "ok.csv", True),
        (r"ok\.csv", r"ok\.csv", False),
        (r"\*.csv", "*.csv", True),
        (r"\*.csv", "a.csv", False),
        (r"a\{b\}\[", "a{b}[", True),
        (r"{a\,b,c}", "a,b", True),
        (r"[\]x]", "]", True),
        ("[]x]", "]", True),
        ("[!]]", "]", False),
        ("[a-]", "-", True),
        ("[{,}]", ",", True),
        ("[&&~|]", "~", True),
        ("a}b,c", "a}b,c", True),
        ("a.c", "abc", False),
        ("*.csv", "a\nb.csv", True),
        ("(a|b)+$^", "(a|b)+$^", True),
    ],
)
def test_globs_match_as_in_hadoop(pattern: str, name: str, fits: bool) -> None:
    assert matches(name, pattern) is fits


def test_files_are_ordered_by_name_or_modification_time(tmp_path: Path) -> None:
    for name, seconds in (("c", 1), ("a", 3), ("b", 2), ("é", 1)):
        os.utime(file(tmp_path, name, "x\n"), (seconds, seconds))
    assert paths(one_column(tmp_path)) == ["a", "b", "c", "é"]
    assert paths(one_column(tmp_path, order="modified")) == ["c", "é", "b", "a"]
    assert paths(one_column(tmp_path, start="1970-01-01T00:00:02")) == ["a", "b"]
    assert paths(one_column(tmp_path, modifiedAfter="1970-01-01T00:00:02")) == ["a"]


def test_a_discovered_file_has_etag_size_and_time(tmp_path: Path) -> None:
    os.utime(file(tmp_path, "a", "x\n"), (5, 5))
    [found] = one_column(tmp_path).look("days")
    assert (found.source, found.path, found.size, found.modified_ms) == ("days", "a", 2, 5000)
    before = found.etag
    file(tmp_path, "a", "y\n")
    assert one_column(tmp_path).look("days")[0].etag != before


def test_a_single_file_is_a_source(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "x\n")
    file(tmp_path, "b.csv", "y\n")
    assert values(blocks(one_column(tmp_path / "a.csv"))) == [("x",)]
    assert values(blocks(one_column(f"file://{tmp_path}/b.csv"))) == [("y",)]


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("_x.csv", "the name `_x.csv` begins with `_`, and such files are skipped as hidden", "rename the file"),
        (".x.csv", "the name `.x.csv` begins with `.`, and such files are skipped as hidden", "rename the file"),
        ("x.tmp", "ends in `.tmp`, and such files are skipped as incomplete copies", 'pathGlobFilter="*.tmp"'),
        ("x.csv~", "ends in `~`, and such files are skipped as incomplete copies", 'pathGlobFilter="*~"'),
    ],
)
def test_a_single_file_that_would_be_skipped_is_an_error(tmp_path: Path, name: str, message: str, hint: str) -> None:
    path = file(tmp_path, name, "x\n")
    with pytest.raises(InvalidInput, match=re.escape(message)) as error:
        one_column(path).look("days")
    assert f"list source `days` at `{path}`: " in error.value.message
    assert hint in str(error.value.hint)
    assert paths(one_column(tmp_path)) == []


def test_a_single_file_may_be_left_out_by_an_option_and_an_unfinished_one_read(tmp_path: Path) -> None:
    path = file(tmp_path, "x.tmp", "x\n")
    assert paths(one_column(path, pathGlobFilter="*.tmp")) == ["x.tmp"]
    assert paths(one_column(path, pathGlobFilter="*.part")) == []
    assert paths(one_column(file(tmp_path, "x.csv", "x\n"), pathGlobFilter="*.json")) == []


def test_a_file_uri_is_unquoted(tmp_path: Path) -> None:
    file(tmp_path / "a b", "x%20y.csv", "x\n")
    assert values(blocks(one_column(f"file://{tmp_path}/a%20b"))) == [("x",)]
    assert values(blocks(one_column(f"file://{tmp_path}/a%20b/x%2520y.csv"))) == [("x",)]
    assert values(blocks(one_column(tmp_path / "a b" / "x%20y.csv"))) == [("x",)]


def test_a_local_folder_named_s3_ignores_options_of_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file(tmp_path, "s3-exports/in/a.csv", "x\n")
    pipeline = tm.Pipeline("p")
    counted = pipeline.read(one_column("s3-exports/in")).groupBy("v").agg(n=tm.count(), name="n")
    counted.write(tm.Json("s3-exports/out"))
    options = {"region_name": "nowhere"}
    repository = tm.open(pipeline, str(tmp_path / "root"), storage_options={"source": options, "sink": options})
    repository.init()
    repository.run(engine="local")
    assert len(list((tmp_path / "s3-exports/out").rglob("*.json"))) == 1


@pytest.mark.parametrize(
    ("path", "uri"), [("s3-x/y", "file://{here}/s3-x/y"), ("file:///a%20b", "file:///a b"), ("/a b", "file:///a b"),
                      ("memory://x", "memory://x"), ("s3://bucket/x", "s3://bucket/x")]
)  # fmt: skip
def test_folder_options_apply_to_s3_only(path: str, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert folder_store(path, {"region_name": "nowhere"}).uri == uri.format(here=tmp_path)


@pytest.mark.parametrize(("ending", "codec"), [("gz", "gzip"), ("zst", "zstd"), ("bz2", "bz2")])
@pytest.mark.parametrize("whole_bytes", [content.WHOLE_BYTES, 0])
def test_compressed_files_of_a_remote_store_are_read(
    ending: str, codec: str, whole_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "WHOLE_BYTES", whole_bytes)
    folder = f"memory://compressed-{ending}-{whole_bytes}"
    open_store(folder).put(f"a.csv.{ending}", COMPRESS[codec](b"x\ny\n"))
    assert values(blocks(one_column(folder))) == [("x",), ("y",)]


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz"])
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_an_unavailable_store_is_an_error_not_a_reject(kind: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("memory://does-not-answer")
    store.put(f"a.{kind}", b"x" * 100)
    source = Files(
        "memory://does-not-answer", format=kind.split(".")[0], schema="v string", mode=mode, pathGlobFilter=f"*.{kind}"
    )
    [split] = source.splits(source.look("source"))

    def silent(*_: object) -> bytes:
        raise StoreUnavailable("the store does not answer")

    monkeypatch.setattr(content, "WHOLE_BYTES", 0)
    monkeypatch.setattr(type(store), "get_range", silent)
    with pytest.raises(StoreUnavailable):
        list(source.read(split, 10, ReadContext()))
    if kind == "parquet":
        with pytest.raises(StoreUnavailable):
            source.splits(source.look("source"), split_bytes=10)


def test_a_missing_folder_is_an_error_and_an_empty_one_is_not(tmp_path: Path) -> None:
    assert paths(one_column(tmp_path)) == []
    with pytest.raises(InvalidInput) as caught:
        one_column(tmp_path / "nowhere").look("days")
    assert str(caught.value) == f"list source `days` at `{tmp_path}/nowhere`: no such folder"
    with pytest.raises(InvalidInput, match="pathGlobFilter"):
        one_column(tmp_path / "*.csv").look("days")
    with pytest.raises(InvalidInput, match="no object has this prefix"):
        one_column("memory://nothing-here").look("days")


def test_metadata_says_which_file_a_row_is_from(tmp_path: Path) -> None:
    os.utime(file(tmp_path, "dt=1/a.csv", "x\n"), (5, 5))
    found = blocks(one_column(tmp_path), context=ReadContext(metadata=True))
    assert rows(found) == [
        {
            "v": "x",
            "_metadata": {
                "file_path": f"file://{tmp_path}/dt=1/a.csv",
                "file_name": "a.csv",
                "file_size": 2,
                "file_modification_time": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC),
            },
            "_row": 0,
        }
    ]


@pytest.mark.parametrize("name", ["it's [1]*?.csv", "ü ñ.csv", "a'b.csv", "%41.csv", "x.csv;y"])
def test_files_may_have_odd_names(tmp_path: Path, name: str) -> None:
    file(tmp_path, name, "x\n")
    assert values(blocks(one_column(tmp_path))) == [("x",)]


def test_a_missing_or_changed_file_is_an_error(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "x\n")
    source = one_column(tmp_path)
    [split] = source.splits(source.look("days"))
    file(tmp_path, "a.csv", "longer\n")
    with pytest.raises(InvalidInput) as caught:
        list(source.read(split, 10, ReadContext()))
    assert caught.value.first_line.startswith(
        "read file `a.csv` of source `days`: the file changed after it was planned: found 7 bytes with etag `"
    )
    path.unlink()
    with pytest.raises(InvalidInput, match=r"read file `a\.csv` of source `days`: the file is missing from `file://"):
        list(source.read(split, 10, ReadContext()))


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "x\n" * content.READ_ONCE_BYTES)
    source = one_column(tmp_path)
    [split] = source.splits(source.look("days"))
    reading = source.read(split, 10, ReadContext())
    next(reading)
    file(tmp_path, "a.csv", "y\n" * 101)
    with pytest.raises(InvalidInput, match="the file changed after it was planned"):
        list(reading)


def test_a_small_file_is_read_before_it_is_checked_and_may_change_later(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "x\n" * 100)
    source = one_column(tmp_path)
    [split] = source.splits(source.look("days"))
    reading = source.read(split, 10, ReadContext())
    first = next(reading)
    file(tmp_path, "a.csv", "y\n" * 101)
    read = [value for block in (first, *reading) for value in block.rows.column("v").to_pylist()]
    assert read == ["x"] * 100
    with pytest.raises(InvalidInput, match="the file changed after it was planned"):
        next(source.read(split, 10, ReadContext()))


def test_a_source_can_be_pickled(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "x;1\n")
    source = Files(tmp_path, format="csv", schema="a string, b int", sep=";")
    assert values(blocks(pickle.loads(pickle.dumps(source)))) == [("x", 1)]
    assert repr(source) == f"Files('{tmp_path}', format='csv', schema='a string, b int', sep=';')"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "cvs"}, "unknown format of tm.Files `cvs`; did you mean `csv`?"),
        (
            {"maxFilePerTrigger": 1},
            "unknown option of tm.Files `maxFilePerTrigger`; did you mean `maxFilesPerTrigger`?",
        ),
        ({"max_files": 1}, "unknown option of tm.Files `max_files`"),
        ({"maxFilesPerTrigger": 0}, "option `maxFilesPerTrigger` is 0, expected a whole number of at least 1"),
        (
            {"maxBytesPerTrigger": "1 parsec"},
            "is '1 parsec', expected a size such as `64 MiB`",
        ),
        ({"mode": "DROPMALFORMED"}, "expected FAILFAST or PERMISSIVE: Tidemill never drops rows silently"),
        ({"mode": "LENIENT"}, "option `mode` is 'LENIENT', expected 'FAILFAST' or 'PERMISSIVE'"),
        ({"order": "size"}, "option `order` is 'size', expected 'name' or 'modified'"),
        ({"start": "yesterday"}, "option `start`: invalid time 'yesterday'"),
        ({"sep": "a\n"}, "option `sep` is 'a\\n', expected one or more characters, none of them a line end"),
        ({"quote": "''"}, "option `quote` is \"''\", expected one ASCII character"),
        ({"encoding": "utf-7"}, "option `encoding` is 'utf-7', which is no known encoding"),
        ({"badFiles": "drop"}, "option `badFiles` is 'drop', expected 'fail' or 'quarantine'"),
        ({"dateFormat": "%Y-%m-%d"}, "hint: write `yyyy-MM-dd`"),
        ({"header": "maybe"}, "option `header` is 'maybe', expected True or False"),
        ({"format": "json", "sep": ";"}, "option `sep` applies to csv, but this source has format json"),
        ({"format": "parquet", "header": True}, "option `header` applies to csv, but this source has format parquet"),
        (
            {"dateFormat": "QQ"},
            "option `dateFormat` is 'QQ': the letters `QQ` at character 1 are not supported: quarters cannot be read",
        ),
        ({"dateFormat": "yyyy'x"}, "the quote at character 5 is not closed"),
        ({"pathGlobFilter": "a[bc.csv"}, "option `pathGlobFilter` is 'a[bc.csv': the `[` at character 2 is not closed"),
        ({"pathGlobFilter": "[]"}, "option `pathGlobFilter` is '[]': the `[` at character 1 is not closed"),
        ({"pathGlobFilter": "{a,{b}"}, "the `{` at character 1 is not closed\nhint: close it, or write `\\{` for the"),
        ({"pathGlobFilter": "a\\"}, "the backslash at the end escapes nothing"),
        ({"pathGlobFilter": "sub/*.csv"}, "a glob matches names of files, which have no `/`\nhint: give the folder as"),
        ({"pathGlobFilter": "[z-a]"}, "the range `z-a` is reversed\nhint: write `a-z`"),
        ({"schema": "a int, _row int"}, "schema of tm.Files: the column name `_row` is reserved"),
        ({"schema": "a array<int>"}, "column `a` is array<int>, which CSV cannot hold"),
        ({"schema": "a itn"}, "did you mean `int`?"),
    ],
)
def test_invalid_arguments_are_refused_by_the_constructor(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Files("x", **{"format": "csv", "schema": "a int", **arguments})
    assert message in str(caught.value)


def test_several_paths_are_refused_with_what_to_write() -> None:
    with pytest.raises(InvalidInput, match=r"tm.Files reads one folder or file, found \['a', 'b'\]") as caught:
        Files(["a", "b"], schema="a int")  # type: ignore[arg-type]
    assert caught.value.hint is not None and "unionByName" in caught.value.hint


def test_options_are_read_as_spark_reads_them() -> None:
    source = Files(
        "x",
        format="csv",
        schema="a int",
        header="true",
        maxFilesPerTrigger="5",
        maxBytesPerTrigger="1g",
        delimiter="\\t",
        mode="permissive",
    )
    assert (source.header, source.maxFilesPerTrigger, source.maxBytesPerTrigger) == (True, 5, 1024**3)
    assert source.mode == "PERMISSIVE"


@pytest.mark.parametrize("kind", ["memory", pytest.param("s3", marks=pytest.mark.servers("use an S3 server"))])
def test_files_of_other_stores_are_read(kind: str, request: pytest.FixtureRequest) -> None:
    root, options = "memory://sources-test", {}
    if kind == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        root, options = server.new_root(), server.options
    store = open_store(root, options)
    store.put("day=1/a.csv", b"1,x\n2,y\n")
    store.put("day=2/_skip", b"")
    source = Files(root, format="csv", schema="a int, b string, day int")
    assert paths(source, **options) == ["day=1/a.csv"]
    splits = source.splits(source.look("s", None, options), options)
    found = list(source.read(splits[0], 10, ReadContext(storage_options=options, metadata=True)))
    assert values(found) == [(1, "x", 1), (2, "y", 1)]
    assert rows(found)[0]["_metadata"]["file_path"] == f"{root}/day=1/a.csv"
    store.put("day=1/a.csv", b"1,x\n")
    with pytest.raises(InvalidInput, match="the file changed after it was planned"):
        list(source.read(splits[0], 10, ReadContext(storage_options=options)))

"""Commands that read, with a repository's URI in place of the pipeline, and rows written with `-o`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.journeys.conftest import Call
from tests.journeys.everything import make
from tests.servers.s3 import S3Server
from tidemill.errors import Exit

CODE = """
from pathlib import Path
from tests.journeys.everything import pipeline
p = pipeline(Path(__file__).parent, "sums")
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("everything")
    make(folder, str(folder / "root"))
    (folder / "code.py").write_text(CODE)
    return folder


READS = [
    ["state", "--operator", "sums"],
    ["state", "--operator", "totals", "--version", "noon", "--json"],
    ["state", "--operator", "sums", "--key", "a", "--where", "n > 0"],
    ["state", "--operator", "totals", "--branch", "fix"],
    ["state", "--operator", "pages", "--variable", "seen", "--version", "fix@tried"],
    ["outputs", "--sink", "windows", "--json"],
    ["outputs", "--sink", "unknown"],
    ["quarantine", "--version", "1"],
    ["quarantine", "--source", "days"],
    ["changes", "sums", "0..main", "--json"],
    ["history", "--operator", "sums", "--key", "a", "--no-rows", "--json"],
    ["diff", "0", "fix"],
    ["diff", "0", "main", "--operator", "sums", "--json"],
    ["log"],
    ["log", "--json", "--limit", "2"],
    ["branches"],
    ["tag"],
]


@pytest.mark.parametrize("arguments", READS, ids=" ".join)
def test_a_command_prints_the_same_with_a_repository_as_with_code(
    arguments: list[str], home: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb, *options = arguments
    expected = call(verb, f"{home / 'code.py'}:p", *options, "--root", home / "root")
    assert expected[1] or expected[0] == Exit.FAILED
    place = home / "root" / "everything"
    for uri in (str(place), f"{place}/", f"file://{place}", f"file:{place}"):
        assert call(verb, uri, *options) == expected
    monkeypatch.chdir(home)
    monkeypatch.setenv("TIDEMILL_ROOT", "elsewhere")
    assert call(verb, "root/everything", *options) == expected


def test_status_and_explain_say_what_needs_code(home: Path, call: Call) -> None:
    place = home / "root" / "everything"
    status, out, _ = call("status", place)
    assert status == Exit.DONE and "waiting files are not listed" in out and "sums" in out
    status, out, _ = call("explain", place, "--operator", "sums", "--key", "a")
    assert status == Exit.DONE and "not read: input rows are read by the pipeline's code" in out
    status, _, err = call("explain", place)
    assert status == Exit.FAILED and "the graph of a pipeline needs the pipeline's code" in err
    status, _, err = call("quarantine", place, "--version", "1", "--export", home / "export.csv")
    assert status == Exit.FAILED and "needs the pipeline's code" in err and not (home / "export.csv").exists()


@pytest.mark.parametrize("verb", ["run", "sweep", "init", "publish", "maintain", "check", "verify", "requeue"])
def test_a_command_that_needs_code_refuses_a_repository(verb: str, home: Path, call: Call) -> None:
    for uri in ("s3://lake/tidemill/retail", home / "root" / "everything", f"file://{home}/root/everything"):
        status, _, err = call(verb, uri)
        assert (
            status == Exit.USAGE and f"`{verb}` needs the pipeline's code: found `{uri}`, expected `module:name`" in err
        )
    status, _, err = call(verb, f"{home / 'code.py'}:p")
    assert status == Exit.USAGE and "Missing option '--root'" in err


def test_naming_a_version_needs_code(home: Path, call: Call) -> None:
    status, _, err = call("tag", home / "root" / "everything", "new")
    assert status == Exit.USAGE and "`tag` needs the pipeline's code" in err


@pytest.mark.parametrize(
    ("reference", "status", "said"),
    [
        ("{root}", Exit.FAILED, "pipeline `root` has no repository under file:///"),
        ("{root}/nothing", Exit.FAILED, "hint: a repository is the folder ROOT/NAME with `refs/` in it"),
        ("{root}/No", Exit.FAILED, "invalid pipeline name 'No'"),
        (
            "nothing",
            Exit.FAILED,
            "found PIPELINE `nothing`, expected `module:name`, `path.py:name`, `path.py`, or the URI of",
        ),
        ("s3://lake", Exit.FAILED, "found PIPELINE `s3://lake`, expected"),
        ("s3://", Exit.FAILED, "found PIPELINE `s3://`, expected"),
        ("gs://lake/x", Exit.FAILED, "unknown scheme `gs`"),
        ("s3://key:secret@lake/x/y", Exit.FAILED, "the URL contains credentials"),
        ("/", Exit.FAILED, "found PIPELINE `/`, expected"),
        ("{root}/code.py:p", Exit.USAGE, "Missing option '--root'"),
        ("nothing:p", Exit.USAGE, "Missing option '--root'"),
    ],
)
def test_what_is_not_a_repository_is_one_clear_error(
    reference: str, status: int, said: str, home: Path, call: Call
) -> None:
    found, _, err = call("state", reference.format(root=home / "root"))
    assert (found, said in err) == (status, True), err


def test_root_beside_a_repository_is_refused(home: Path, call: Call) -> None:
    status, _, err = call("state", home / "root" / "everything", "--root", home / "root")
    assert status == Exit.USAGE and "leave out --root if it is a repository's URI" in err


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
def test_rows_are_written_to_a_new_file(format_: str, home: Path, call: Call, tmp_path: Path) -> None:
    place, file = home / "root" / "everything", tmp_path / f"rows.{format_}"
    status, out, _ = call("state", place, "--operator", "latest", "-o", file)
    assert (status, out) == (Exit.DONE, f"wrote 2 rows to {file}\n")
    rows = call("state", place, "--operator", "latest", "--json")[1]
    if format_ == "json":
        assert file.read_text() == rows
    if format_ == "parquet":
        table = pq.read_table(file)
        assert table.column_names == ["k", "v", "x", "updated_at", "deadline"] and table.num_rows == 2
    if format_ == "csv":
        lines = file.read_text().splitlines()
        assert lines[0] == "k,v,x,updated_at,deadline" and len(lines) == 3
    status, _, err = call("state", place, "--operator", "latest", "-o", file)
    assert status == Exit.FAILED and "the file exists" in err
    other = tmp_path / "other"
    assert call("outputs", place, "--sink", "latest", "-o", other, "--format", format_, "--json")[0] == Exit.DONE
    assert other.stat().st_size > 0
    status, out, _ = call("quarantine", place, "-o", tmp_path / f"q.{format_}", "--limit", "1", "--json")
    assert status == Exit.DONE and json.loads(out) == {"rows": 1, "file": str(tmp_path / f"q.{format_}")}


def test_options_of_a_file_that_do_not_fit_are_refused(home: Path, call: Call, tmp_path: Path) -> None:
    place = home / "root" / "everything"
    assert "-o is missing" in call("outputs", place, "--sink", "windows", "--format", "csv")[2]
    assert "give one of them" in call("quarantine", place, "-o", tmp_path / "a.csv", "--export", tmp_path / "b.csv")[2]
    assert "no known format" in call("state", place, "--operator", "sums", "-o", tmp_path / "a.txt")[2]
    assert "write parquet or json" in call("state", place, "--operator", "sums", "-o", tmp_path / "a.csv")[2]
    assert list(tmp_path.iterdir()) == []


def test_a_repository_on_s3_is_read_by_its_uri(
    tmp_path: Path, s3_server: S3Server, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = s3_server.new_root()
    make(tmp_path, root, {"root": s3_server.options})
    monkeypatch.setenv("TIDEMILL_STORAGE_OPTIONS", json.dumps({"root": s3_server.options}))
    status, out, err = call("state", f"{root}/everything", "--operator", "totals", "--version", "noon", "-o",
                            tmp_path / "rows", "--format", "parquet")  # fmt: skip
    assert (status, err) == (Exit.DONE, "") and out.startswith("wrote 3 rows")
    rows: list[dict[str, Any]] = pq.read_table(tmp_path / "rows", columns=["k", "n", "total"]).to_pylist()
    assert {row["k"]: (row["n"], row["total"]) for row in rows}["a"] == (3, 9)
    status, _, err = call("state", f"{root}/other")
    assert status == Exit.FAILED and f"pipeline `other` has no repository under {root}" in err

"""Control characters in files reach no terminal: people see them escaped. Programs get them as they are."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.sources.reading import file
from tidemill.cli.main import main
from tidemill.cli.output import Output
from tidemill.cli.render import cell, table_of
from tidemill.sources.contract import ReadContext
from tidemill.sources.files import Files

RECORD = "x\x1b[31m,\x9by\tz"
SHOWN = r"x\u{1b}[31m,\u{9b}y\tz"
CODE = """import tidemill as tm
p = tm.Pipeline("p")
rows = p.read(tm.Files("{folder}", format="csv", schema="k int, v string", mode="{mode}"), name="in")
rows.groupBy("k").agg(n=tm.count(), name="n").write(tm.Parquet("{out}"))
"""


def call(folder: Path, mode: str, *arguments: str) -> int:
    code = folder / "pipeline.py"
    code.write_text(CODE.format(folder=folder / "in", out=folder / "out", mode=mode))
    return main([arguments[0], f"{code}:p", "--root", str(folder / "root"), *arguments[1:]])


def test_the_error_of_a_reject_is_escaped(tmp_path: Path) -> None:
    file(tmp_path, "a\x1bb.csv", RECORD + "\n")
    source = Files(tmp_path, format="csv", schema="k int, v string")
    with pytest.raises(tm.InvalidInput) as caught:
        list(source.read(source.splits(source.look("in"))[0], 10, ReadContext()))
    assert r"read file `a\u{1b}b.csv` of source `in`, line 1, column `k`: found `x\u{1b}[31m`" in str(caught.value)
    assert f"\ntext: {SHOWN}\n" in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_every_error_is_escaped_and_keeps_its_lines() -> None:
    error = tm.InvalidInput("a\x1b[31m\n\tb\r", hint="\x7f")
    assert str(error) == "a\\u{1b}[31m\n\tb\\r\nhint: \\u{7f}"


def test_quarantine_is_escaped_for_people_and_raw_for_programs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file(tmp_path / "in", "a.csv", RECORD + "\n1,x\n")
    assert call(tmp_path, "PERMISSIVE", "init") == 0
    assert call(tmp_path, "PERMISSIVE", "run", "--engine", "local") == 0
    capfd.readouterr()
    assert call(tmp_path, "PERMISSIVE", "quarantine") == 0
    shown = capfd.readouterr().out
    assert SHOWN in shown and not set(shown) & {"\x1b", "\x9b"}
    assert call(tmp_path, "PERMISSIVE", "quarantine", "--json") == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert rows[0]["text"] == RECORD
    exported = tmp_path / "rows.json"
    assert call(tmp_path, "PERMISSIVE", "quarantine", "--export", str(exported)) == 0
    assert RECORD in json.loads(exported.read_text().split("\n")[0]).values()


def test_a_failed_run_prints_no_control_characters(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file(tmp_path / "in", "a.csv", RECORD + "\n")
    assert call(tmp_path, "FAILFAST", "init") == 0
    assert call(tmp_path, "FAILFAST", "run", "--engine", "local") != 0
    printed = capfd.readouterr().err
    assert SHOWN in printed and not set(printed) & {"\x1b", "\x9b"}


def test_cells_and_names_of_tables_are_escaped() -> None:
    assert cell("\x1b").plain == "\\u{1b}"
    assert cell(["\x9b"]).plain == '["\\u{9b}"]'
    assert [str(column.header) for column in table_of(pa.table({"\x1b": [1]})).columns] == ["\\u{1b}"]


def test_lines_for_people_are_escaped_and_lines_of_json_are_not(capfd: pytest.CaptureFixture[str]) -> None:
    Output().line("a\x1b")
    Output(json=True).line('"\x9b"')
    assert capfd.readouterr().out == 'a\\u{1b}\n"\x9b"\n'


def test_warnings_of_the_log_are_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    from tidemill.cli.progress import batch_progress

    with batch_progress(Output(), "run"):
        logging.getLogger("tidemill.test").warning("file %s", "\x1b")
    assert "warning: file \\u{1b}\n" in capfd.readouterr().err

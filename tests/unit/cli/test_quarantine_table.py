"""Quarantined rows on a terminal: one line each, why and what first, within its width."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.cells import cell_len
from rich.console import Console

import tidemill as tm
from tests.world import World
from tidemill.cli import render
from tidemill.cli.main import main
from tidemill.quarantine.rows import REJECT_SCHEMA


def rows(*given: dict[str, Any]) -> pa.Table:
    empty = dict.fromkeys(REJECT_SCHEMA.names)
    table = pa.Table.from_pylist([{**empty, "source": "orders", **one} for one in given], schema=REJECT_SCHEMA)
    table = table.append_column("version", pa.array(range(7, 7 + table.num_rows), pa.int64()))
    return table.append_column("requeued", pa.array([one.get("requeued") for one in given], pa.int64()))


def printed(table: pa.Table, width: int) -> list[str]:
    shown = io.StringIO()
    Console(file=shown, width=width, highlight=False).print(render.quarantine_table(table, width))
    return [line for line in shown.getvalue().splitlines() if line.strip()]


LONG = {"file": f"{'folder/' * 20}a.csv", "line": 12, "reason": "found `x`, expected int " * 9, "text": "日本" * 200}
SHORT = {"file": "b.csv", "row": 3, "reason": "late", "text": "b,2\x1b[31m"}


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_each_row_has_one_line_within_the_width(width: int) -> None:
    head, rule, first, second = printed(rows(LONG, SHORT), width)
    assert head.split() == ["reason", "text", "place", "version"] and set(rule.strip()) == {"─"}
    assert all(cell_len(line.rstrip()) <= width for line in (head, first, second))
    assert first.split()[0] == "found" and first.split()[-1] == "7" and "a.csv:12" in first
    assert second.split()[0] == "late" and second.split()[-1] == "8" and "\x1b" not in second


def test_nothing_is_cut_where_everything_fits() -> None:
    one = {"file": "a.csv", "line": 2, "reason": "found `x`, expected int", "text": "a,x"}
    assert printed(rows(one, SHORT), 80)[2].split() == [*["found", "`x`,", "expected", "int", "a,x", "a.csv:2"], "7"]
    assert printed(rows(one, SHORT), 80)[3].split() == ["late", "b,2\\u{1b}[31m", "b.csv", "row", "3", "8"]


def test_rows_that_came_back_say_so() -> None:
    one = {"file": "a.csv", "line": 2, "reason": "late", "text": "a", "requeued": 9}
    assert printed(rows(one), 80)[2].split() == [*["requeued", "by", "version", "9;", "late", "a", "a.csv:2", "7"]]


def test_the_source_is_named_if_there_are_several() -> None:
    one, other = {"file": "a.csv", "line": 1, "text": "x"}, {"file": "a.csv", "line": 1, "text": "y"}
    assert "orders" not in printed(rows(one), 80)[2]
    found = printed(rows(one, {**other, "source": "days"}), 80)
    assert "orders: a.csv:1" in found[2] and "days: a.csv:1" in found[3]


def test_only_a_terminal_gets_the_narrow_table(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, mode="PERMISSIVE")
    world.arrive("a,1\nb,x\n")
    world.run()
    place = f"{world.root}/shop"

    def quarantine(*more: str) -> str:
        assert main(["quarantine", place, *more]) == 0
        return capfd.readouterr().out

    piped = quarantine()
    assert piped.split()[:4] == ["source", "file", "line", "row"] and quarantine("--wide") == piped
    monkeypatch.setattr(render, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    narrow = quarantine()
    assert narrow.split()[:4] == ["reason", "text", "place", "version"]
    assert narrow.endswith("--wide shows all columns\n") and "0000.csv:2" in narrow
    assert quarantine("--wide").split()[:4] != narrow.split()[:4], "many columns, folded"
    assert quarantine("--json").startswith('{"source":"source"')


def test_no_rows_need_no_hint(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.open()
    monkeypatch.setattr(render, "is_terminal", lambda: True)
    assert main(["quarantine", f"{world.root}/shop"]) == 0
    out = capfd.readouterr().out
    assert "no rows" in out and "--wide" not in out
    assert tm.read(world.root, "shop").quarantine().num_rows == 0

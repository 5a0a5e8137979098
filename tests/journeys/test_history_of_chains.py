"""`history` of a key of an operator behind others: the rows that reached it, made again from the state before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, run

SCHEMA = "k string, g string, n int"
FILES = [
    [("a", "x", 1), ("b", "y", 2), ("a", "x", 1), ("c", "x", 3)],
    [("b", "y", 2), ("a", "y", 4), ("d", "x", 5)],
    [("a", "x", 1), ("c", "x", 3)],
]
CALLS: list[str] = []


def numbered(key: Any, row: Any, kept: Any) -> Any:
    CALLS.append(row.k)
    kept.update((kept.getOption or 0) + 1)
    return (row.k, row.g, row.n * 10 + kept.get)


def chain(p: tm.Pipeline, world: World) -> None:
    once = world.read(p).dropDuplicates(["k", "n"], name="once")
    spec = tm.StateSpec.function(numbered)
    each = once.groupBy("k").mapWithState(spec, "int", SCHEMA, name="each").sql("SELECT g, n FROM rows WHERE n <> 31")
    each.groupBy("g").agg(n=tm.sum("n"), last=tm.last("n"), name="sums")


def begin(folder: Path, tasks: int) -> World:
    world = World(folder, chain, schema=SCHEMA)
    world.arrive(*FILES)
    assert run(world.open(), tasks=tasks) == [0, 1, 2]
    return world


@pytest.mark.parametrize("tasks", [1, 3])
def test_rows_of_a_key_are_those_that_the_operators_before_emitted(tasks: int, tmp_path: Path) -> None:
    r = begin(tmp_path, tasks).open()
    before = sorted(path for path in Path(r.opened.root).rglob("*") if path.is_file())
    found = {one.version: one for one in r.history("sums", "x")}
    assert {version: one.rows for version, one in found.items()} == {
        0: [{"g": "x", "n": 11}], 1: [{"g": "x", "n": 51}],
    }  # fmt: skip
    assert [one.files for one in found.values()] == [["0000.csv"], ["0001.csv"]]
    assert not any(one.unread for one in found.values())
    (of_y, of_y_again) = r.history("sums", "y")
    assert (of_y.rows, of_y_again.rows) == ([{"g": "y", "n": 21}], [{"g": "y", "n": 42}])
    assert sorted(path for path in Path(r.opened.root).rglob("*") if path.is_file()) == before, "nothing is stored"
    assert r.verify(deep=True).problems == []


def test_rows_of_the_first_operator_are_read_without_a_call(tmp_path: Path) -> None:
    r = begin(tmp_path, 1).open()
    CALLS.clear()
    (first,) = r.history("once", ("a", 1))
    assert first.rows == [{"k": "a", "g": "x", "n": 1}] * 2
    assert CALLS == []


def test_explain_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin(tmp_path, 1).open().explain("sums", "y")
    assert '{"g": "y", "n": 42}' in capsys.readouterr().out


def test_what_cannot_be_made_again_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = begin(tmp_path, 1)
    monkeypatch.setattr("tidemill.reading.again.LARGEST_BATCH", 10)
    (first, _) = world.open().history("sums", "y")
    assert first.rows == []
    assert first.unread == [
        "the rows of `sums` are outputs of `each`, and cannot be made again: the files of the batch have 24 bytes, and "
        "are read again up to 10"
    ]
    monkeypatch.undo()
    (world.inbox / "0000.csv").unlink()
    (first, second) = world.open().history("sums", "y")
    assert "cannot be made again: " in first.unread[0] and "0000.csv" in first.unread[0]
    assert second.rows == [{"g": "y", "n": 42}]

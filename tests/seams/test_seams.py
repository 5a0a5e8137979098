"""A new operator or action is one new file and one line: shown with a test-only one of each."""

from __future__ import annotations

import json
import types

import pytest

import tidemill as tm
from tests.seams.latest import Latest
from tests.seams.note import Note
from tests.surface import generate
from tests.surface.registered import register
from tidemill.cli.main import main
from tidemill.testing import Tester


@pytest.fixture
def with_additions(monkeypatch):
    monkeypatch.setattr(tm.GroupedStream, "latest", lambda g, value, name: g.add(Latest(name, value)), raising=False)


def pipeline():
    p = tm.Pipeline("seams")
    rows = p.read(tm.Rows("k string, v int"))
    latest = rows.groupBy("k").latest("v", name="latest")
    latest.groupBy("v").agg(keys=tm.count(), name="by-value")
    return p


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_new_operator_is_planned_applied_committed_chained_and_read(with_additions, tasks):
    t = Tester(pipeline(), tasks=tasks)
    t.batch([("a", 1), ("b", 2), ("a", 3)])
    t.restart()
    result = t.batch([("b", 3), ("c", 1)])
    assert {key: row.v for key, row in result.state["latest"].items()} == {"a": 3, "b": 3, "c": 1}
    assert {key: row[0] for key, row in result.state["by-value"].items()} == {3: 2, 2: 1, 1: 1}
    assert t.repository.head.schemas["latest"]["kind"] == "test-latest"


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A pipeline with a version 0, for the command line, in a working folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("a,1\n")
    (tmp_path / "shop.py").write_text(
        "import tidemill as tm\n\n"
        "p = tm.Pipeline('shop')\n"
        "rows = p.read(tm.Files('in', format='csv', schema='k string, n int'))\n"
        "rows.groupBy('k').agg(n=tm.sum('n'), name='sums')\n"
    )
    assert main(["init", "shop.py:p", "--root", "lake"]) == 0
    assert main(["run", "shop.py:p", "--root", "lake", "--engine", "local"]) == 0


def test_a_new_action_has_a_command(shop, monkeypatch, capfd):
    register(monkeypatch, Note)
    capfd.readouterr()
    call = ["note", "shop.py:p", "--root", "lake", "--reason", "hello", "--loud", "--json"]
    assert main([*call, "--dry-run"]) == 0
    planned = json.loads(capfd.readouterr().out)
    assert planned["changes"] == ["a note will say HELLO"]
    assert main([*call, "--expect", planned["requires"]]) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["versions"] == [1]
    assert main([*call, "--expect", planned["requires"]]) == tm.errors.Exit.FENCED
    head = tm.open(tm.load("shop.py:p").pipeline, root="lake").head
    assert (head.version, head.kind, head.reason) == (1, "void", "HELLO")


def test_a_new_action_has_a_method_an_operator_and_a_field_in_the_form(shop, monkeypatch):
    form = register(monkeypatch, Note)
    made = types.ModuleType("tidemill.action_methods")
    made.__package__ = "tidemill"
    exec(generate.formatted(generate._methods(), generate.METHODS), vars(made))  # noqa: S102
    repository = tm.open(tm.load("shop.py:p").pipeline, root="lake")
    plan = made.ActionMethods.note(repository, "hello", dry_run=True)
    assert plan.lines() == ["a note will say hello"]
    commit = made.ActionMethods.note(repository, "hello", expect=plan)
    assert (commit.version, commit.kind, commit.reason) == (1, "void", "hello")
    operators = generate.formatted(generate._operators(), generate.OPERATORS)
    assert "class TidemillNoteOperator(CorrectionOperator):" in operators and "loud: str | bool = False" in operators
    assert form.FIELDS["note"] == ("loud",) and form.helps()["loud"][0] == "note: use capital letters."

"""The table of the kinds of commits is whole, has the types of commits, and no module compares kinds by name."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args, get_type_hints

import tidemill
from tidemill.protocol.kinds import KINDS, RECORDED, Changes
from tidemill.protocol.records import Commit, Kind, PlanKind

PACKAGE = Path(tidemill.__file__).parent


def test_each_kind_has_a_row() -> None:
    assert set(KINDS) == set(get_args(Kind))
    assert [kind for kind, rules in KINDS.items() if rules.carries_out] == list(get_args(PlanKind))


def test_changes_have_the_names_and_types_of_the_fields_of_a_commit() -> None:
    of_commit, of_changes = get_type_hints(Commit), get_type_hints(Changes)
    assert of_changes == {name: of_commit[name] for name in of_changes}
    assert set(of_changes) == RECORDED.union(*(rules.changes for rules in KINDS.values()))


def test_rules_agree_with_each_other() -> None:
    for kind, rules in KINDS.items():
        assert rules.carries_out == (rules.replayed == "plan"), kind
        assert rules.carries_out or not rules.reads, kind
        assert rules.withdraws == ("withdraws" in rules.changes), kind
        assert not (rules.adds_published or rules.same_rows or rules.of_branch) or rules.withdraws, kind
        assert bool(rules.brings_operators) == ("restores" in rules.changes), kind
        assert rules.carries_out or "reason" in rules.changes, kind


def compared(code: str) -> list[str]:
    """The comparisons of a `kind` with the name of a kind of commits."""
    names, found = set(get_args(Kind)), []
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Compare):
            continue
        inner = list(ast.walk(node))
        is_kind = any(getattr(one, "attr", getattr(one, "id", "")) == "kind" for one in inner)
        if is_kind and names & {one.value for one in inner if isinstance(one, ast.Constant)}:
            found.append(ast.unparse(node))
    return found


def test_no_module_compares_the_kind_of_a_commit_with_a_name() -> None:
    assert len(compared("head().kind == 'rewind' or kind in ('batch', 'x') or 'void' != self.head.kind")) == 3
    found = {path.relative_to(PACKAGE).as_posix(): compared(path.read_text()) for path in PACKAGE.rglob("*.py")}
    assert {path: those for path, those in found.items() if those} == {
        "cli/progress.py": ["progress.kind == 'sweep'"],  # a line of progress is of a plan, as the next ones are
        "run/drain.py": ["planned.kind != 'batch'", "swept.kind == 'sweep'"],
    }

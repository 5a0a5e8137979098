"""The table of the kinds of commits is whole, has the types of commits, and no module compares kinds by name."""

from __future__ import annotations

import ast
import re
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
        assert bool(rules.brings_operators) == bool({"restores", "promoted"} & rules.changes), kind
        assert rules.carries_out or "reason" in rules.changes, kind


KIND = ("kind", "verb")
"""Names of what may hold the kind of a commit. The verb of a correction is its kind."""
SHOWN = {
    # A line of progress is of a plan, whose kinds are these two.
    "cli/progress.py": ["progress.kind == 'sweep'"],
    "airflow/calls/report.py": ["event.get('kind') == 'sweep'"],  # Airflow imports nothing of the protocol
    "run/drain.py": ["planned.kind != 'batch'", "swept.kind == 'sweep'"],
    # How a kind looks: the circle of a sweep is smaller, and the plural of batch is not batchs.
    "report/assets/graph.js": ['one.kind === "sweep"', 'one.kind === "sweep"'],
    "report/assets/sections.js": ['kind === "batch"'],
}
"""The comparisons that are allowed, by file."""


def is_kind(node: ast.AST) -> bool:
    """Whether an expression is a kind: a name, an attribute, an item, or what `get` returns."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=name)):
            return name in KIND
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=name), *_]):
            return name in KIND
    return False


def compared(code: str) -> list[str]:
    """The comparisons of a kind with the name of a kind of commits, in Python."""
    names, found = set(get_args(Kind)), []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Match):
            asked, given = node.subject, [*node.cases]
        elif isinstance(node, ast.Compare):
            asked, given = node, [node]
        else:
            continue
        constants = {one.value for each in given for one in ast.walk(each) if isinstance(one, ast.Constant)}
        if any(is_kind(one) for one in ast.walk(asked)) and names & constants:
            found.append(ast.unparse(node).partition("\n")[0])
    return found


def compared_in_js(code: str) -> list[str]:
    """The same in JavaScript. A `switch` over a kind counts, too."""
    names = "|".join(get_args(Kind))
    kind = r"""(?:[\w.]*\bkind|\w+\[["']kind["']\])"""
    name = rf"""["'](?:{names})["']"""
    return re.findall(rf"{kind} *[!=]==? *{name}|{name} *[!=]==? *{kind}|switch *\({kind}\)", code)


def test_comparisons_are_found() -> None:
    in_python = """
head().kind == 'rewind' or kind in ('batch', 'x') or 'void' != self.head.kind
row["kind"] == "batch" or event.get("kind") == "sweep" or event.get("kind", "") in ("skip",) or verb == "promote"
kind == 'Fenced' or clock == 'batch' or row["kind"] == word
match commit.kind:
    case "rewind" | "promote": pass
"""
    assert len(compared(in_python)) == 8
    in_js = """
one.kind === "sweep"; "batch" !== row["kind"]; switch (one.kind) { case "skip": }
kind == 'void'; clock === "batch"; one.kind === word
"""
    assert len(compared_in_js(in_js)) == 4


def test_no_module_compares_the_kind_of_a_commit_with_a_name() -> None:
    found = {path: compared(path.read_text()) for path in PACKAGE.rglob("*.py")}
    found |= {path: compared_in_js(path.read_text()) for path in PACKAGE.rglob("*.js") if ".min." not in path.name}
    assert {path.relative_to(PACKAGE).as_posix(): those for path, those in found.items() if those} == SHOWN

"""Writes what follows from the fields of actions: `python -m tests.surface.generate`.

These are the methods of `Repository`, the operators of Airflow, and rows of tables in the docs. Editors, type checkers
and readers see them as if they were written by hand. A test compares them with the actions.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidemill.actions.contract import Action, CommitAction, Option, options_of
from tidemill.actions.registry import ACTIONS, airflow_operator_of
from tidemill.airflow.tasks.correction_form import ARGUMENTS, FIELDS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pyspark_jobs/tidemill"
METHODS, OPERATORS = PACKAGE / "action_methods.py", PACKAGE / "airflow/tasks/action_operators.py"
GUIDES, REFERENCE = ROOT / "docs/guides", ROOT / "docs/reference/api.md"
FORMS, CORRECTIONS = GUIDES / "airflow.md", GUIDES / "airflow-corrections.md"
OWN_DAGS = GUIDES / "airflow-production.md"
_ANY = f"(?:{'|'.join(map(airflow_operator_of, ARGUMENTS))})"
BY = "Written by `python -m tests.surface.generate`."
ENGINES = {
    "PromotionOperator": "`engine`: what a replay before it runs on. Default: auto.",
    "UpkeepOperator": "`engine`: what merges state. Default: local.",
}
RESULTS = {
    "CorrectionOperator": "`versions`, `already_committed`, `requires`, `changes` (in words), and more of the same in "
    "parts",
    "PromotionOperator": "`versions`, `already_committed`, `replaced`, `withdraws`, `adds`, …; in a dry run `requires` "
    "and `changes` (in words)",
    "UpkeepOperator": "`deleted`, `merged`, `compacted`, …; in a dry run `requires` and `changes` (in words)",
}
HOW = {
    "dry_run": "change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.",
    "expect": "such a plan, or its `requires`{head}. `Fenced` if something else would happen now: what was agreed to "
    "is done, or nothing.{only}",
    "if_needed": "if {made_if}, return {before}; of no effect in a dry run.",
}


def generated() -> dict[Path, str]:
    """Return the texts of all files that are written, or that have generated rows."""
    return {
        METHODS: formatted(_methods(), METHODS),
        OPERATORS: formatted(_operators(), OPERATORS),
        FORMS: _with_form(FORMS.read_text("utf-8")),
        CORRECTIONS: _with_fields(CORRECTIONS.read_text("utf-8")),
        OWN_DAGS: _with_operators(OWN_DAGS.read_text("utf-8")),
        REFERENCE: _with_entries(REFERENCE.read_text("utf-8")),
    }


def formatted(text: str, path: Path) -> str:
    """Return Python code as ruff sorts its imports and formats it."""
    for how in (["check", "--fix", "--quiet", "--select=I,F401"], ["format"]):
        command = [sys.executable, "-m", "ruff", *how, f"--stdin-filename={path}", "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def _methods() -> str:
    needed: dict[str, str] = {}
    body = [line for action in ACTIONS.values() for line in _method(action, needed)]
    return "\n".join(
        [
            '"""The methods of `Repository` that carry out an action: one for each class in `actions/`.',
            "",
            f'{BY}\n"""',
            "from __future__ import annotations",
            "from typing import TYPE_CHECKING, Literal, overload",
            "from .reader import Reader",
            "if TYPE_CHECKING:",
            "    from .actions.carry_out import Expect",
            *(f"    {line}" for line in sorted(set(needed.values()))),
            "class ActionMethods(Reader):",
            '    """Adds a method for each action to a `Reader`."""',
            *body,
        ]
    )


def _method(action: type[Action], needed: dict[str, str]) -> Iterator[str]:
    """Yield the code of a method, and note the imports that its annotations need."""
    arguments = list(python_arguments(action))
    returns, plan = _annotation(action, "outcome", needed), _annotation(action, "look", needed)
    for _, annotation, _ in arguments:
        needed |= _imports(annotation, action.__module__)
    shown = [
        f"{name}: {annotation}" + ("" if default is dataclasses.MISSING else f" = {default!r}")
        for name, annotation, default in arguments
    ]
    at = action.argument_order.index("dry_run") if "dry_run" in action.argument_order else None

    def head(dry_run: str, if_needed: str = "bool = False") -> str:
        rest = "expect: Expect | None = None" + (f", if_needed: {if_needed}" if action.knows_tries else "")
        if at is not None:
            return ", ".join(["self", *shown[:at], dry_run, *shown[at:], "*", rest])
        return ", ".join(["self", *shown, "*", dry_run, rest])

    both = returns
    if plan != returns:
        both = f"{returns} | {plan}" + (" | None" if action.none_if_made else "")
        done, dry = "dry_run: Literal[False] = False", "dry_run: Literal[True]"
        calls = [(head(done), returns), (head(dry), plan)]
        if action.none_if_made:
            calls[:1] = [(head(done, "Literal[False] = False"), returns), (head(done, "bool"), f"{returns} | None")]
        yield from (f"    @overload\n    def {action.verb}({given}) -> {made}: ..." for given, made in calls)
    yield f"    def {action.verb}({head('dry_run: bool = False')}) -> {both}:"
    yield textwrap.indent(f'"""{_documented(action)}\n"""', " " * 8)
    yield "        from .actions.carry_out import act"
    yield f"        from {action.__module__.removeprefix('tidemill')} import {action.__name__}"
    given = ", ".join(f"{name}={name}" for name, _, _ in arguments)
    tries = "if_needed" if action.knows_tries else "False"
    yield f"        made: {both} = act(self.opened, {action.__name__}({given}), dry_run, expect, {tries})"
    yield "        return made"


def python_arguments(action: type[Action]) -> Iterator[tuple[str, str, object]]:
    """Yield the name, the annotation and the default of each argument of the method of an action.

    A reason that must not be empty, but follows arguments with defaults, is empty by default.
    """
    fields = {one.name: one for one in dataclasses.fields(action) if one.metadata["option"].in_python}
    required = [name for name, one in fields.items() if one.default is dataclasses.MISSING]
    given = tuple(name for name in action.argument_order if name != "dry_run")
    order = given or (*required, *(name for name in fields if name not in required))
    assert sorted(order) == sorted(fields), f"{action.verb}: argument_order has other names than the fields"
    has_default = False
    for name in order:
        default: object = fields[name].default
        if default is dataclasses.MISSING and has_default:
            assert name == "reason", f"{action.verb}: `{name}` is required, so it comes before arguments with defaults"
            default = ""
        has_default = default is not dataclasses.MISSING
        yield name, str(fields[name].type), default


def _documented(action: type[Action]) -> str:
    makes_commit = issubclass(action, CommitAction)
    said = {
        "head": ", or the commit of the head" if makes_commit else "",
        "made_if": action.made_if,
        "before": "None" if action.none_if_made else "what that made",
        "only": " A commit says only that no other one came since." if makes_commit else "",
    }
    how = [
        f"`{name}`: {text.format(**said)}" for name, text in HOW.items() if name != "if_needed" or action.knows_tries
    ]
    shared = textwrap.fill(" ".join(how), 112, break_long_words=False, break_on_hyphens=False)
    body, examples, rest = inspect.cleandoc(action.method).partition("\n\n>>> ")
    return f"{body}\n\n{shared}{examples}{rest}"


def _annotation(action: type[Action], method: str, needed: dict[str, str]) -> str:
    """Return what a method of an action is annotated to return."""
    function = getattr(action, method)
    text = str(function.__annotations__["return"])
    needed |= _imports(text, function.__module__)
    return text


def _imports(annotation: str, module: str) -> dict[str, str]:
    """Return an import for each name in an annotation, as the module of the annotation imports or defines it."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for one in node.names:
                place = f"{'.' * max(node.level - 1, 0)}{node.module}"
                place = f".actions.{node.module}" if node.level == 1 else place
                found[one.asname or one.name] = f"from {place} import {one.name}" + (
                    f" as {one.asname}" if one.asname else ""
                )
        if isinstance(node, ast.ClassDef):
            found[node.name] = f"from {module.removeprefix('tidemill')} import {node.name}"
    names = {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}
    return {name: found[name] for name in names if name in found and name != "Literal"}


def _operators() -> str:
    return "\n".join(
        [
            '"""The operators of Airflow that carry out an action: one for each class in `actions/` that has one.',
            "",
            f'{BY}\n"""',
            "from __future__ import annotations",
            "from collections.abc import Sequence",
            "from typing import Any",
            f"from .actions import {', '.join(sorted({ACTIONS[verb].operator_base for verb in ARGUMENTS}))}",
            *(line for verb in ARGUMENTS for line in _operator(verb, ACTIONS[verb])),
        ]
    )


def _operator(verb: str, action: type[Action]) -> Iterator[str]:
    base = action.operator_base
    yield f"class {airflow_operator_of(verb)}({base}):"
    yield textwrap.indent(f'"""{_operator_doc(verb, action)}\n"""', "    ")
    yield f'    verb = "{verb}"'
    own = {given: (option, default) for given, option, default in _own(verb, action)}
    if own:
        names = ", ".join(f'"{name}"' for name in own)
        yield f"    template_fields = (*{base}.template_fields, {names})"
        given = ", ".join(f"{name}: {airflow_type(option, default)}" for name, (option, default) in own.items())
        yield f"    def __init__(self, *, {given}, **kwargs: Any) -> None:\n        super().__init__(**kwargs)"
        yield from (f"        self.{name} = {name}" for name in own)


def _own(verb: str, action: type[Action]) -> Iterator[tuple[str, Option, object]]:
    """Yield the name in Airflow, the option and the default of each argument that the operator itself has."""
    for name, option, default in options_of(action):
        given = option.name_in_airflow(name)
        if given in ARGUMENTS[verb]:
            yield given, option, None if option.airflow_name else default


def airflow_type(option: Option, default: object) -> str:
    """Return the annotation and the default of an argument in Airflow, whose templates make text of everything."""
    if option.parsed == "flag":
        return f"str | bool = {bool(option.airflow_default)}"
    kinds = ["str"]
    kinds += ["int"] if option.parsed in ("version", "time", "times", "counts") else []
    kinds += ["float"] if option.parsed == "seconds" else []
    kinds += ["Sequence[str]"] if option.is_repeated else []
    return " | ".join(kinds) + ("" if default is dataclasses.MISSING else " | None = None")


def _operator_doc(verb: str, action: type[Action]) -> str:
    about = action.short_help or inspect.cleandoc(action.__doc__ or "").split(",")[0] + "."
    lines = [f"Run `tidemill {verb}` as a task: {about[0].lower()}{about[1:]}", ""]
    for name, option, _ in _own(verb, action):
        text = option.form or f"{option.help[0].lower()}{option.help[1:]}"
        more = " A list is accepted, too." if option.is_repeated else ""
        more += " Default: yes." if option.airflow_default else ""
        lines += _bullet(f"`{name}`: {text}{more}")
    lines += _bullet(f"`reason`: why.{' The commit records it.' if issubclass(action, CommitAction) else ''}")
    lines += _bullet("`report_only`: say what would be done, and do nothing.")
    lines += _bullet(
        "`expect`: what a task with `report_only` returned as `requires`. If something else would happen now, the task "
        "fails, and nothing has changed."
    )
    lines += _bullet(ENGINES[action.operator_base]) if action.operator_base in ENGINES else []
    others = "" if action.operator_base in ENGINES else ", without an engine"
    rest = (
        f"The other arguments are those of `TidemillRunOperator`{others}. Returns (as XCom) the command's "
        f"result: {RESULTS.get(action.operator_base, RESULTS['CorrectionOperator'])}."
    )
    return "\n".join([*lines, "", *textwrap.wrap(rest, 116)])


def _bullet(text: str) -> list[str]:
    return textwrap.wrap(text, 116, initial_indent="- ", subsequent_indent="  ")


def _with_operators(page: str) -> str:
    """Return the page of operators with a row for each action."""
    operators = {
        f"| `{airflow_operator_of(verb)}` |": f" `{verb}` | {listed([*own, 'reason', 'report_only', 'expect'])} |"
        for verb, own in ARGUMENTS.items()
    }
    return _block(page, operators, rf"^\| `{_ANY}` \|.*\n")


def _with_form(page: str) -> str:
    """Return the page of forms with the row of corrections."""
    fields = dict.fromkeys(name for names in FIELDS.values() for name in names)
    form = {"| `NAME__correct` |": f" {listed(['correction', 'reason', *fields, 'carry_out'])} |"}
    return _block(page, form, r"^\| `NAME__correct` \| `correction`.*\n")


def _with_fields(page: str) -> str:
    """Return the page of corrections with the fields of each."""
    for verb in FIELDS:
        page, found = re.subn(rf"^(\| `{verb}` \| [^|\n]+ \|) [^|\n]+ \|$", rf"\1 {_fields(verb)} |", page, flags=re.M)
        assert found == 1, f"no row, or several, for `{verb}`"
    return page


def _fields(verb: str) -> str:
    """Return the fields of a correction in words."""
    needed = [name for name, option, _ in options_of(ACTIONS[verb]) if option.is_needed]
    if len(needed) != 1:
        return (listed(FIELDS[verb]) or "none") + ("; at least one" if needed else "")
    return ", ".join(f"`{name}`" + (" (required)" if name in needed else "") for name in FIELDS[verb])


def listed(names: Iterable[str]) -> str:
    """Return names in code style."""
    return ", ".join(f"`{name}`" for name in names)


def _with_entries(page: str) -> str:
    """Return the reference with an entry for each operator."""
    entries = {f"::: tidemill.airflow.{airflow_operator_of(verb)}": "" for verb in ARGUMENTS}
    return _block(page, entries, rf"^::: tidemill\.airflow\.{_ANY}\n")


def _block(page: str, lines: dict[str, str], old: str) -> str:
    """Return a page with new lines where the first old one was, and without the other old ones."""
    first = re.search(old, page, re.M)
    assert first, f"no line is like {old}"
    made = "".join(f"{start}{rest}\n" for start, rest in lines.items())
    before, after = page[: first.start()], page[first.start() :]
    return before + made + re.sub(old, "", after, flags=re.M)


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")

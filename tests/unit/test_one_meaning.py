"""A public name has one meaning: it is defined in one module of the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import tidemill

PACKAGE = Path(tidemill.__file__).parent
EXCEPTIONS = {
    "LOG": "the logger of a module",
    "Maintain": "the action, and what `tidemill_dags(maintain=…)` accepts",
    "Drop": "the step of `Stream.drop`, and an operator of Airflow, which stores and shows the name of its class",
}


def _is_command(module: str, node: ast.stmt) -> bool:
    """Whether a statement defines the command of a verb, which has the name of the verb as its function has."""
    return (
        module.startswith("cli.")
        and isinstance(node, ast.FunctionDef)
        and any(ast.unparse(one).startswith("click.command(") for one in node.decorator_list)
    )


def _defined(module: str, body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that a module defines at its top level. What it imports is defined elsewhere."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if not _is_command(module, node):
                    yield node.name
            case ast.Assign():
                yield from (one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If() | ast.Try() | ast.With():
                inner = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt)]
                yield from _defined(module, inner)


def _homes(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the modules that define each public name."""
    homes: defaultdict[str, set[str]] = defaultdict(set)
    for module, text in sources.items():
        for name in _defined(module, ast.parse(text).body):
            if not name.startswith("_"):
                homes[name].add(module)
    return homes


def test_every_public_name_is_defined_in_one_module() -> None:
    sources = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path.read_text() for path in PACKAGE.rglob("*.py")
    }
    homes = _homes(sources)
    assert {name: sorted(found) for name, found in homes.items() if len(found) > 1 and name not in EXCEPTIONS} == {}
    assert [name for name in EXCEPTIONS if len(homes[name]) < 2] == []


def test_a_second_definition_is_found_unless_it_is_the_command_of_a_verb() -> None:
    command = '@click.command("run")\n@target\ndef run():\n    pass\n'
    sources = {
        "a": "def run(): pass\nif X:\n    SIZE = 1\nfrom b import Other\n_OWN = 1",
        "b": "SIZE: int = 2\nclass Other: pass\n_OWN = 2",
        "cli.run": command,
        "c": command.replace("click.command", "cached"),
    }
    homes = _homes(sources)
    assert {name for name, found in homes.items() if len(found) > 1} == {"run", "SIZE"}
    assert homes["run"] == {"a", "c"}

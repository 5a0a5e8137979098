"""No module of the package imports itself through others, imports inside of functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import tidemill

PACKAGE = Path(tidemill.__file__).parent


def _sources(package: Path) -> dict[str, str]:
    """Return the text of each module by its name. A package has the name of its folder, with `.__init__`."""
    paths = {path: (package.name, *path.relative_to(package).with_suffix("").parts) for path in package.rglob("*.py")}
    return {".".join(parts): path.read_text("utf-8") for path, parts in paths.items()}


def _statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that can be carried out. Those for type checkers are not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            yield from _statements(ast.Module(child.orelse, []))
        else:
            yield from _statements(child)


def _imported(module: str, text: str, known: Mapping[str, str]) -> set[str]:
    """Return the modules that a module imports."""
    found = []
    for node in _statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
            continue
        base = module.split(".")[: -node.level] if node.level else []
        target = ".".join([*base, *([node.module] if node.module else [])])
        found += [name if _of(name := f"{target}.{one.name}", known) else target for one in node.names]
    return {one for name in found if (one := _of(name, known)) is not None}


def _of(name: str, known: Mapping[str, str]) -> str | None:
    return next((one for one in (name, f"{name}.__init__") if one in known), None)


def circles(sources: Mapping[str, str]) -> list[list[str]]:
    """Return the groups of modules in which each one imports itself, through others or directly."""
    imports = {module: _imported(module, text, sources) for module, text in sources.items()}
    reached = {module: _reached(module, imports) for module in imports}
    groups = {
        tuple(sorted(one for one in reached[module] if module in reached[one]))
        for module in imports
        if module in reached[module]
    }
    return sorted(map(list, groups))


def _reached(module: str, imports: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    left = [module]
    while left:
        left += (new := imports[left.pop()] - reached)
        reached |= new
    return reached


def test_no_modules_of_the_package_import_each_other() -> None:
    assert circles(_sources(PACKAGE)) == []


def test_a_circle_is_found_also_through_functions_and_packages() -> None:
    sources = {
        "p.__init__": "",
        "p.a": "def f():\n    from .room import b",
        "p.room.__init__": "from ..c import x",
        "p.room.b": "import p.c",
        "p.c": "class C:\n    def f(self):\n        from . import a, d",
        "p.d": "if TYPE_CHECKING:\n    from .e import x\nelse:\n    import json",
        "p.e": "from p.d import x\nfrom p import e as e",
    }
    assert circles(sources) == [["p.a", "p.c", "p.room.b"], ["p.e"]]
    sources["p.d"] = "from .e import x"
    assert circles(sources) == [["p.a", "p.c", "p.room.b"], ["p.d", "p.e"]]

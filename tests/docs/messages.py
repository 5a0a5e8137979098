"""The messages of errors as the sources have them: text with `…` for each part that varies."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT
from tidemill.errors import ERROR_KINDS


def messages() -> Iterator[tuple[str, str | None]]:
    """Each text of the sources, with the kind of error that is made of it, if that can be seen."""
    for path in sorted((ROOT / "pyspark_jobs/tidemill").rglob("*.py")):
        yield from _of_python(path)
    for path in sorted((ROOT / "native").rglob("*.rs")):
        yield from _of_rust(path)


def _of_python(path: Path) -> Iterator[tuple[str, str | None]]:
    kinds: dict[ast.AST, str] = {}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERROR_KINDS and node.args:
            kinds[node.args[0]] = node.func.id
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) and (text := _template(node)):
            yield _once(text), kinds.get(node)


def _template(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "…"
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(value) for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left) + _template(node.right)
    return "…"


def _of_rust(path: Path) -> Iterator[tuple[str, str | None]]:
    for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', path.read_text("utf-8"), re.S):
        text = re.sub(r"\\\n\s*", "", literal).replace('\\"', '"')
        yield _once(re.sub(r"\{[^{}]*\}", "…", text)), None


def _once(text: str) -> str:
    return re.sub(r"…+", "…", text)

"""Imports pyarrow without NumPy, for a run on engine `local` whose code cannot use NumPy.

pyarrow imports NumPy if it is installed, which takes longer than a small batch. Without NumPy, pyarrow lacks only the
conversions from and to NumPy and pandas. INVARIANT: pyarrow gets NumPy unless the pipeline is a file that defines no
function and imports only Tidemill and a few modules of the standard library. Then no code of the user sees Arrow data.
"""

from __future__ import annotations

import ast
import sys
from importlib.util import find_spec
from pathlib import Path

from ..names import AUTO

_KNOWN = {"__future__", "datetime", "decimal", "os", "pathlib", "tidemill", "typing"}
"""Modules that a file may import. None of them imports NumPy, or runs code of the user."""
_CODE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_RUNS_TEXT = {"__import__", "compile", "eval", "exec"}


def import_pyarrow(reference: str, engine: str) -> None:
    """Import pyarrow, without NumPy if neither the pipeline nor the engine can use it. Nothing else is imported.

    Spark's own Python code may use NumPy, so a run that could start Spark gets it.
    """
    place, _, _ = reference.rpartition(":")
    is_local = engine == "local" or (engine == AUTO and find_spec("pyspark") is None)
    if not is_local or sys.modules.keys() & {"numpy", "pyarrow"} or not only_declares(place):
        return
    sys.modules["numpy"] = None  # type: ignore[assignment]  # then importing it raises
    try:
        import pyarrow
        import pyarrow._compute  # noqa: F401
    finally:
        del sys.modules["numpy"]


def only_declares(place: str) -> bool:
    """Whether a Python file defines no function and imports only known modules.

    If it cannot be read or parsed, the answer is no, and loading it reports why.
    """
    if not place.endswith(".py"):
        return False
    try:
        nodes = list(ast.walk(ast.parse(Path(place).read_bytes())))
    except (OSError, SyntaxError, ValueError):
        return False
    return not any(isinstance(node, _CODE) or _runs_more(node) for node in nodes)


def _runs_more(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(one.name.partition(".")[0] not in _KNOWN for one in node.names)
    if isinstance(node, ast.ImportFrom):
        return bool(node.level) or str(node.module).partition(".")[0] not in _KNOWN
    return isinstance(node, ast.Name) and node.id in _RUNS_TEXT

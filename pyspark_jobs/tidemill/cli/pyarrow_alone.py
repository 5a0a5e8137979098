"""Imports pyarrow without NumPy, for a run on engine `local` whose code cannot use NumPy, and lets it end quickly.

pyarrow imports NumPy if it is installed, which takes longer than a small batch. Without NumPy, pyarrow lacks only the
conversions from and to NumPy and pandas. INVARIANT: pyarrow gets NumPy unless this process ends with the command, and
the pipeline is a file that only declares: it defines no function, imports only Tidemill and a few modules of the
standard library, and uses of them only what returns no data. Then no code of the user sees Arrow data. Without NumPy,
pyarrow crashes in `to_pandas`. Such a process also skips Python's last look for garbage, which takes a tenth of a small
run: no object of the user waits for it.
"""

from __future__ import annotations

import ast
import atexit
import gc
import sys
from importlib.util import find_spec
from pathlib import Path

from ..names import AUTO

_KNOWN = {"__future__", "datetime", "decimal", "os", "pathlib", "tidemill", "typing"}
"""Modules that a file may import. None of them imports NumPy, or runs code of the user."""
_CODE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_REACHES_MORE = {"compile", "eval", "exec", "getattr", "globals", "locals", "setattr", "vars"}
_DECLARES = {
    *("Files", "GroupedStream", "Json", "Parquet", "Pipeline", "Stream"),
    *("agg", "drop", "dropDuplicates", "dropDuplicatesWithinWatermark", "groupBy", "read", "select", "unionByName"),
    *("window", "session_window", "withWatermark", "write"),
    *("approx_count_distinct", "collect_set", "count", "first", "last", "max", "max_by", "mean", "min", "min_by"),
    *("stddev", "sum", "var"),
    *("environ", "get", "getenv", "path", "join", "parent", "resolve", "expanduser", "home", "cwd"),
    *("annotations", "Decimal", "Path", "date", "datetime", "time", "timedelta", "timezone", "utc", "UTC", "days"),
    *("Any", "Final"),
}
"""Attributes that a file may use, and names that it may import. None of them returns rows of a pipeline."""


def import_pyarrow(reference: str, engine: str) -> None:
    """Import pyarrow, without NumPy if neither the pipeline nor the engine can use it. Nothing else is imported.

    Spark's own Python code may use NumPy, so a run that could start Spark gets it. To be called only in a process that
    ends with the command.
    """
    place = reference if reference.endswith(".py") else reference.rpartition(":")[0]
    is_local = engine == "local" or (engine == AUTO and find_spec("pyspark") is None)
    if not is_local or sys.modules.keys() & {"numpy", "pyarrow"} or not only_declares(place):
        return
    sys.modules["numpy"] = None  # type: ignore[assignment]  # then importing it raises
    try:
        import pyarrow
        import pyarrow._compute  # noqa: F401
    finally:
        del sys.modules["numpy"]
    atexit.register(gc.freeze)


def only_declares(place: str) -> bool:
    """Whether a Python file defines no function, imports only known modules, and uses nothing that returns data.

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
        return any(one.name not in _KNOWN for one in node.names)
    if isinstance(node, ast.ImportFrom):
        names = {one.name for one in node.names}
        return bool(node.level) or node.module not in _KNOWN or not names <= _DECLARES
    if isinstance(node, ast.Attribute):
        return node.attr not in _DECLARES
    return isinstance(node, ast.Name) and (node.id in _REACHES_MORE or node.id.startswith("__"))

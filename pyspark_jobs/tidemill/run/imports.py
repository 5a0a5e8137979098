"""Which modules the functions of a pipeline import in their bodies, which nothing but running them would miss.

Modules that a function uses as globals are not listed, because opening the function on a worker imports them.
"""

from __future__ import annotations

import dis
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any


def imported(functions: Iterable[Any], by_value: Collection[str]) -> set[str]:
    """Return the top-level modules that the functions import, of those that this process can import.

    Functions that they call are followed if they are of `__main__` or a module in `by_value`. A module of which this
    process lacks the code is not listed, because the function evidently does without it.
    """
    shipped = {"__main__", *by_value}
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [one for each in functions for one in _parts(each)]
    while waiting:
        function = waiting.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        names: set[str] = set()
        for code in _codes(function.__code__):
            found.update(_imports(code))
            names.update(code.co_names)
        called = [one for name in names for one in _parts(function.__globals__.get(name))]
        called += [one for cell in function.__closure__ or () for one in _parts(_content(cell))]
        waiting += [one for one in called if one.__module__ in shipped or one.__module__ not in sys.modules]
    return {name for name in found if name not in sys.stdlib_module_names and _is_here(name)}


def _parts(value: Any) -> list[FunctionType]:
    """Return a function, that of a method, or the functions of a class or of an object's class."""
    if isinstance(value, FunctionType):
        return [value]
    if isinstance(value, MethodType):
        return _parts(value.__func__)
    if isinstance(value, Callable):  # type: ignore[arg-type]
        kind = value if isinstance(value, type) else type(value)
        return [one for one in vars(kind).values() if isinstance(one, FunctionType)]
    return []


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _imports(code: CodeType) -> Iterator[str]:
    """Yield the top-level modules of absolute imports. The bytecode pushes the level two places before the import."""
    steps = list(dis.get_instructions(code))
    for place, step in enumerate(steps):
        if step.opname == "IMPORT_NAME" and steps[place - 2].argval == 0:
            yield str(step.argval).partition(".")[0]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not set yet
        return None


def _is_here(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False

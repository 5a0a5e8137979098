"""`definitions`: a digest of all that makes the rows of each operator and each sink, so that two codes can be compared.

A digest covers the operator with its options and functions, and everything above it: SQL, watermarks, and how sources
are parsed. It does not cover where files lie and how many a batch reads. INVARIANT: the same code has the same digests
in every process and on every machine.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import hashlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from types import CodeType, ModuleType
from typing import Any
from uuid import UUID

import pyarrow as pa

from ..sources.asked import parsing_of
from .job import Job, JobNode

_DEPTH = 8
"""How deep the options of a function or an object are followed."""
_OTHERS = {*sys.stdlib_module_names, "pyarrow", "pyspark", "pandas", "numpy"}
"""Packages whose objects count by their type, such as loggers and locks: their content is not the user's."""
_NO_ROWS = ("initial", "initial_state", "ranges")
"""Fields of operators on which no row of a batch depends."""
_PLAIN = (
    *(bool, int, float, complex, str, bytes, Decimal, date, time, timedelta, type(None)),
    *(PurePath, re.Pattern, UUID, Fraction, tzinfo),
)
"""Values whose text says what they are."""

_EXECUTED = "<string>"
"""The file of functions that `exec` made. From Python 3.13 on, `inspect` finds the program of `python -c` there."""


def definitions(job: Job) -> dict[str, dict[str, str]]:
    """Return the digests of a job's `operators` and `sinks`, by name. An option with its default value does not count.

    A function counts with its source without comments, its default arguments, the values that it has captured, and the
    fields of the object whose method it is. Where it is defined does not count, nor do the functions that it calls, nor
    what it reads from its module.
    """
    found: dict[int, str] = {}
    for node in job.nodes:  # parents come first
        found[node.number] = _digest([_said_of(job, node), [found[parent] for parent in node.parents]])
    return {
        "operators": {name: found[placed.node] for name, placed in job.operators.items()},
        "sinks": {name: found[output.node] for name, output in job.outputs.items()},
    }


def _digest(said: Any) -> str:
    """Return a digest of a plain value."""
    text = json.dumps(said, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def described_function(function: Callable[..., Any]) -> dict[str, str]:
    """Return a function's name and a digest of its source, or of its byte code if the source is not available."""
    name = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__name__)}"
    return {"name": name, "digest": hashlib.blake2b(_text(function), digest_size=16).hexdigest()}


def _digest_of_text(function: Any) -> str:
    """Return a digest of a function or class. Comments and format do not count."""
    text = _text(function)
    with contextlib.suppress(SyntaxError, ValueError):  # a lambda within an expression may not stand alone
        text = ast.unparse(ast.parse(textwrap.dedent(text.decode()))).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _text(function: Any) -> bytes:
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename != _EXECUTED:
        with contextlib.suppress(OSError, TypeError):
            return inspect.getsource(function).encode()
    return repr(type(function)).encode() if code is None else repr(_byte_code(code)).encode()


def _byte_code(code: CodeType) -> tuple[Any, ...]:
    """Return what a function's byte code does: the code, and the names and constants that it uses."""
    constants = [_byte_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return code.co_code.hex(), code.co_names, code.co_varnames, constants


def _said_of(job: Job, node: JobNode) -> Any:
    """Return what a node does, as a plain value. Numbers are left out, because they depend on other nodes."""
    if node.source is not None:
        source = job.sources[node.source]
        return ["source", node.source, job.time_zone, _plain(source.schema), _plain(parsing_of(source))]
    if node.step is not None:
        return ["step", _plain(node.step)]
    if node.watermark is not None:
        return ["watermark", _plain(job.watermarks.get(node.watermark, node.watermark))]
    if node.operator is not None:
        return ["operator", _plain(job.operators[node.operator].operator)]
    return ["union"]


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON has it, by its content. Of objects whose content is not known, the type alone counts."""
    if isinstance(value, _PLAIN):
        return [type(value).__name__, repr(value)]
    if isinstance(value, pa.Schema):
        return ["schema", [[field.name, str(field.type), field.nullable] for field in value]]
    if isinstance(value, pa.DataType | pa.Field | ModuleType):
        return [type(value).__name__, str(value) if isinstance(value, pa.DataType | pa.Field) else value.__name__]
    if depth >= _DEPTH:
        return ["deep", type(value).__qualname__]
    if isinstance(value, tuple | list):
        return ["list", [_plain(one, depth + 1) for one in value]]
    if isinstance(value, set | frozenset):
        return ["set", sorted(json.dumps(_plain(one, depth + 1), sort_keys=True) for one in value)]
    if isinstance(value, Mapping):
        items = [[_plain(name, depth + 1), _plain(one, depth + 1)] for name, one in value.items()]
        return ["map", sorted(items, key=json.dumps)]
    if isinstance(value, type):
        return ["class", value.__qualname__, _digest_of_text(value)]
    if isinstance(value, functools.partial):
        return ["partial", [_plain(one, depth + 1) for one in (value.func, value.args, value.keywords)]]
    if callable(value) and hasattr(value, "__code__"):
        return ["function", value.__qualname__, _digest_of_text(value), _captured(value, depth)]
    return ["object", *_object(value, depth)]


def _captured(function: Any, depth: int) -> Any:
    """Return the default arguments of a function, the values that it has captured, and the object of a method."""
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_set(cell)]
    of = getattr(function, "__self__", None)
    return _plain([function.__defaults__, function.__kwdefaults__, cells, of], depth + 1)


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _object(value: Any, depth: int) -> list[Any]:
    """Return the type of an object, and its fields that do not have their default values."""
    kind = type(value)
    if dataclasses.is_dataclass(value):
        given = {
            one.name: _plain(getattr(value, one.name), depth + 1)
            for one in dataclasses.fields(value)
            if one.compare and one.name not in _NO_ROWS and not _has_default(value, one)
        }
        return [kind.__qualname__, given]
    if kind.__module__.partition(".")[0] in _OTHERS:
        return [kind.__qualname__]
    slots = [name for one in kind.__mro__ for name in _names(getattr(one, "__slots__", ())) if hasattr(value, name)]
    given = {**{name: getattr(value, name) for name in slots}, **getattr(value, "__dict__", {})}
    fields = {name: _plain(one, depth + 1) for name, one in sorted(given.items()) if not name.startswith("__")}
    return [kind.__qualname__, _digest_of_text(kind), fields]


def _names(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _has_default(value: Any, field: dataclasses.Field[Any]) -> bool:
    found = getattr(value, field.name)
    if field.default is not dataclasses.MISSING:
        return found is field.default or (isinstance(found, (*_PLAIN, tuple)) and found == field.default)
    return field.default_factory is not dataclasses.MISSING and not found

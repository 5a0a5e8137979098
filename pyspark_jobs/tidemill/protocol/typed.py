"""Strict conversion of JSON to the types in annotations, for the fields of records.

Each annotation has one reader, which is made once. INVARIANT: values are never converted or guessed. A value fits as it
is, or the error names the field, the expected type and the value found.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Callable
from typing import Any, Literal

from .. import names
from .bounds import Hexadecimal, Range
from .described import Ddl, DdlType, ddl_fault, type_fault
from .records import OutputFile, PublishedFile, QuarantineFile, ReplacedObject, Requeued, Segment

_Reader = Callable[[Any], Any]

_WORDS = {int: "an integer", str: "a string", bool: "true or false", float: "a number"}
_HASH = re.compile(r"[0-9a-f]{16}")
_OBJECTS = (Segment, OutputFile, QuarantineFile, PublishedFile, Requeued)


class Unfit(ValueError):
    """A value that does not fit its type. Each enclosing reader appends its part of the path, from the inside out."""

    def __init__(self, said: str, *way: str) -> None:
        super().__init__(said)
        self.said, self.way = said, list(way)

    def __str__(self) -> str:
        where = "".join(reversed(self.way)).lstrip(".")
        return f"field `{where}`{self.said}" if where else f"the record{self.said}"


def reader(kind: Any) -> _Reader:
    """Return the reader for the annotation `kind`. A reader raises `Unfit` for a value that does not fit."""
    return _reader(kind)


@functools.cache
def hints(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a record class. To evaluate them takes longer than to read a record."""
    return typing.get_type_hints(kind, include_extras=True)


@functools.cache
def _reader(kind: Any) -> _Reader:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return lambda raw: raw
    if kind is Ddl:
        return functools.partial(_ddl, ddl_fault)
    if kind is DdlType:
        return functools.partial(_ddl, type_fault)
    if origin is typing.Annotated:
        return _of_bounded(arguments[1])
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _of_record(kind)
    if origin in (list, tuple):
        return _of_sequence(origin, arguments)
    if origin is dict:
        return _of_object(reader(arguments[1]))
    if origin in (types.UnionType, typing.Union):
        inner = reader(next(option for option in arguments if option is not type(None)))
        return lambda raw: None if raw is None else inner(raw)
    if origin is Literal:
        return _of_one_of(arguments)
    return _of_word(kind)


def _of_record(kind: Any) -> _Reader:
    kinds = hints(kind)
    fields = [(f.name, reader(kinds[f.name]), _default_of(f)) for f in dataclasses.fields(kind)]
    check = _CHECKS.get(kind, _check_object if kind in _OBJECTS else None)

    def read(raw: Any) -> Any:
        if not isinstance(raw, dict):
            raise _unfit("an object", raw)
        values: dict[str, Any] = {}
        for name, of_field, default in fields:
            if name in raw:
                try:
                    values[name] = of_field(raw[name])
                except Unfit as error:
                    error.way.append(f".{name}")
                    raise
            elif default is None:
                raise Unfit(" is missing", f".{name}")
            else:
                values[name] = default()
        if check is not None:
            check(values)
        record = object.__new__(kind)
        vars(record).update(values)  # all fields, in order, as `__init__` would; a frozen one takes eight times as long
        return record

    return read


def _default_of(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    """Return a function that makes the default of a field, or None if the field has no default."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    default = field.default
    return None if default is dataclasses.MISSING else lambda: default


def _check_object(values: dict[str, Any]) -> None:
    """Raise `CorruptState` for a name that leaves the repository."""
    names.inside(values["name"])


def _check_segment(values: dict[str, Any]) -> None:
    _check_object(values)
    lo, hi = values["lo"], values["hi"]
    if lo > hi:
        raise _unfit("`lo` at or below `hi`", f"`lo` {lo:016x}, `hi` {hi:016x}")


def _check_replaced(values: dict[str, Any]) -> None:
    """Raise `CorruptState` for a name that leaves the repository. Without a name, nothing took the object's place."""
    names.inside(values["old"])
    if values["name"]:
        names.inside(values["name"])


_CHECKS: dict[Any, Callable[[dict[str, Any]], None]] = {Segment: _check_segment, ReplacedObject: _check_replaced}


def _of_sequence(origin: Any, arguments: tuple[Any, ...]) -> _Reader:
    of_item = reader(arguments[0])
    length = None if origin is list or Ellipsis in arguments else len(arguments)

    def read(raw: Any) -> Any:
        if not isinstance(raw, list):
            raise _unfit("a list", raw)
        values: list[Any] = []
        try:
            values.extend(map(of_item, raw))  # items before the bad one stay in the list, so its length is the index
        except Unfit as error:
            error.way.append(f"[{len(values)}]")
            raise
        if length is not None and len(values) != length:
            raise _unfit(f"{length} values", raw)
        return values if origin is list else tuple(values)

    return read


def _of_object(of_item: _Reader) -> _Reader:
    def read(raw: Any) -> Any:
        if not isinstance(raw, dict):
            raise _unfit("an object", raw)
        values = {}
        for name, item in raw.items():
            try:
                values[name] = of_item(item)
            except Unfit as error:
                error.way.append(f".{name}")
                raise
        return values

    return read


def _of_one_of(options: tuple[Any, ...]) -> _Reader:
    def read(raw: Any) -> Any:
        if raw not in options:
            raise _unfit(f"one of {options}", raw)
        return raw

    return read


def _of_bounded(bounds: Range | Hexadecimal) -> _Reader:
    """Return the reader of an integer with bounds, or of a hash."""
    if isinstance(bounds, Hexadecimal):
        return _hash
    least, greatest = bounds.least, bounds.greatest

    def read(raw: Any) -> Any:
        if type(raw) is not int:
            raise _unfit("an integer", raw)
        if not least <= raw <= greatest:
            raise _unfit(f"an integer from {least} to {greatest}", raw)
        return raw

    return read


def _of_word(kind: Any) -> _Reader:
    expected = _WORDS.get(kind, str(kind))
    if kind is str:
        return _text

    def read(raw: Any) -> Any:
        if not isinstance(raw, kind) or (kind is int and isinstance(raw, bool)):
            raise _unfit(expected, raw)
        return raw

    return read


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise _unfit("a string", raw)
    return raw


def _ddl(fault_of: Callable[[str], str | None], raw: Any) -> str:
    text = _text(raw)
    fault = fault_of(text)
    if fault is not None:
        raise Unfit(f": {fault}")
    return text


def _hash(raw: Any) -> int:
    if not isinstance(raw, str) or _HASH.fullmatch(raw) is None:
        raise _unfit("16 hex digits", raw)
    return int(raw, 16)


def _unfit(expected: str, found: Any) -> Unfit:
    return Unfit(f": expected {expected}, found {str(found)[:80]!r}")

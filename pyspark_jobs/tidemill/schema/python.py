"""Dataclasses as schemas: annotations to Arrow types, as Spark infers them (`int` is bigint, `Decimal` decimal(38,18)).

`Annotated[Decimal, "decimal(10,2)"]` names the type as DDL if the Python type is not enough.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import types
import typing
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from .ddl import parse_ddl
from .types import TIMESTAMP

_TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    decimal.Decimal: pa.decimal128(38, 18),
    datetime.date: pa.date32(),
    datetime.datetime: TIMESTAMP,
}


def from_dataclass(cls: type) -> pa.DataType:
    """Return the struct type of a dataclass, with one nullable field for each of its fields."""
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise InvalidInput(f"read the schema of dataclass `{cls.__name__}`: {error}") from error
    fields = dataclasses.fields(cls)
    return pa.struct([pa.field(f.name, _type(hints[f.name], f"{cls.__name__}.{f.name}")) for f in fields])


def _type(hint: Any, where: str) -> pa.DataType:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _annotated(arguments, where)
    if origin in (types.UnionType, typing.Union):
        options = [option for option in arguments if option is not type(None)]
        if len(options) == 1:
            return _type(options[0], where)
    elif origin in (list, tuple) and arguments and (origin is list or arguments[1:] == (Ellipsis,)):
        return pa.list_(_type(arguments[0], where))
    elif origin is dict:
        return pa.map_(_type(arguments[0], where), _type(arguments[1], where))
    elif isinstance(hint, type):
        if dataclasses.is_dataclass(hint):
            return from_dataclass(hint)
        if hint in _TYPES:
            return _TYPES[hint]
    raise InvalidInput(
        f"field `{where}` is annotated {hint}, which has no column type",
        hint="supported: bool, int, float, str, bytes, Decimal, date, datetime, list[…], dict[…, …], dataclasses, "
        'and Annotated[…, "DDL type"]',
    )


def _annotated(arguments: tuple[Any, ...], where: str) -> pa.DataType:
    for note in arguments[1:]:
        if isinstance(note, str):
            kind = parse_ddl(note)
            if isinstance(kind, pa.DataType):
                return kind
            raise InvalidInput(f"field `{where}` is annotated `{note}`, expected one type such as `decimal(10,2)`")
    return _type(arguments[0], where)

"""Which columns can be read through other columns without loss, and reading them so.

`field_changes` names every difference between two schemas, and says whether data of the old one can be read through the
new one; `widened` reads it. INVARIANT: widening keeps values, key hashes and the order of keys, because all widths of a
type have the same canonical bytes (docs/format.md, "Key hash").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pyarrow as pa
import pyarrow.types as pt

from ..values import dataclass
from .ddl import type_ddl

Exact = Literal["nowhere", "in keys of maps", "everywhere"]
"""Where equal values must stay equal."""
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


@dataclass(frozen=True)
class FieldChange:
    """One difference between two schemas: a path such as `a.b`, and its type before and after, as DDL.

    `before` is empty for a new field, `after` for a removed one. `is_accepted`: data of the old schema can be read
    through the new one.
    """

    path: str
    before: str
    after: str
    is_accepted: bool

    def __str__(self) -> str:
        if not self.before:
            return f"new column `{self.path} {self.after}`"
        if not self.after:
            return f"missing column `{self.path} {self.before}`"
        return f"column `{self.path}` is {self.before}, now {self.after}"


def field_changes(before: pa.Schema, after: pa.Schema, *, grows: bool, exact: Exact = "nowhere") -> list[FieldChange]:
    """Return the differences between two schemas. With `grows`, new nullable fields are accepted.

    Keys do not grow, because a further field changes their hashes. Where values are `exact`, equal ones must stay
    equal: a struct gets no further field, and a float does not become a double, because 0.1 as float is
    0.10000000149011612 as double. To read stored rows nothing needs to be exact, because earlier versions accepted such
    changes.

    >>> old, new = pa.schema([("n", pa.int32())]), pa.schema([("n", pa.int64()), ("s", pa.string())])
    >>> [(change.path, change.is_accepted) for change in field_changes(old, new, grows=True)]
    [('n', True), ('s', True)]
    """
    return list(_fields("", list(before), list(after), _Rule(grows, exact)))


@dataclass(frozen=True)
class _Rule:
    """Which changes are accepted: further fields of this schema or struct; only those that keep equal values equal."""

    grows: bool
    exact: Exact

    @property
    def within(self) -> _Rule:
        """The rule for fields of structs."""
        return _Rule(self.grows and self.exact != "everywhere", self.exact)

    @property
    def keys(self) -> _Rule:
        """The rule for keys of maps."""
        return _Rule(False, "nowhere" if self.exact == "nowhere" else "everywhere")


def widened(columns: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return `columns` as columns of `schema`, by name. A column that they lack is null.

    `field_changes` must have said that all differences are accepted.
    """
    rows, there = columns.num_rows, set(columns.schema.names)
    made = [
        columns.column(field.name).cast(field.type) if field.name in there else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(made, schema=schema)


def _fields(path: str, before: list[pa.Field], after: list[pa.Field], rule: _Rule) -> Iterator[FieldChange]:
    known, now = {field.name: field for field in before}, {field.name: field for field in after}
    for name, field in now.items():
        if name in known:
            yield from _field(path + name, known[name], field, rule)
        else:
            yield FieldChange(path + name, "", _shown(field), rule.grows and field.nullable)
    for name, field in known.items():
        if name not in now:
            yield FieldChange(path + name, _shown(field), "", False)
    kept = [name for name in now if name in known], [name for name in known if name in now]
    if kept[0] != kept[1]:
        yield FieldChange(path.rstrip("."), ", ".join(kept[1]), ", ".join(kept[0]), False)


def _field(path: str, before: pa.Field, after: pa.Field, rule: _Rule) -> Iterator[FieldChange]:
    inner = list(_type(path, before.type, after.type, rule.within))
    if before.nullable and not after.nullable:
        yield FieldChange(path, _shown(before), _shown(after), False)
    elif not before.nullable and after.nullable and not inner:
        yield FieldChange(path, _shown(before), _shown(after), True)
    yield from inner


def _type(path: str, before: pa.DataType, after: pa.DataType, rule: _Rule) -> Iterator[FieldChange]:
    if pt.is_struct(before) and pt.is_struct(after):
        yield from _fields(f"{path}.", list(before), list(after), rule)
    elif pt.is_list(before) and pt.is_list(after):
        yield from _type(f"{path}.element", before.value_type, after.value_type, rule)
    elif pt.is_map(before) and pt.is_map(after):
        yield from _type(f"{path}.key", before.key_type, after.key_type, rule.keys)
        yield from _type(f"{path}.value", before.item_type, after.item_type, rule)
    elif before != after:
        yield FieldChange(path, type_ddl(before), type_ddl(after), _widens(before, after, rule))


def _widens(before: pa.DataType, after: pa.DataType, rule: _Rule) -> bool:
    """Whether every value of one type is one of the other, with the same canonical bytes. The rules are Iceberg's."""
    if before in _INTEGERS and after in _INTEGERS:
        return _INTEGERS.index(before) < _INTEGERS.index(after)
    if before == pa.float32():
        return bool(after == pa.float64()) and rule.exact != "everywhere"
    if pt.is_decimal128(before) and pt.is_decimal128(after):
        return bool(before.scale == after.scale and before.precision < after.precision)
    return False


def _shown(field: pa.Field) -> str:
    return type_ddl(field.type) + ("" if field.nullable else " not null")


def shared_columns(before: pa.Schema, after: pa.Schema) -> tuple[pa.Schema, list[FieldChange]]:
    """Return the columns that two schemas share, in the wider of both types, and the differences that are left out.

    >>> old, new = pa.schema([("n", pa.int32()), ("s", pa.string())]), pa.schema([("n", pa.int64())])
    >>> schema, rest = shared_columns(old, new)
    >>> schema.types, [str(change) for change in rest]
    ([DataType(int64)], ['missing column `s string`'])
    """
    found: list[pa.Field] = []
    rest: list[FieldChange] = []
    known = {field.name: field.with_nullable(True) for field in before}
    for field in (field.with_nullable(True) for field in after):
        if field.name not in known:
            rest.append(FieldChange(field.name, "", _shown(field), False))
            continue
        other = known[field.name]
        if all(one.is_accepted for one in field_changes(pa.schema([other]), pa.schema([field]), grows=False)):
            found.append(field)
        elif all(one.is_accepted for one in field_changes(pa.schema([field]), pa.schema([other]), grows=False)):
            found.append(other)
        else:
            rest.append(FieldChange(field.name, _shown(other), _shown(field), False))
    rest += [FieldChange(name, _shown(field), "", False) for name, field in known.items() if name not in after.names]
    return pa.schema(found), rest

"""Partition folders such as `country=UK/`: names as Spark writes them, rows for each folder, and values from names.

INVARIANT: a folder's name depends only on the values, and never leaves the sink's folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from ..errors import CorruptState, InvalidInput
from ..schema import quoted, string_array
from ..schema.kernels import pc
from ..sources import connections
from ..sources.file_columns import text_value
from ..sources.listing import NULL_PARTITION, unescaped
from .far_times import times_from_text

_ESCAPED = {chr(code) for code in range(32)} | set("\"#%'*/:=?\\\x7f{[]^")


LONGEST_NAME = 255
"""The longest name of a folder that file systems accept, in bytes."""


def parts(rows: pa.Table, columns: Sequence[str]) -> list[tuple[str, pa.Table]]:
    """Return (folder, rows without the partition columns), sorted by folder. Rows of a folder keep their order."""
    if not columns:
        return [("", rows)]
    folders = _folders(rows, columns).dictionary_encode()
    counts = {pair["values"]: pair["counts"] for pair in folders.indices.value_counts().to_pylist()}
    order = pc.sort_indices(folders.indices)  # a stable sort
    rest = rows.drop_columns(list(columns))
    found, start = [], 0
    for number, folder in enumerate(folders.dictionary.to_pylist()):
        found.append((folder, rest.take(order.slice(start, counts[number]))))
        start += counts[number]
    for folder, _ in found:
        _check_lengths(folder)
    return sorted(found, key=lambda part: part[0].encode())


def _check_lengths(folder: str) -> None:
    """Raise `InvalidInput`, before the batch is committed, for a value that is too long for a folder's name."""
    for name in folder.split("/"):
        if len(name.encode()) > LONGEST_NAME:
            raise InvalidInput(
                f"a sink's partition folder `{name[:60]}…` has {len(name.encode())} bytes, "
                f"but a folder name may have at most {LONGEST_NAME}",
                hint="partition by a column with shorter values",
            )


def folder_values(suffix: str) -> dict[str, str | None]:
    """Return the partition columns and their texts in a folder's path."""
    pairs = [part.partition("=") for part in suffix.split("/") if part]
    return {unescaped(name): None if value == NULL_PARTITION else unescaped(value) for name, _, value in pairs}


def with_folders(rows: pa.Table, suffix: str, schema: pa.Schema) -> pa.Table:
    """Return `rows` of a file with the columns of its folder, in the order of `schema`."""
    values = folder_values(suffix)
    columns = []
    for field in schema:
        if field.name in values:
            columns.append(pa.repeat(_value(values[field.name], field, suffix), rows.num_rows))
        else:
            columns.append(rows.column(field.name))
    return pa.Table.from_arrays(columns, schema=schema)


def _value(text: str | None, field: pa.Field, suffix: str) -> pa.Scalar:
    """Return the value of a folder's text, as `_text` wrote it."""
    found = text_value(text, field.type, "UTC")
    if found is not None:
        return found
    rows = times_from_text(pa.table({field.name: string_array([text])}), pa.schema([field]))
    if rows is None:
        raise CorruptState(f"read the folder `{suffix}` that a commit names: found `{text}`, expected {field.type}")
    return rows.column(0)[0]


def escaped(text: str) -> str:
    """Return a name or value escaped for a path, as Spark does."""
    return "".join(f"%{ord(character):02X}" if character in _ESCAPED else character for character in text)


def _folders(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Return the folder of each row."""
    as_text = ", ".join(f"{_text(rows.schema.field(name))} AS {quoted(name)}" for name in columns)
    table = connections.query(connections.for_files(), f"SELECT {as_text} FROM given", given=rows.select(list(columns)))
    levels = []
    for name in columns:
        values = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        texts = values.dictionary.to_pylist()
        if pa.types.is_floating(rows.schema.field(name).type):
            texts = [None if text is None else _as_java(text) for text in texts]
        names = [f"{escaped(name)}={escaped(text) if text else NULL_PARTITION}/" for text in texts]
        levels.append(string_array(names).take(values.indices))
    return pc.binary_join_element_wise(*levels, string_array([""])[0])


_NOT_FINITE = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _as_java(text: str) -> str:
    """Return a float's text in Java's form, which Spark reads: `1.0E7`, `0.001`, `Infinity`.

    It has the fewest digits that give the same float. Java before 19 writes more digits for one float in some hundreds,
    and for the smallest float (`4.9E-324`), so Spark would name their folders differently.
    """
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    sign, digits, exponent = Decimal(text).as_tuple()  # no arithmetic: it would round by the thread's decimal context
    assert isinstance(exponent, int)
    places = len(digits) + exponent  # digits before the point
    written = "".join(map(str, digits)).rstrip("0")
    if not written:
        made = "0.0"
    elif 0 < places <= 7:
        made = f"{written[:places].ljust(places, '0')}.{written[places:] or '0'}"
    elif -3 < places <= 0:
        made = f"0.{'0' * -places}{written}"
    else:
        made = f"{written[0]}.{written[1:] or '0'}E{places - 1}"
    return f"-{made}" if sign else made


def _text(field: pa.Field) -> str:
    """Return SQL for a value as text, with times in UTC."""
    name = quoted(field.name)
    if pa.types.is_timestamp(field.type) and field.type.tz is not None:
        name = f"({name} AT TIME ZONE 'UTC')"
    return f"CAST({name} AS VARCHAR)"

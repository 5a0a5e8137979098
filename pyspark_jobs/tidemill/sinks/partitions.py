"""Folders by partition columns, `country=UK/`: names as Spark writes them, rows by folder, and values back from names.

INVARIANT: a folder's name is a function of the values alone, and never leaves the sink's folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidInput
from ..schema import quoted, string_array
from ..sources import connections
from ..sources.convert import Formats, text_value
from ..sources.listing import NULL_PARTITION

_ESCAPED = {chr(code) for code in range(32)} | set("\"#%'*/:=?\\\x7f{[]^")


LONGEST_NAME = 255
"""Bytes that a file system takes as the name of a folder."""


def parts(rows: pa.Table, columns: Sequence[str]) -> list[tuple[str, pa.Table]]:
    """(folder, rows without the partition columns) for each combination of values, by folder; rows keep their order."""
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
    """`InvalidInput`, before anything is committed, for a value that no file system takes as a folder's name."""
    for name in folder.split("/"):
        if len(name.encode()) > LONGEST_NAME:
            raise InvalidInput(
                f"a sink's partition folder `{name[:60]}…` has {len(name.encode())} bytes, "
                f"but a folder name may have at most {LONGEST_NAME}",
                hint="partition by a column with shorter values",
            )


def folder_values(suffix: str) -> dict[str, str | None]:
    """The columns and texts that a folder stands for."""
    pairs = [part.partition("=") for part in suffix.split("/") if part]
    return {unquote(name): None if value == NULL_PARTITION else unquote(value) for name, _, value in pairs}


def with_folders(rows: pa.Table, suffix: str, schema: pa.Schema) -> pa.Table:
    """`rows` of a file with the columns of its folder, in the order of `schema`."""
    values = folder_values(suffix)
    columns = []
    for field in schema:
        if field.name in values:
            text = pa.table({"text": string_array([values[field.name]])})
            made = connections.query(
                connections.for_files(),
                f"SELECT {text_value('text', field.type, Formats())} AS value FROM given",
                given=text,
            )
            columns.append(pa.repeat(made.column(0).cast(field.type)[0], rows.num_rows))
        else:
            columns.append(rows.column(field.name))
    return pa.Table.from_arrays(columns, schema=schema)


def escaped(text: str) -> str:
    """A name or value as part of a path, as Spark escapes it."""
    return "".join(f"%{ord(character):02X}" if character in _ESCAPED else character for character in text)


def _folders(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """The folder of each row."""
    texts = ", ".join(f"{_text(rows.schema.field(name))} AS {quoted(name)}" for name in columns)
    table = connections.query(connections.for_files(), f"SELECT {texts} FROM given", given=rows.select(list(columns)))
    levels = []
    for name in columns:
        values = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        told = values.dictionary.to_pylist()
        if pa.types.is_floating(rows.schema.field(name).type):
            told = [None if text is None else _as_java(text) for text in told]
        names = [f"{escaped(name)}={escaped(text) if text else NULL_PARTITION}/" for text in told]
        levels.append(string_array(names).take(values.indices))
    return pc.binary_join_element_wise(*levels, string_array([""])[0])


_NOT_FINITE = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _as_java(text: str) -> str:
    """The text of a float in Java's form, which Spark reads: `1.0E7`, `0.001`, `Infinity`.

    It has the fewest digits that give the same float. Java before 19 has more for one in some hundreds, and for the
    smallest of all (`4.9E-324`): Spark would name another folder for those.
    """
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    sign, digits, exponent = Decimal(text).as_tuple()  # arithmetic would round, as the thread's decimal context says
    assert isinstance(exponent, int)
    places = len(digits) + exponent  # of the whole part
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
    """SQL: a value as text, times in UTC."""
    name = quoted(field.name)
    if pa.types.is_timestamp(field.type) and field.type.tz is not None:
        name = f"({name} AT TIME ZONE 'UTC')"
    return f"CAST({name} AS VARCHAR)"

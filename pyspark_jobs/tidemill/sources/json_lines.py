"""JSON lines: one object a line, or one value or list of objects in a file with `multiLine`.

DuckDB validates and converts by the rules of `convert`. INVARIANT: every line that is not empty is a row or a reject;
`_row` is the number of its line, from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from ..schema import binary_array, conform, has_within, quoted, string_array
from . import connections
from .contract import ROW
from .convert import MARK, Column, Conversion, Formats, json_columns, json_structure
from .delimited import Decoded, misfit_reason, sequence
from .file_bytes import LINES, Unreadable, pieces
from .rejects import Reject

_NUMBER, _LINE, _OBJECT = "_number", "_line", "_object"
_BOM = b"\xef\xbb\xbf"
_WRITTEN_MARK = MARK.replace("\x02", "\\u0002")
_LONG_NUMBER = re.compile(rb"\d[\d.]{15}")
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*+"|(-?\d[\d.]{15,}(?:[eE][+-]?\d+)?)')


@dataclass(frozen=True)
class JsonOptions:
    """The formats of dates and timestamps, and whether a file is one JSON value."""

    multi_line: bool = False
    formats: Formats = field(default_factory=Formats)


def read_json(stream: Any, schema: pa.Schema, options: JsonOptions, time_zone: str, what: str) -> Iterator[Decoded]:
    """Yield the objects of `stream` in the columns of `schema`. Missing fields are null; unknown fields are ignored."""
    row = 0
    found = pieces(stream, LINES)
    for number, data in enumerate(found):
        text = data.removeprefix(_BOM) if number == 0 else data
        if options.multi_line:
            text += b"".join(found)
        piece = _Piece(text, row, schema, options, time_zone, what)
        yield piece.decode()
        row += len(piece.lines)


class _Piece:
    """Decodes some lines of a file into rows and rejects."""

    def __init__(
        self, data: bytes, row: int, schema: pa.Schema, options: JsonOptions, time_zone: str, what: str
    ) -> None:
        marked = any(has_within(f.type, _is_long_decimal) for f in schema) and _LONG_NUMBER.search(data) is not None
        self._data, self._row, self._schema, self._what = data, row, schema, what
        self._formats = replace(options.formats, marked=marked)
        self._multi_line = options.multi_line
        self._connection = connections.for_files(time_zone)
        given = _mark_long_numbers(data) if marked else data
        self.lines = self._elements(given) if options.multi_line else _split(given)

    def decode(self) -> Decoded:
        """Return the rows and rejects of these lines."""
        table, rejects = self._as_text()
        found = connections.query(self._connection, self._conversion().select(), lines=table)
        bad = found.column(0)
        if pc.any(bad).as_py():
            numbers = found.filter(bad).column(1).combine_chunks()
            rejects += self._explain(table.filter(pc.is_in(table.column(_NUMBER), numbers)))
            found = found.filter(pc.invert(bad))
        values = found.select(list(range(2, 2 + len(self._schema))))
        rows = conform(values, self._schema, self._what).append_column(pa.field(ROW, pa.int64()), found.column(1))
        return Decoded(rows, sorted(rejects, key=lambda reject: reject.line or 0))

    def _as_text(self) -> tuple[pa.Table, list[Reject]]:
        """Return the numbered lines as text. A line that is not UTF-8 is empty there, and a reject."""
        rejects: list[Reject] = []
        binary = binary_array(self.lines)
        try:
            text = binary.cast(pa.string())
        except pa.ArrowInvalid:
            rejects = [self._reject(n, None, "not UTF-8") for n, line in enumerate(self.lines) if not _is_utf8(line)]
            text = binary_array([line if _is_utf8(line) else b"" for line in self.lines]).cast(pa.string())
        return pa.table({_NUMBER: sequence(self._row, len(self.lines)), _LINE: text}), rejects

    def _elements(self, data: bytes) -> list[bytes]:
        """Return the objects of a file that is one JSON value: the elements of a list, or the value itself."""
        if not _is_utf8(data):
            raise Unreadable("not UTF-8")
        text = pa.table({_LINE: string_array([data.decode()])})
        valid = connections.query(self._connection, f"SELECT json_valid({_LINE}) AS valid FROM file", file=text)
        if not valid.column(0)[0].as_py():
            raise Unreadable("not JSON")
        if not data.lstrip().startswith(b"["):
            return [data]
        elements = f"SELECT unnest(from_json({_LINE}, '[\"JSON\"]')) AS value FROM file"
        found = connections.query(
            self._connection, f"SELECT CAST(value AS VARCHAR) AS value FROM ({elements})", file=text
        )
        return [b"null" if value is None else value.encode() for value in found.column(0).to_pylist()]

    def _conversion(self) -> Conversion:
        """Return the conversion of lines. `_fields` are a line's columns as JSON, null if the line is not an object."""
        begins = f"(starts_with({_LINE}, '{{') OR starts_with(ltrim({_LINE}, ' \t\r'), '{{'))"
        fields = (
            f"from_json(CASE WHEN {begins} AND json_valid({_LINE}) THEN {_LINE} END, {json_structure(self._schema)})"
        )
        given = f"(SELECT {_NUMBER}, {fields} AS _fields FROM lines)"
        object_ = Column(pa.field(_OBJECT, pa.string(), nullable=False), "CASE WHEN _fields IS NOT NULL THEN '{}' END")
        columns = [Column(field, f"_fields.{quoted(field.name)}") for field in self._schema]
        return json_columns([*columns, object_], given, self._formats, also=[_NUMBER])

    def _explain(self, broken: pa.Table) -> list[Reject]:
        """Return a reject for each invalid line, with the first column that does not fit and the reason."""
        rejects = []
        columns = len(self._schema)
        for row in connections.query(self._connection, self._conversion().explain(), lines=broken).to_pylist():
            number = row[_NUMBER] - self._row
            if row[f"f{columns}"]:
                if self.lines[number].strip() and _is_utf8(self.lines[number]):
                    rejects.append(self._reject(number, None, "not a JSON object"))
                continue
            i = next(i for i in range(columns) if row[f"f{i}"])
            shown = row[f"r{i}"] and row[f"r{i}"].replace(_WRITTEN_MARK, "")
            rejects.append(self._reject(number, self._schema.names[i], misfit_reason(shown, self._schema.field(i))))
        return rejects

    def _reject(self, number: int, column: str | None, reason: str) -> Reject:
        lines = self.lines if self._multi_line else _split(self._data)
        text = lines[number].rstrip(b"\r").decode(errors="backslashreplace").replace(_WRITTEN_MARK, "")
        return Reject(None if self._multi_line else self._row + number + 1, column, reason, text)


def _split(data: bytes) -> list[bytes]:
    return data.removesuffix(b"\n").split(b"\n")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_long_decimal(kind: pa.DataType) -> bool:
    """Return whether a value of this type may have more digits than a double."""
    return bool(pt.is_decimal(kind) and kind.precision > 15)


def _mark_long_numbers(data: bytes) -> bytes:
    """Return `data` with long numbers as marked strings, because DuckDB reads numbers in JSON as doubles."""
    mark = b'"' + _WRITTEN_MARK.encode()
    return _TOKEN.sub(lambda match: mark + match[1] + b'"' if match[1] else match[0], data)

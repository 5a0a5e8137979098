"""CSV: DuckDB splits lines into cells, and `convert` turns them into values. Each record becomes a row or a reject.

Finding files and cutting blocks happens elsewhere. INVARIANT: every record of the file is a row or a reject and has a
number. Empty lines are neither, but have a number too.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..schema import conform, int64_array, int64_scalar, listed, literal, quoted, to_ddl, type_ddl
from ..store.full import temporary_folder
from . import connections
from .contract import ROW
from .convert import Column, Conversion, Formats, text_columns
from .file_bytes import PIECE_BYTES, Quoting, Unreadable, pieces
from .rejects import Reject

_REJECTS = "store_rejects = true, rejects_limit = 0"
_NO_REJECTS = "ignore_errors = false"
_BOM = b"\xef\xbb\xbf"
_REASONS = {
    "MISSING COLUMNS": "too few columns",
    "TOO MANY COLUMNS": "too many columns",
    "UNQUOTED VALUE": "an unclosed quote, or text next to a quoted value",
    "INVALID ENCODING": "not UTF-8",
    "LINE SIZE OVER MAXIMUM": "the line is too long",
}


@dataclass(frozen=True)
class CsvOptions:
    """The format of delimited text: Spark's options and defaults, except `escape`, which is a backslash in Spark."""

    header: bool = False
    separator: str = ","
    quote: str = '"'
    escape: str = '"'
    null_value: str = ""
    formats: Formats = field(default_factory=Formats)

    @property
    def without_header(self) -> CsvOptions:
        """The same format for records alone."""
        return replace(self, header=False)


@dataclass(frozen=True)
class Decoded:
    """Consecutive records of a file: rows with the file's columns and `_row`, and rejects in order."""

    rows: pa.Table | None
    rejects: Sequence[Reject] = ()


def read_csv(stream: Any, schema: pa.Schema, options: CsvOptions, time_zone: str, what: str) -> Iterator[Decoded]:
    """Yield the records of `stream` in the columns of `schema`. Raises `Unreadable` if DuckDB cannot find records."""
    quoting = Quoting(options.separator, options.quote, options.escape)
    row, line, begun = 0, 1, False
    for data in pieces(stream, quoting):
        if not begun:
            begun = True
            data = data.removeprefix(_BOM)
            head = after_header(data, schema, options) if options.header else 0
            line += data.count(b"\n", 0, head)
            data = data[head:]
        if data:
            decoder = _Decoder(_Piece(data, quoting, row, line), schema, options, time_zone, what)
            yield decoder.decode()
            row, line = row + decoder.records, line + data.count(b"\n")


class _Piece:
    """Whole records of a file, and their position in it. Single records are located only on demand."""

    def __init__(self, data: bytes, quoting: Quoting, row: int, line: int) -> None:
        self.data, self.row, self.line = data, row, line
        self._quoting = quoting

    @cached_property
    def _plain(self) -> bytes:
        return self._quoting.plain(self.data)

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Start and end of each record, without its line end."""
        found, start = [], 0
        for record in self._plain.removesuffix(b"\n").split(b"\n"):
            found.append((start, start + len(record.removesuffix(b"\r"))))
            start += len(record) + 1
        return found

    def for_duckdb(self) -> _Given:
        """Return the piece in a form that DuckDB reads.

        All its line ends are of one kind, and records with a bare carriage return become empty lines, because DuckDB
        rejects a whole file that has either."""
        if b"\r" not in self.data:
            return _Given(self.data, "\\n")
        returns, pairs, feeds = (self._plain.count(mark) for mark in (b"\r", b"\r\n", b"\n"))
        if returns == pairs and returns in (0, feeds):
            return _Given(self.data, "\\r\\n" if returns else "\\n")
        bare = {n for n, (start, end) in enumerate(self.spans) if b"\r" in self._plain[start:end]}
        data = b"".join((b"" if n in bare else self.data[a:b]) + b"\n" for n, (a, b) in enumerate(self.spans))
        return _Given(data, "\\n", {n: _Broken("a carriage return without a line feed", None, None) for n in bare})

    @property
    def may_have_empty_lines(self) -> bool:
        """Whether some record may be empty. False means that every record has a character."""
        return self.data.startswith((b"\n", b"\r\n")) or b"\n\n" in self.data or b"\n\r\n" in self.data

    def text(self, record: int) -> str:
        """Return the record as it is in the file."""
        start, end = self.spans[record]
        return self.data[start:end].rstrip(b"\r\n").decode(errors="backslashreplace")

    def line_of(self, record: int) -> int:
        """Return the line of the file, from 1, on which the record begins."""
        return self.line + self.data.count(b"\n", 0, self.spans[record][0])


@dataclass(frozen=True)
class _Broken:
    """A record that DuckDB could not split into cells."""

    reason: str
    column: str | None
    text: str | None


@dataclass(frozen=True)
class _Given:
    """The input of DuckDB: bytes, their line end, and the records that were removed from them."""

    data: bytes
    line_end: str
    broken: dict[int, _Broken] = field(default_factory=dict)


@dataclass
class _Decoder:
    """Decodes one piece into rows and rejects. `decode` sets `records`."""

    piece: _Piece
    schema: pa.Schema
    options: CsvOptions
    time_zone: str
    what: str
    records: int = 0

    def decode(self) -> Decoded:
        """Return the rows and rejects of the piece."""
        given = self.piece.for_duckdb()
        with temporary_folder(len(given.data)) as folder:
            path = os.path.join(folder, "piece.csv")
            with open(path, "wb") as file:
                file.write(given.data)
            good = None if given.broken or self.piece.may_have_empty_lines else self._decode_if_all_good(path, given)
            return good if good is not None else self._decode_with_rejects(path, given)

    def _decode_if_all_good(self, path: str, given: _Given) -> Decoded | None:
        """Return the rows if every record is valid, else None: the common case, cheaper than with rejects."""
        cells = _cells(path, given, self.schema, self.options, _NO_REJECTS)
        try:
            found = connections.query(connections.for_files(self.time_zone), self._conversion(f"({cells})").select())
        except connections.error_type():
            return None
        if pc.any(found.column(0)).as_py():
            return None
        self.records = found.num_rows
        return Decoded(self._numbered(found, sequence(self.piece.row, found.num_rows)))

    def _decode_with_rejects(self, path: str, given: _Given) -> Decoded:
        connection = connections.for_files(self.time_zone)
        cells = _cells(path, given, self.schema, self.options, _REJECTS)
        try:
            found = connections.query(connection, self._conversion(f"({cells})").select())
            broken = given.broken | _read_broken(connection)
            raw = connections.query(connection, cells) if pc.any(found.column(0)).as_py() else None
        except connections.error_type() as error:
            raise Unreadable(f"not CSV: {str(error).strip().splitlines()[0]}", self.piece.line) from error
        finally:
            _forget_rejects(connection)
        return self._separate(found, raw, broken)

    def _separate(self, found: pa.Table, raw: pa.Table | None, broken: dict[int, _Broken]) -> Decoded:
        """Return rows and rejects of a piece in which some records are invalid."""
        records = self._records_of_rows(found, broken)
        self.records = max([len(self.piece.spans), *(number + 1 for number in (*records[-1:], *broken))])
        texts = _Texts(self.piece, exact=len(self.piece.spans) == self.records)
        rejects = {
            number: Reject(texts.line(number), one.column, one.reason, texts.text(number, one.text))
            for number, one in broken.items()
        }
        bad = found.column(0)
        if raw is not None:
            numbers = [number for number, is_bad in zip(records, bad.to_pylist(), strict=True) if is_bad]
            for number, (column, reason, text) in zip(numbers, self._explain(raw.filter(bad)), strict=True):
                rejects[number] = Reject(texts.line(number), column, reason, texts.text(number, text))
        good = pc.invert(bad)
        rows = self._numbered(
            found.filter(good), pc.add(int64_array(records), int64_scalar(self.piece.row)).filter(good)
        )
        return Decoded(rows, [rejects[number] for number in sorted(rejects)])

    def _records_of_rows(self, found: pa.Table, broken: dict[int, _Broken]) -> list[int]:
        """Return the record number of each row.

        DuckDB skips empty lines. If stray quotes make it find other records than the line ends do, rows are numbered in
        the order in which DuckDB returned them."""
        filled = [n for n, (start, end) in enumerate(self.piece.spans) if n not in broken and start < end]
        if len(filled) == found.num_rows:
            return filled
        free = (number for number in itertools.count() if number not in broken)
        return list(itertools.islice(free, found.num_rows))

    def _numbered(self, found: pa.Table, rows: pa.Array) -> pa.Table:
        values = found.select(list(range(1, found.num_columns)))
        return conform(values, self.schema, self.what).append_column(pa.field(ROW, pa.int64()), rows)

    def _conversion(self, source: str) -> Conversion:
        columns = [Column(field, quoted(field.name)) for field in self.schema]
        return text_columns(columns, source, self.options.formats)

    def _explain(self, raw: pa.Table) -> list[tuple[str, str, str]]:
        """Return for each invalid row the first column that does not fit, the reason, and the row's cells."""
        explained = []
        for row in connections.query(
            connections.for_files(self.time_zone), self._conversion("raw").explain(), raw=raw
        ).to_pylist():
            number = next(i for i in range(len(self.schema)) if row[f"f{i}"])
            field = self.schema.field(number)
            cells = self.options.separator.join(row[f"r{i}"] or "" for i in range(len(self.schema)))
            explained.append((field.name, misfit_reason(row[f"r{number}"], field), cells))
        return explained


@dataclass(frozen=True)
class _Texts:
    """Line and text of a record, from the file if `exact`, else by counting records."""

    piece: _Piece
    exact: bool

    def line(self, record: int) -> int:
        return self.piece.line_of(record) if self.exact else self.piece.line + record

    def text(self, record: int, otherwise: str | None) -> str | None:
        return self.piece.text(record) if self.exact else otherwise


def sequence(start: int, count: int) -> pa.Array:
    """`start`, `start + 1`, …"""
    if count > _NUMBERED:
        return _counted(start, count)
    return pc.add(_first_numbers().slice(0, count), int64_scalar(start))


_NUMBERED = 131_072
"""Up to so many rows are numbered by adding to cached numbers, which is twenty times as fast as counting."""


@functools.cache
def _first_numbers() -> pa.Array:
    """0, 1, …"""
    return _counted(0, _NUMBERED)


def _counted(start: int, count: int) -> pa.Array:
    return pc.cumulative_sum(pa.repeat(int64_scalar(1), count), start=int64_scalar(start - 1))


def after_header(data: bytes, schema: pa.Schema, options: CsvOptions) -> int:
    """Return where the records after the header begin. The header must name the columns of `schema`, in order."""
    text = data[: 1024 * 1024].decode(errors="replace")
    doubled = options.escape in ("", options.quote)
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=options.separator,
        quotechar=options.quote or None,
        quoting=csv.QUOTE_MINIMAL if options.quote else csv.QUOTE_NONE,
        doublequote=doubled,
        escapechar=None if doubled else options.escape,
    )
    found = next(reader, [])
    if found != schema.names:
        raise _other_header(found, schema)
    position = 0
    for _ in range(reader.line_num):
        position = data.find(b"\n", position) + 1 or len(data)
    return position


def _other_header(found: list[str], schema: pa.Schema) -> Unreadable:
    """Return the error for a header that differs from the schema; it shows the schema if only the order differs."""
    reason = f"the header names {listed(found)}, expected {listed(schema.names)}"
    if sorted(found) == sorted(schema.names):
        declared = to_ddl(pa.schema([schema.field(name) for name in found]))
        hint = f'declare the columns in the order of the file: schema="{declared}"'
        return Unreadable(f"{reason}: the same columns in another order", 1, hint)
    words = (("lacks", [name for name in schema.names if name not in found]),
             ("has", [name for name in found if name not in schema.names]))  # fmt: skip
    differs = " and ".join(f"{verb} {listed(names)}" for verb, names in words if names)
    if not differs:
        return Unreadable(reason, 1)
    return Unreadable(
        reason,
        1,
        f"the file {differs}, unlike the schema: declare every column of the files, in their order, "
        'and choose among them with .select(); mode="PERMISSIVE" quarantines a file with another header',
    )


def _cells(path: str, given: _Given, schema: pa.Schema, options: CsvOptions, rejects: str) -> str:
    """Return SQL for the cells of a file as text.

    As in Spark, an empty cell is null, and so is a cell with the null value, quoted or not."""
    names = [quoted(name) for name in schema.names]
    cells = ", ".join(f"nullif({name}, {literal(options.null_value)}) AS {name}" for name in names)
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in schema.names)
    buffer = max(len(given.data) + 1, PIECE_BYTES)
    source = (
        f"read_csv({literal(path)}, columns = {{{columns}}}, header = false, auto_detect = false, "
        f"delim = {literal(options.separator)}, quote = {literal(options.quote)}, escape = {literal(options.escape)}, "
        f"new_line = '{given.line_end}', nullstr = '', allow_quoted_nulls = false, compression = 'none', "
        "hive_partitioning = false, "
        f"max_line_size = {buffer - 1}, buffer_size = {buffer}, {rejects})"
    )
    # If there is one column, DuckDB reads an empty line as a null.
    return f"SELECT {cells} FROM {source}" + (f" WHERE {names[0]} IS NOT NULL" if len(names) == 1 else "")


def misfit_reason(value: str | None, field: pa.Field) -> str:
    """Return why `value` is not a valid value of `field`."""
    if value is None:
        return f"found no value, expected {type_ddl(field.type)} not null"
    shown = value if len(value) <= 100 else value[:100] + "…"
    return f"found `{shown}`, expected {type_ddl(field.type)}"


def _read_broken(connection: Any) -> dict[int, _Broken]:
    """Return the records that DuckDB could not split, by number from 0, each with its first reason."""
    rows = connection.execute("SELECT line, error_type, column_name, csv_line FROM reject_errors ORDER BY line")
    found: dict[int, _Broken] = {}
    for line, kind, column, text in rows.fetchall():
        found.setdefault(line - 1, _Broken(_REASONS.get(kind, str(kind).lower()), column, text))
    return found


def _forget_rejects(connection: Any) -> None:
    connection.execute("DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans")

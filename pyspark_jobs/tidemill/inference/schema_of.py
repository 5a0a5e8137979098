"""The schema that fits some files: a start for the schema that you declare, with what the files do not decide.

Only local files are read, CSV and JSON up to `_SAMPLE_ROWS` records each, by the readers that batches use. What the
values of one column are is in `types.py`. INVARIANT: every value that was looked at fits its column; what is not
certain has a note.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import Any, Literal

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..names import ADDED
from ..schema import in_backticks, to_arrow, type_ddl
from ..sources.contract import BLOCK_BYTES, HIDDEN
from ..sources.files import Files
from ..sources.text_format import CsvFormat, JsonFormat, TextLimits
from ..values import dataclass
from ..visible import visible
from .doubts import CSV_TYPES, FirstLine, other_separator
from .types import MOST_DIGITS, Texts, Values, declarable, text_type, type_of, why_not

_SAMPLE_ROWS = 100_000
"""How many records of a text file are looked at."""
_BLOCK_ROWS = 8_192
_ENDINGS = {"csv": "csv", "tsv": "csv", "txt": "csv", "json": "json", "jsonl": "json", "ndjson": "json",
            "parquet": "parquet"}  # fmt: skip
_COMPRESSED = (".gz", ".zst", ".bz2")

_RESERVED = (*HIDDEN, *ADDED)
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_INTEGERS = tuple(_DIGITS)
_WIDER = {"double": {"tinyint", "smallint", "int", "float", "double"}, "timestamp_ntz": {"date", "timestamp_ntz"}}
"""Types of Parquet columns, and what the reader widens to them, besides integers to wider ones."""


@dataclass
class Inferred:
    """A schema, and notes on what the files do not decide."""

    schema: pa.Schema
    notes: list[str] = field(default_factory=list)


def schema_of(
    *files: str | os.PathLike[str], format: Literal["csv", "json", "parquet"] | None = None, **options: Any
) -> pa.Schema:
    """Return the schema that fits local files, as a start for the one that you declare.

    `format` is "csv", "json" or "parquet"; by default the ending of each name says it. `options` are those of
    `tm.Files`, such as `header=True` and `sep=";"`. Of a text file about 100,000 records are read. The command
    `tidemill schema` prints the schema as DDL, and what the files do not decide. Raises `InvalidInput` for a file that
    cannot be read.

    >>> import tidemill as tm, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "orders.csv"
    >>> _ = path.write_text("id,at,paid\\n7,2024-01-05 10:00:00,1.50\\n")
    >>> tm.schema_of(path, header=True).to_string().splitlines()
    ['id: int32', 'at: timestamp[us, tz=UTC]', 'paid: double']
    """
    return infer([os.fspath(file) for file in files], format, options).schema


def infer(files: Sequence[str], format: str | None, options: dict[str, Any]) -> Inferred:
    """Return the schema of files and what they do not decide; see `schema_of`."""
    if not files:
        raise InvalidInput("schema_of needs at least one file")
    for file in files:
        _check_is_file(file, format or "csv")
    kinds = list(dict.fromkeys(format or _format_of(file) for file in files))
    if len(kinds) > 1:
        raise InvalidInput(
            f"schema_of: found files of the formats {in_backticks(kinds)}, expected one format",
            hint='one source reads files of one format; format="csv" reads all of them as CSV',
        )
    if kinds[0] not in _LOOKS:
        raise InvalidInput(f"schema_of: unknown format {kinds[0]!r}, expected 'csv', 'json' or 'parquet'")
    notes: list[str] = []
    look = _LOOKS[kinds[0]](Files("", schema="unknown string", **{**options, "format": kinds[0]}), notes)
    for file in files:
        look.add(file)
    fields = look.fields()
    return Inferred(to_arrow(pa.schema(fields)) if fields else pa.schema([]), list(dict.fromkeys(notes)))


def _check_is_file(file: str, ending: str) -> None:
    if os.path.isdir(file):
        some = os.path.join(visible(file), f"*.{ending}")
        raise InvalidInput(
            f"schema_of: `{visible(file)}` is a folder, expected files",
            hint=f'name some of its files: glob.glob("{some}") lists them in Python, `{some}` in a shell',
        )


def _format_of(file: str) -> str:
    name = os.path.basename(file).lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    kind = _ENDINGS.get(name.rpartition(".")[2])
    if kind is None:
        raise InvalidInput(f"schema_of: the ending of `{visible(file)}` says no format", hint='give it: format="csv"')
    return kind


class _Look:
    """Collects the columns of files of one format."""

    def __init__(self, source: Files, notes: list[str]) -> None:
        self._source = source
        self._notes = notes
        self._files: list[str] = []
        self._seen_in: dict[str, set[str]] = {}

    def add(self, file: str) -> None:
        """Look at a file."""
        raise NotImplementedError

    def fields(self) -> list[pa.Field]:
        """Return the columns that all files fit."""
        raise NotImplementedError

    def _saw(self, file: str, columns: Iterable[str]) -> None:
        self._files.append(file)
        for name in columns:
            self._seen_in.setdefault(name, set()).add(file)

    def _note(self, note: str | None) -> None:
        if note is not None:
            self._notes.append(note)

    def _note_missing(self, key: str, name: str) -> None:
        missing = [visible(file) for file in self._files if file not in self._seen_in[key]]
        if missing:
            self._notes.append(
                f"column `{visible(name)}` is not in {in_backticks(missing)}: "
                'declare missingColumns="null" if it is right'
            )


class _Parquet(_Look):
    def __init__(self, source: Files, notes: list[str]) -> None:
        super().__init__(source, notes)
        self._columns: dict[str, tuple[str, list[str]]] = {}

    def add(self, file: str) -> None:
        kept: dict[str, str] = {}
        for name, ddl in _opened(file, lambda: _native.ParquetFile(file)).columns:
            reason = why_not(name, kept, _RESERVED)
            reason = reason and f"cannot be declared: {reason}"
            try:
                ddl = type_ddl(type_of(ddl))
            except InvalidInput:
                reason = f"has type {visible(ddl)}, which cannot be read"
            if reason is not None:
                self._notes.append(f"column `{visible(name)}` of `{visible(file)}` {reason}")
                continue
            kept[name.lower()] = name
            self._columns.setdefault(name.lower(), (name, []))[1].append(ddl)
        self._saw(file, kept)

    def fields(self) -> list[pa.Field]:
        made = []
        for key, (name, types) in self._columns.items():
            kinds = list(dict.fromkeys(types))
            fit = _widest(kinds)
            if fit is None:
                self._notes.append(
                    f"column `{visible(name)}` is left out: no type reads {in_backticks(map(visible, kinds))}; "
                    "declare a source for each kind of file"
                )
                continue
            self._note_missing(key, name)
            made.append(pa.field(name, type_of(fit)))
        return made


class _Csv(_Look):
    def __init__(self, source: Files, notes: list[str]) -> None:
        super().__init__(source, notes)
        assert isinstance(source.text_format, CsvFormat)
        self._format = source.text_format
        self._columns: dict[str, tuple[str, Texts]] = {}
        self._headers: set[str] = set()

    def add(self, file: str) -> None:
        format, limits = self._format, _limits(self._source)
        names = _opened(file, lambda: _native.csv_names(file, format, limits))
        schema = pa.schema([pa.field(name, pa.string()) for name in names])
        by_place = format if format.matching == "none" else replace(format, matching="position")
        reader = _opened(file, lambda: _native.csv_files(schema, by_place, limits, "UTC").open(file))
        keys = self._keys(file, names)
        columns = [None if key is None else self._columns[key][1] for key in keys]
        has_header = format.matching != "none"
        first: FirstLine | None = None
        if has_header:
            self._note(other_separator(file, names, format.separator))

        def next_rows() -> tuple[int, list[Any]] | None:
            found = _opened(file, reader.next_block)
            if found is None:
                return None
            nonlocal first
            rows, rejects = found
            texts = [column.to_pylist() for column in rows.columns[: len(names)]]
            for seen, values in zip(columns, texts, strict=True):
                if seen is not None:
                    seen.add(_present(values))
            if not has_header and rows.num_rows:
                start = 0
                if first is None:
                    line, start = [values[0] for values in texts], 1
                    first = FirstLine(line, format.formats)
                    self._note(other_separator(file, _present(line), format.separator))
                first.add([_present(values[start:]) for values in texts])
            return rows.num_rows, rejects

        _look(file, next_rows, "row", self._notes)
        if first is not None and first.is_header(format.formats):
            self._note(f"the first line of `{visible(file)}` looks like a header: is it one, header=True?")
            self._headers |= set(first.texts)
        if names:
            self._saw(file, [key for key in keys if key is not None])

    def _keys(self, file: str, names: Sequence[str]) -> list[str | None]:
        """Return under which key each column of a file is kept; None if it cannot be declared."""
        by_name = self._format.matching == "name"
        kept: dict[str, str] = {}
        keys: list[str | None] = []
        for place, name in enumerate(names):
            reason = "several columns have this name" if names.count(name) > 1 else why_not(name, kept, _RESERVED)
            if reason is not None and by_name:
                self._notes.append(f"column `{visible(name)}` of `{visible(file)}` cannot be declared: {reason}")
                keys.append(None)
                continue
            shown = name if reason is None else f"_c{place}"
            key = shown.lower() if by_name else str(place)
            kept[shown.lower()] = shown
            self._columns.setdefault(key, (shown, Texts(self._format.formats, CSV_TYPES)))
            keys.append(key)
        if not by_name and self._files and names and len(names) != len(self._columns):
            self._notes.append(f"`{visible(file)}` has {len(names)} columns, other files have {len(self._columns)}")
        return keys

    def fields(self) -> list[pa.Field]:
        if self._format.matching == "name":
            for key, (name, _) in self._columns.items():
                self._note_missing(key, name)
        return [
            pa.field(name, text_type(texts, visible(name), self._notes, self._headers))
            for name, texts in self._columns.values()
        ]


class _Json(_Look):
    def __init__(self, source: Files, notes: list[str]) -> None:
        super().__init__(source, notes)
        assert isinstance(source.text_format, JsonFormat)
        self._format = source.text_format
        self._records = Values(self._format.formats)

    def add(self, file: str) -> None:
        reader = _opened(file, lambda: _native.json_shapes(file, self._format, _limits(self._source)))

        def next_records() -> tuple[int, list[Any]] | None:
            found = _opened(file, reader.next_shape)
            if found is None:
                return None
            shape, count, rejects = found
            self._records.add(shape)
            return count, rejects

        _look(file, next_records, "JSON object", self._notes)

    def fields(self) -> list[pa.Field]:
        columns = declarable(self._records.fields, "", self._notes, _RESERVED)
        return [pa.field(name, values.type(visible(name), self._notes)) for name, values in columns.items()]


_LOOKS: dict[str, type[_Look]] = {"csv": _Csv, "json": _Json, "parquet": _Parquet}


def _widest(kinds: Sequence[str]) -> str | None:
    """Return the type of Parquet columns to which the reader widens all of these types."""
    if len(kinds) == 1:
        return kinds[0]
    if set(kinds) <= set(_INTEGERS):
        return max(kinds, key=_INTEGERS.index)
    return next((wide for wide, narrow in _WIDER.items() if set(kinds) <= narrow), None) or _wide_decimal(kinds)


def _wide_decimal(kinds: Sequence[str]) -> str | None:
    """Return the decimal that holds all of these decimals and integers, or None if no decimal is that wide."""
    types = [type_of(kind) for kind in kinds if kind not in _DIGITS]
    if not all(pa.types.is_decimal(one) for one in types):
        return None
    scale = max(one.scale for one in types)
    whole = max(*(one.precision - one.scale for one in types), *(_DIGITS.get(kind, 0) for kind in kinds))
    return f"decimal({whole + scale},{scale})" if whole + scale <= MOST_DIGITS else None


def _present(texts: Sequence[str | None]) -> list[str]:
    return [text for text in texts if text is not None]


def _limits(source: Files) -> TextLimits:
    return TextLimits(_BLOCK_ROWS, BLOCK_BYTES, source.record_bytes)


def _look(file: str, next_block: Callable[[], tuple[int, list[Any]] | None], what: str, notes: list[str]) -> None:
    """Look at the records of a file, block by block, and note those that are rejects."""
    count, bad, first = 0, 0, ""
    while count + bad < _SAMPLE_ROWS and (found := next_block()) is not None:
        rows, rejects = found
        if rejects and not bad:
            line, _, reason, _ = rejects[0]
            first = f"line {line}: {visible(reason)}"
        count, bad = count + rows, bad + len(rejects)
    if bad == 1:
        notes.append(f"one record of `{visible(file)}` is not a {what}: {first}")
    elif bad:
        notes.append(f"{bad:,} records of `{visible(file)}` are not {what}s. The first is on {first}")
    if not count + bad:
        notes.append(f"`{visible(file)}` has no rows")


def _opened(file: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except _native.Unreadable as error:
        raise InvalidInput(f"schema_of: read `{visible(file)}`: {error.args[0]}", hint=error.args[2]) from error
    except OSError as error:
        raise InvalidInput(f"schema_of: read `{visible(file)}`: {error.strerror or error}") from error

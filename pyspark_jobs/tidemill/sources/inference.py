"""The schema that fits some files: a start for the schema that you declare, with what the files do not decide.

Only local files are read, CSV and JSON up to `SAMPLE_ROWS` records each. INVARIANT: every value that was looked at fits
its column; what is not certain has a note.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..schema import listed, to_arrow, type_ddl
from .contract import BLOCK_BYTES
from .files import Files
from .text_format import CsvFormat, TextLimits

SAMPLE_ROWS = 100_000
"""How many records of a text file are looked at."""
_ENDINGS = {"csv": "csv", "tsv": "csv", "txt": "csv", "json": "json", "jsonl": "json", "ndjson": "json",
            "parquet": "parquet"}  # fmt: skip
_COMPRESSED = (".gz", ".zst", ".bz2")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ZEROS = re.compile(r"[+-]?0\d+")
_WIDER = ["tinyint", "smallint", "int", "bigint", "double"]


@dataclass
class Inferred:
    """A schema, and notes on what the files do not decide."""

    schema: pa.Schema
    notes: list[str] = field(default_factory=list)


def schema_of(*files: str | os.PathLike[str], format: str | None = None, **options: Any) -> pa.Schema:
    """Return the schema that fits local files, as a start for the one that you declare.

    `format` is "csv", "json" or "parquet"; by default the ending of each name says it. `options` are those of
    `tm.Files`, such as `header=True` and `sep=";"`. Of a text file it reads the first 100,000 records. The command
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
    columns: dict[str, list[tuple[str, str]]] = {}
    notes: list[str] = []
    for file in files:
        kind = format or _format_of(file)
        found = _READ[kind](file, _source(kind, options), notes) if kind in _READ else None
        if found is None:
            raise InvalidInput(f"schema_of: unknown format {kind!r}, expected 'csv', 'json' or 'parquet'")
        for name, ddl in found:
            columns.setdefault(name, []).append((file, ddl))
    for name, seen in columns.items():
        if len({file for file, _ in seen}) < len(files):
            missing = [file for file in files if file not in {one for one, _ in seen}]
            notes.append(f'column `{name}` is not in {listed(missing)}: declare missingColumns="null" if it is right')
    fields = [pa.field(name, _type(_widest(name, seen, notes))) for name, seen in columns.items()]
    return Inferred(pa.schema(fields), list(dict.fromkeys(notes)))


def _format_of(file: str) -> str:
    name = os.path.basename(file).lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    kind = _ENDINGS.get(name.rpartition(".")[2])
    if kind is None:
        raise InvalidInput(f"schema_of: the ending of `{file}` says no format", hint='give it: format="csv"')
    return kind


def _source(kind: str, options: dict[str, Any]) -> Files:
    return Files("", format=kind, schema="unknown string", **options)


def _type(ddl: str) -> pa.DataType:
    return to_arrow(f"c {ddl}").field(0).type


def _parquet(file: str, source: Files, notes: list[str]) -> Iterator[tuple[str, str]]:
    del source
    for name, ddl in _opened(file, lambda: _native.ParquetFile(file)).columns:
        try:
            yield name, type_ddl(_type(ddl))
        except InvalidInput:
            notes.append(f"column `{name}` of `{file}` has type {ddl}, which cannot be read")


def _csv(file: str, source: Files, notes: list[str]) -> Iterator[tuple[str, str]]:
    format = source.text_format
    assert isinstance(format, CsvFormat)
    limits = TextLimits(SAMPLE_ROWS, BLOCK_BYTES)
    names = _opened(file, lambda: _native.csv_names(file, format, limits))
    schema = pa.schema([pa.field(name, pa.string()) for name in names])
    reader = _opened(file, lambda: _native.csv_files(schema, format, limits, "UTC").open(file))
    found = _opened(file, reader.next_block)
    if found is None:
        notes.append(f"`{file}` has no rows")
        return
    rows, rejects = found
    if rejects:
        line, _, reason, _ = rejects[0]
        notes.append(f"{len(rejects):,} records of `{file}` are no rows, the first on line {line}: {reason}")
    for name in names:
        texts = [text for text in rows.column(name).to_pylist() if text is not None]
        yield name, _text_type(name, texts, notes)


def _text_type(name: str, texts: Sequence[str], notes: list[str]) -> str:
    """Return the narrowest type that all texts fit."""
    if not texts:
        notes.append(f"column `{name}` has no values: string is a guess")
        return "string"
    if any(_ZEROS.fullmatch(text) for text in texts):
        notes.append(f"column `{name}` has numbers with leading zeros: string keeps them")
        return "string"
    for kind in ("boolean", "int", "bigint"):
        if _all_fit(texts, kind):
            return kind
    if all(_NUMBER.fullmatch(text) for text in texts):
        notes.append(_fractions(name, texts))
        return "double"
    if all(len(text.strip()) <= 10 for text in texts) and _all_fit(texts, "date"):
        return "date"
    if _all_fit(texts, "timestamp"):
        if _all_fit(texts, "timestamp_ntz"):
            notes.append(f"column `{name}` has times without an offset: they are in the time zone of the pipeline")
        return "timestamp"
    return "string"


def _fractions(name: str, texts: Sequence[str]) -> str:
    digits = [text.partition(".")[2] for text in texts]
    if any("e" in text.lower() for text in texts) or max(map(len, digits)) > 6:
        return f"column `{name}` has fractions: double"
    scale = max(map(len, digits))
    return f"column `{name}` has up to {scale} digits after the point: decimal(18,{scale}) keeps amounts exact"


def _all_fit(texts: Sequence[str], ddl: str) -> bool:
    schema = pa.schema([pa.field("c", _type(ddl))])
    _, misfits = _native.values_of_texts(list(texts), schema, None, "UTC")
    return not misfits


def _json(file: str, source: Files, notes: list[str]) -> Iterator[tuple[str, str]]:
    seen: dict[str, list[Any]] = {}
    bad = 0
    for number, value in enumerate(_objects(file, source)):
        if number >= SAMPLE_ROWS:
            break
        if not isinstance(value, dict):
            bad += 1
            continue
        for name, one in value.items():
            seen.setdefault(name, []).append(one)
    if bad:
        notes.append(f"{bad:,} records of `{file}` are no JSON objects")
    for name, values in seen.items():
        yield name, _json_type(name, values, notes)


def _objects(file: str, source: Files) -> Iterator[Any]:
    """Yield the values of a file; text that is no JSON is itself."""

    def parsed(text: str) -> Any:
        try:
            return json.loads(text, parse_float=Decimal)
        except ValueError:
            return text

    def read() -> str:
        with pa.input_stream(file, compression="detect") as stream:
            data: bytes = stream.read()
        return data.decode(errors="replace").removeprefix("\ufeff")

    text = _opened(file, read)
    format = source.text_format
    values: Iterable[Any] = [parsed(text)] if getattr(format, "multi_line", False) else map(parsed, text.splitlines())
    for value in values:
        if value != "":
            yield from value if isinstance(value, list) else [value]


def _json_type(name: str, values: Sequence[Any], notes: list[str]) -> str:
    there = [value for value in values if value is not None]
    if not there:
        notes.append(f"column `{name}` has no values: string is a guess")
        return "string"
    if all(isinstance(value, bool) for value in there):
        return "boolean"
    if all(isinstance(value, int) and not isinstance(value, bool) for value in there):
        return "int" if all(-(2**31) <= value < 2**31 for value in there) else "bigint"
    if all(isinstance(value, int | Decimal | float) and not isinstance(value, bool) for value in there):
        notes.append(_fractions(name, [str(value) for value in there]))
        return "double"
    if all(isinstance(value, list) for value in there):
        inner = [one for value in there for one in value]
        return f"array<{_json_type(f'{name}.element', inner, notes)}>"
    if all(isinstance(value, dict) for value in there):
        fields = {key: [one.get(key) for one in there] for value in there for key in value}
        if not fields:
            notes.append(f"column `{name}` has empty objects only: string is a guess")
            return "string"
        members = [f"`{key}`: {_json_type(f'{name}.{key}', ones, notes)}" for key, ones in fields.items()]
        return f"struct<{', '.join(members)}>"
    if all(isinstance(value, str) for value in there):
        for kind in ("date", "timestamp"):
            if (kind != "date" or all(len(value) <= 10 for value in there)) and _all_fit(there, kind):
                return kind
        return "string"
    notes.append(f"column `{name}` has values of several kinds: string keeps their text")
    return "string"


_READ: dict[str, Callable[[str, Files, list[str]], Iterator[tuple[str, str]]]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
}


def _widest(name: str, seen: Sequence[tuple[str, str]], notes: list[str]) -> str:
    """Return the type that the types of a column in several files fit."""
    kinds = list(dict.fromkeys(ddl for _, ddl in seen))
    if len(kinds) == 1:
        return kinds[0]
    if all(kind in _WIDER for kind in kinds) and not {"bigint", "double"} <= set(kinds):
        return max(kinds, key=_WIDER.index)
    notes.append(f"column `{name}` has the types {listed(kinds)} in these files: string keeps their text")
    return "string"


def _opened(file: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except _native.Unreadable as error:
        raise InvalidInput(f"schema_of: read `{file}`: {error.args[0]}", hint=error.args[2]) from error
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(f"schema_of: read `{file}`: {getattr(error, 'strerror', None) or error}") from error

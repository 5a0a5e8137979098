"""Reads the inputs of these tests with Tidemill, into the form of the recordings."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.reading.inputs import ZONE, Input
from tests.reading.make import written
from tests.reading.make_parquet import ARCHIVE
from tests.reading.parquet_files import INPUTS
from tests.reading.plain import exact, plain
from tidemill.errors import InvalidInput
from tidemill.sources.contract import ROW, ReadContext
from tidemill.sources.files import Files

with zipfile.ZipFile(ARCHIVE) as archive:
    PARQUET = {name: archive.read(name) for name in archive.namelist()}


def read_values(folder: Path, kind: str, texts: Sequence[str], format: str) -> dict[str, Any]:
    """Return what each text is as a value of a type, or "BAD"."""
    options = {"sep": "|"} if format == "csv" else {}
    found = read_text(folder, written(texts, format), format, f"i int, v {kind}", options)
    return {text: row if row == "BAD" else row[1] for text, row in zip(texts, found, strict=True)}


def read_file(folder: Path, given: Input, format: str) -> list[Any]:
    """Return the rows of a text file, and "BAD" for each reject."""
    return read_text(folder, given.data.encode(), format, given.schema, given.options)


def read_parquet(folder: Path, name: str, split_bytes: int = 1 << 30) -> Any:
    """Return the rows of a file of Parquet, or "ERROR" if it cannot be read."""
    file, schema = INPUTS[name]
    (folder / "a.parquet").write_bytes(PARQUET[file])
    source = Files(folder, schema=schema, missingColumns="null", pathGlobFilter="*.parquet")
    rows: list[list[Any]] = []
    try:
        for split in source.splits(source.look("source"), split_bytes=split_bytes):
            for block in source.read(split, 1000, ReadContext(time_zone=ZONE)):
                columns = [exact(block.rows.column(name)) for name in block.rows.schema.names if name != ROW]
                rows += [[column[row] for column in columns] for row in range(block.rows.num_rows)]
    except InvalidInput:
        return "ERROR"
    return rows


def read_text(folder: Path, data: bytes, format: str, schema: str, options: dict[str, Any]) -> list[Any]:
    """Return the rows and rejects of a file in their order, each reject as "BAD"."""
    path = folder / f"a.{format}"
    path.write_bytes(data)
    source = Files(folder, format=format, schema=schema, mode="PERMISSIVE", pathGlobFilter=path.name, **options)
    (split,) = source.splits(source.look("source"))
    found: list[tuple[int, Any]] = []
    for block in source.read(split, 1000, ReadContext(time_zone=ZONE)):
        columns = [cells(block.rows.column(name)) for name in block.rows.schema.names if name != ROW]
        numbers = block.rows.column(ROW).to_pylist()
        found += [(number, [column[row] for column in columns]) for row, number in enumerate(numbers)]
        if block.rejects is not None:
            taken = {number for number, _ in found}
            free = (number for number in range(10_000) if number not in taken)
            found += [(number, "BAD") for number, _ in zip(free, block.rejects.to_pylist(), strict=False)]
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def cells(column: pa.Array) -> list[Any]:
    """Return the values of a column in the form of the recordings."""
    kind = column.type
    if kind == pa.date32():
        return column.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_map(kind):
        return [None if value is None else plain(dict(value)) for value in column.to_pylist()]
    if pa.types.is_struct(kind):
        children = [cells(child) for child in column.flatten()]
        names = [kind.field(place).name for place in range(kind.num_fields)]
        rows = zip(*children, strict=True)
        return [
            dict(zip(names, row, strict=True)) if is_valid else None
            for row, is_valid in zip(rows, column.is_valid().to_pylist(), strict=True)
        ]
    return [plain(value) for value in column.to_pylist()]

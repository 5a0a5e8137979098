"""CSV and JSON files: blocks of rows that Rust reads, and rejects for records that are no rows.

INVARIANT: every record is in exactly one row or one reject; a file that is not of its format is `Unreadable`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from .. import _native
from ..errors import InternalError
from ..protocol.records import Split
from ..quarantine.rejects import FAILFAST, Reject, reject_error, rejects_table
from ..values import dataclass
from .contract import BLOCK_BYTES, Block, Misfit, SmallFiles
from .file_columns import FileColumns
from .text_format import CsvFormat, TextFormat, TextLimits

MOST_ROWS = 2**31 - 1
SMALL_ROWS_BYTES = 4 * 1024**2
"""How many bytes the rows of small files have that are read together, but for the last of them."""
_ONE_TEXT = pa.schema([pa.field("text", pa.string())])


@dataclass(frozen=True)
class TextAhead:
    """A file that a thread reads. It is used for the same split, with the same columns and options, or not at all."""

    split: Split
    files: _native.TextFiles
    ahead: _native.TextAhead

    def reader(self, split: Split, files: _native.TextFiles) -> _native.TextReader | None:
        """Return the reader of the file, once; None if the file must be read now."""
        return self.ahead.take() if split == self.split and files is self.files else None


@lru_cache(maxsize=256)
def opener(schema: pa.Schema, format: TextFormat, limits: TextLimits, time_zone: str) -> _native.TextFiles:
    """Return what opens files of a format whose rows have the columns of `schema`."""
    make = _native.csv_files if isinstance(format, CsvFormat) else _native.json_files
    return make(schema, format, limits, time_zone)


def read_blocks(
    given: Any, files: _native.TextFiles, columns: FileColumns, source: str, path: str, mode: str
) -> Iterator[Block]:
    """Yield the rows of a file in blocks. A reject is an error with FAILFAST, else it comes with its block.

    `given` is a path, bytes, a file or its reader. Raises `Unreadable` if the file is not of its format.
    """
    number, names = 0, columns.in_file.names
    try:
        reader = given if isinstance(given, _native.TextReader) else files.open(given)
        while (found := reader.next_block()) is not None:
            rows, rejected = found
            rejects = [_reject(one, names, reader.header) for one in rejected]
            if rejects and mode == FAILFAST:
                raise reject_error(rejects[0], source, path)
            yield Block(number, columns.finish(rows), rejects_table(rejects, source, path) if rejects else None)
            number += 1
    except InternalError as error:
        raise InternalError(f"read file `{path}` of source `{source}`: {error.message}", hint=error.hint) from error


def read_small_texts(
    loaded: Sequence[tuple[bytes, str | None] | None], files: _native.TextFiles, columns: FileColumns
) -> Iterator[SmallFiles | None]:
    """Yield the rows of files, several at once; see `Source.read_small`. Each file is its bytes and its fingerprint."""
    at = 0
    while at < len(loaded):
        ahead = [one for one in itertools.takewhile(lambda one: one is not None, loaded[at:]) if one is not None]
        try:
            found = files.read_small([data for data, _ in ahead], SMALL_ROWS_BYTES) if ahead else None
        except InternalError:  # one file is read after the other, so that the error names it
            found = None
        if found is None:
            yield None
            at += 1
            continue
        rows, counts = found
        yield SmallFiles(columns.finish(rows), counts, [mark for _, mark in ahead[: len(counts)]])
        at += len(counts)


def count_rows(given: Any, format: TextFormat, limits: TextLimits, time_zone: str) -> int | None:
    """Return how many records a file has, whatever its columns; None if it cannot be cut into records."""
    count = 0
    try:
        reader = opener(_ONE_TEXT, format.for_counting(), limits, time_zone).open(given)
        while (found := reader.next_block()) is not None:
            rows, rejects = found
            count += rows.num_rows + len(rejects)
    except _native.Unreadable:
        return None
    return count


def _reject(found: tuple[int, int | None, str, str], names: Sequence[str], header: str | None) -> Reject:
    line, column, reason, text = found
    return Reject(line, None if column is None else names[column], reason, text, header=header)


def parse_texts(
    texts: Sequence[str], header: str | None, schema: pa.Schema, format: TextFormat, record_bytes: int, time_zone: str
) -> pa.RecordBatch | list[Misfit]:
    """Return a row for each text, which is a record of a file with this header, or all misfits.

    All texts are read at once; only if that fails, one by one, to find the misfits.
    """
    known = format.for_texts(header) if isinstance(format, CsvFormat) else format.for_texts()
    files = opener(schema, known, TextLimits(MOST_ROWS, BLOCK_BYTES, record_bytes), time_zone)
    end = format.line_end or "\n"
    before = "" if header is None else header + end
    rows = _rows(files, before, texts, end)
    if not isinstance(rows, str):
        return rows
    found = [_rows(files, before, [text], end) for text in texts]
    misfits = [Misfit(place, row) for place, row in enumerate(found) if isinstance(row, str)]
    return misfits or pa.Table.from_batches(found).combine_chunks().to_batches()[0]


def _rows(files: _native.TextFiles, before: str, texts: Sequence[str], end: str) -> pa.RecordBatch | str:
    """Return the rows of texts, or the first reason why they are not as many rows."""
    data = (before + "".join(text + end for text in texts)).encode(errors="surrogatepass")
    batches: list[pa.RecordBatch] = []
    try:
        reader = files.open(data)
        while (found := reader.next_block()) is not None:
            rows, rejects = found
            for _, column, reason, _ in rejects:
                return reason if column is None else f"column `{rows.schema.names[column]}`: {reason}"
            batches.append(rows)
    except _native.Unreadable as error:
        return str(error.args[0])
    count = sum(batch.num_rows for batch in batches)
    if count != len(texts):
        return f"the text has {count} records, expected {len(texts)}"
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]

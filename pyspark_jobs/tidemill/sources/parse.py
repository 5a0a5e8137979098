"""Parsing records by themselves: the texts of unreadable rows, once the schema or the options have changed.

INVARIANT: a text gives exactly one row, or a reason; never a part of a row, and never two.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .delimited import Decoded
from .file_bytes import Unreadable

Decode = Callable[[Any], Iterable[Decoded]]
"""Decodes a stream of records."""


@dataclass(frozen=True)
class Misfit:
    """A text that is no row, by its place, and why."""

    place: int
    reason: str


def parse_texts(texts: Sequence[str], decode: Decode) -> pa.Table | list[Misfit]:
    """Return a row for each text, or all misfits.

    All texts are decoded at once; only if that fails, one by one, to find the misfits.
    """
    rows = _rows(texts, decode)
    if isinstance(rows, pa.Table):
        return rows
    decoded = [_rows([text], decode) for text in texts]
    misfits = [Misfit(place, row) for place, row in enumerate(decoded) if isinstance(row, str)]
    return misfits or pa.concat_tables(decoded)


def _rows(texts: Sequence[str], decode: Decode) -> pa.Table | str:
    """Return the rows of texts, or the first reason why they are not as many rows."""
    stream = io.BytesIO("".join(f"{text}\n" for text in texts).encode(errors="surrogatepass"))
    tables: list[pa.Table] = []
    try:
        for part in decode(stream):
            for reject in part.rejects:
                return f"column `{reject.column}`: {reject.reason}" if reject.column is not None else reject.reason
            tables += [] if part.rows is None else [part.rows]
    except Unreadable as error:
        return error.reason
    found = sum(table.num_rows for table in tables)
    return pa.concat_tables(tables) if found == len(texts) else f"the text has {found} records, expected {len(texts)}"

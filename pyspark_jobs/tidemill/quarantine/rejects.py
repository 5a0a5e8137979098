"""Rejects: rows that could not be read, with place and reason. They become rows for quarantine, or one error.

INVARIANT: with FAILFAST, the error is the file's first reject by line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from ..errors import CorruptState, InvalidInput
from ..protocol.records import QuarantineFile
from ..schema import empty_table, int64_array, string_array
from ..schema.kernels import pq
from ..state.versions import fetch
from ..store import Store
from ..values import dataclass
from ..visible import visible
from .rows import ABANDON_PLAN, CONTENT, HEADER, REJECT_SCHEMA, UNREADABLE

FAILFAST: Final = "FAILFAST"
PERMISSIVE: Final = "PERMISSIVE"
_SHOWN = 500
_NOT_TEXT = re.compile(r"not [\w-]+")


@dataclass(frozen=True)
class Reject:
    """One unreadable record, or of the kind `FILE` a whole file. `hint` is advice for this reject alone.

    `header` is that of its file, if the record cannot be read again without it.
    """

    line: int | None
    column: str | None
    reason: str
    text: str | None
    hint: str | None = None
    header: str | None = None
    kind: str = UNREADABLE


def is_not_text(reason: str) -> bool:
    """Return whether a record was rejected for bytes that are not in its file's encoding, as in "not UTF-8".

    The text of the reject shows such bytes as `\\xff`, so it is not the record.
    """
    return _NOT_TEXT.fullmatch(reason) is not None


def rejects_table(rejects: Sequence[Reject], source: str, file: str) -> pa.Table:
    """Return rejects as rows of `REJECT_SCHEMA`."""
    known = {
        "source": string_array([source] * len(rejects)),
        "file": string_array([file] * len(rejects)),
        "line": int64_array([one.line for one in rejects]),
        "column": string_array([one.column for one in rejects]),
        "reason": string_array([one.reason for one in rejects]),
        "text": string_array([one.text for one in rejects]),
        "kind": string_array([one.kind for one in rejects]),
    }
    nulls = {field.name: pa.nulls(len(rejects), field.type) for field in REJECT_SCHEMA}
    table = pa.Table.from_arrays([(nulls | known)[name] for name in REJECT_SCHEMA.names], schema=REJECT_SCHEMA)
    if all(one.header is None for one in rejects):
        return table
    return table.append_column(HEADER, string_array([one.header for one in rejects]))


def quarantined(store: Store, file: QuarantineFile) -> pa.Table:
    """Return the rows of a quarantine file: the columns of `REJECT_SCHEMA`, then `HEADER` and whole rows, if any.

    Files of earlier versions of Tidemill lack some columns, which are null then.
    """
    data = fetch(store, file.name, file.checksum)
    try:
        found = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    except MemoryError:  # Arrow's is an error of Arrow, too
        raise
    except pa.ArrowException as error:
        raise CorruptState(f"read the quarantine file `{file.name}`: not Parquet: {error}") from error
    whole = found.select([name for name in found.column_names if name.startswith(CONTENT) or name == HEADER])
    known = found.select([name for name in found.column_names if name in REJECT_SCHEMA.names])
    table = pa.concat_tables([empty_table(REJECT_SCHEMA), known], promote_options="default")
    for name in whole.column_names:
        table = table.append_column(name, whole.column(name))
    return table


def reject_error(reject: Reject, source: str, file: str) -> InvalidInput:
    """Return the error for a reject: file, line, column and reason, then the text."""
    where = f"file `{visible(file)}` of source `{source}`"
    where += f", line {reject.line}" if reject.line is not None else ""
    where += f", column `{visible(reject.column)}`" if reject.column is not None else ""
    text = reject.text
    if text is not None and len(text) > _SHOWN:
        text = text[:_SHOWN] + "…"
    return InvalidInput(
        f"read {where}: {reject.reason}" + (f"\ntext: {visible(text)}" if text is not None else ""),
        hint=reject.hint
        or f"correct the file and {ABANDON_PLAN}; or leave the file out with `tidemill skip`; or use "
        f'mode="{PERMISSIVE}", which quarantines unreadable rows',
    )

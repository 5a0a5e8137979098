"""The ledger: which files the pipeline has read. It is a state map, so that it rewinds and forks with the pipeline.

INVARIANT: a file is in the ledger of version N exactly if a commit up to N names it; a plan alone records nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from .. import _native
from ..errors import InvalidInput
from ..protocol.progress import iso
from ..protocol.records import Plan
from ..schema import int64_array, string_array
from .contract import SourceFile

_KEY = pa.schema([pa.field("source", pa.string()), pa.field("path", pa.string())])
_VALUE = pa.schema(
    [
        pa.field("etag", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("modified_ms", pa.int64()),
        pa.field("version", pa.int64()),
    ]
)
LEDGER_SCHEMA = _native.MapSchema("files", _KEY, pa.schema([]), _VALUE)
"""The ledger's columns: (source, path) → (etag, size, modified_ms, version that read it)."""


def unseen(files: Sequence[SourceFile], ledger: _native.StateMap, overwritten: str) -> list[SourceFile]:
    """Return the files that no commit has read, in their order.

    A file that was overwritten after it was read raises `InvalidInput`, or is new again if `overwritten` is "new".
    """
    if not files:
        return []
    found, values = ledger.get_many(_keys([(file.source, file.path) for file in files]))
    columns = (values.column(name).to_pylist() for name in ("etag", "size", "modified_ms"))
    fresh = []
    for file, known, etag, size, modified_ms in zip(files, found.to_pylist(), *columns, strict=True):
        if not known:
            fresh.append(file)
        elif etag != file.etag:
            if overwritten != "new":
                raise InvalidInput(
                    f"file `{file.path}` of source `{file.source}` was modified after it was read: "
                    + _difference(file, etag, size, modified_ms),
                    hint="move the file away, or restore it, including its modification time; write new data under "
                    'new names. With tm.Files(…, overwritten="new") Tidemill reads all rows of the file a second time',
                )
            fresh.append(file)
    return fresh


def _difference(file: SourceFile, etag: str, size: int, modified_ms: int) -> str:
    """Describe how a file differs from what was read: by size, else by modification time, else by ETag."""
    if file.size != size:
        return f"found {file.size} bytes, expected {size}"
    if file.modified_ms != modified_ms:
        return f"same size, found modification time {iso(file.modified_ms)}, expected {iso(modified_ms)}"
    return f"same size and modification time, found ETag `{file.etag}`, expected `{etag}`"


def check_names(listed: Mapping[str, Sequence[SourceFile]], unread: Sequence[str], ledger: _native.StateMap) -> None:
    """Raise `InvalidInput` if a source was renamed, or two sources swapped names, and would read files again.

    `unread` are the sources that have read none of the files they have now. Such a source was renamed if one of its
    files, unchanged, was read under a name that no source has any longer, or that is also in `unread`. A file that was
    moved to a new source belongs to that source, as long as the old source remains.
    """
    fresh = {(file.path, file.etag): file for name in unread for file in listed[name]}
    if not fresh or not len(ledger):
        return
    rows = ledger.scan()
    paths = string_array(list({path for path, _ in fresh}))
    same = rows.filter(pc.is_in(rows.column("path"), value_set=paths)).select(["source", "path", "etag", "version"])
    for source, path, etag, version in zip(*(column.to_pylist() for column in same.columns), strict=True):
        file = fresh.get((path, etag))
        if file is not None and (source not in listed or source in unread):
            raise InvalidInput(
                f"source `{file.source}` would read file `{path}` again: batch {version} already read it as "
                f"`{source}`; you renamed the source",
                hint=f"restore the name: p.read(…, name={source!r}). To read the files again, use another root and "
                "other sink folders",
            )


def record(ledger: _native.StateMap, plan: Plan) -> None:
    """Record the files of a plan as read by it."""
    files = list({(split.source, split.path): split for split in plan.splits}.values())
    columns = [
        string_array([split.etag for split in files]),
        int64_array([split.size for split in files]),
        int64_array([split.modified_ms for split in files]),
        int64_array([plan.number for _ in files]),
    ]
    values = pa.RecordBatch.from_arrays(columns, schema=_VALUE)
    ledger.put_many(_keys([(split.source, split.path) for split in files]), values, plan.batch_time_ms)


def _keys(pairs: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    columns = [string_array([pair[i] for pair in pairs]) for i in range(2)]
    return pa.RecordBatch.from_arrays(columns, schema=_KEY)

"""The ledger: which files the pipeline has read. It is a state map, so that it rewinds and forks with the pipeline.

INVARIANT: a file is in the ledger of version N exactly if a commit up to N names it; a plan alone records nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..names import REQUEUED_FOLDER, is_requeued
from ..protocol.records import Plan, Split
from ..schema import int64_array, string_array
from ..schema.kernels import call, pc
from ..units import iso
from ..values import dataclass
from .contract import SourceFile

_KEY = pa.schema([pa.field("source", pa.string()), pa.field("path", pa.string())])
_VALUE = pa.schema(
    [
        pa.field("etag", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("modified_ms", pa.int64()),
        pa.field("version", pa.int64()),
        pa.field("fingerprint", pa.string()),
        pa.field("how", pa.string()),
    ]
)
LEDGER_SCHEMA = _native.MapSchema("files", _KEY, pa.schema([]), _VALUE)
"""The ledger's columns: (source, path) → (etag, size, modified_ms, version, fingerprint, how)."""

READ, SKIPPED, EARLIER, REQUEUED, QUARANTINED = "read", "skipped", "earlier", "requeued", "quarantined"
"""How a file came into the ledger: a batch read it, `skip` took it out, it was there before `start="latest"`, it has
requeued rows that no batch has read yet, or a batch put it in quarantine as a whole."""
_LISTED = 10
"""How many overwritten files an error names."""

Fingerprint = Callable[[SourceFile], str | None]
"""Reads the file and returns its fingerprint now."""


@dataclass(frozen=True)
class Known:
    """What the ledger says about a file."""

    etag: str
    size: int
    modified_ms: int
    version: int
    fingerprint: str
    how: str


@dataclass(frozen=True)
class LedgerComparison:
    """The listed files of a source, compared with the ledger. Both lists keep the order of the listing.

    `fresh` are to be read. `touched` have the same bytes as when they were read, under another ETag or time.
    """

    fresh: list[SourceFile]
    touched: list[SourceFile]


def look_up_files(ledger: _native.StateMap, files: Sequence[SourceFile]) -> list[Known | None]:
    """Return what the ledger says about each of `files`."""
    if not files:
        return []
    found, values = ledger.get_many(_keys([(file.source, file.path) for file in files]))
    rows = zip(*(values.column(name).to_pylist() for name in _VALUE.names), strict=True)
    return [Known(*row) if is_known else None for is_known, row in zip(found.to_pylist(), rows, strict=True)]


def compare_with_ledger(
    files: Sequence[SourceFile], ledger: _native.StateMap, overwritten: str, fingerprint: Fingerprint
) -> LedgerComparison:
    """Return which of the listed files no commit has read, in their order.

    A file with other bytes than those that were read is new if `overwritten` is "new", is left out if it is "ignore",
    and otherwise raises `InvalidInput`, which names all of them. One that is in quarantine as a whole may be corrected
    at any time; it stays there until it is requeued.
    """
    fresh: list[SourceFile] = []
    touched: list[SourceFile] = []
    changed: list[tuple[SourceFile, Known]] = []
    others = unlike(ledger, files)
    for file, known in zip(others, look_up_files(ledger, others), strict=True):
        if known is None:
            fresh.append(file)
        elif _is_touched(file, known, fingerprint):
            touched.append(file)
        elif overwritten == "new":
            fresh.append(file)
        elif overwritten == "error" and known.how != QUARANTINED:
            changed.append((file, known))
    if changed:
        raise _overwritten(changed)
    return LedgerComparison(fresh, touched)


def unlike(ledger: _native.StateMap, files: Sequence[SourceFile]) -> Sequence[SourceFile]:
    """Return the files that the ledger lacks or has with another ETag, in their order. Of many files these are few."""
    if not files or not len(ledger):
        return files
    found, values = ledger.get_many(_keys([(file.source, file.path) for file in files]))
    same = call("equal", values.column("etag"), string_array([file.etag for file in files]))
    left = call("indices_nonzero", call("invert", call("and_kleene", found, same)))
    return [files[place] for place in left.to_pylist()]


def is_same(file: SourceFile, known: Known, fingerprint: Fingerprint) -> bool:
    """Whether a file is the one that the ledger has: not overwritten, but perhaps touched or copied."""
    return known.etag == file.etag or _is_touched(file, known, fingerprint)


def _is_touched(file: SourceFile, known: Known, fingerprint: Fingerprint) -> bool:
    """Whether a file with another ETag has the same bytes. A file that was never read is compared by size alone."""
    if known.size != file.size:
        return False
    return known.how == EARLIER or (bool(known.fingerprint) and fingerprint(file) == known.fingerprint)


def _overwritten(changed: Sequence[tuple[SourceFile, Known]]) -> InvalidInput:
    (file, known), *others = changed
    more = [f"`{other.path}`" for other, _ in others[: _LISTED - 1]]
    more += [f"{len(others) - len(more)} more"] if len(others) > len(more) else []
    return InvalidInput(
        f"file `{file.path}` of source `{file.source}` was modified after it was {_HOW[known.how]}: "
        + _difference(file, known)
        + (f"; so were {' and '.join([', '.join(more[:-1]), more[-1]] if len(more) > 1 else more)}" if more else ""),
        hint="move the file away, or restore its content, or accept the change without reading it: `tidemill skip`. "
        'Write new data under new names. With tm.Files(…, overwritten="new") Tidemill reads all rows of such a file '
        'again, with "ignore" none of them',
    )


_HOW = {READ: "read", SKIPPED: "skipped", EARLIER: 'left out by start="latest"'}


def _difference(file: SourceFile, known: Known) -> str:
    """Describe how a file differs from what was read: by size, else by content or modification time, else by ETag."""
    if file.size != known.size:
        return f"found {file.size} bytes, expected {known.size}"
    if known.fingerprint:
        return "same size, other content"
    if file.modified_ms != known.modified_ms:
        return f"same size, found modification time {iso(file.modified_ms)}, expected {iso(known.modified_ms)}"
    return f"same size and modification time, found ETag `{file.etag}`, expected `{known.etag}`"


def paths_of(ledger: _native.StateMap, source: str) -> list[str]:
    """Return the paths of all files of a source that the ledger has, without requeued rows."""
    rows = ledger.scan()
    paths: list[str] = rows.filter(pc.equal(rows.column("source"), source)).column("path").to_pylist()
    return [path for path in paths if not is_requeued(path)]


def requeued_objects(ledger: _native.StateMap) -> list[tuple[str, str, str]]:
    """Return source, path and checksum of all objects with requeued rows, whether a batch has read them or not."""
    rows = ledger.scan()
    rows = rows.filter(pc.starts_with(rows.column("path"), f"/{REQUEUED_FOLDER}"))
    return sorted(zip(*(rows.column(name).to_pylist() for name in ("source", "path", "etag")), strict=True))


def check_source_names(
    listed: Mapping[str, Sequence[SourceFile]], unread: Sequence[str], ledger: _native.StateMap
) -> None:
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


def record(
    ledger: _native.StateMap, plan: Plan, fingerprints: Mapping[str, str], bad_files: Collection[str] = ()
) -> None:
    """Record the files of a plan as read by it, or `bad_files` as in quarantine. Both are by their first splits."""
    first: dict[tuple[str, str], tuple[int, Split]] = {}
    for number, split in enumerate(plan.splits):
        if split.source in plan.positions and split.requeued is None:
            continue  # commits remember its position
        first.setdefault((split.source, split.path), (number, split))
    files = {
        SourceFile.of_split(split): Known(
            split.etag,
            split.size,
            split.modified_ms,
            plan.number,
            fingerprints.get(str(number), ""),
            QUARANTINED if str(number) in bad_files else READ,
        )
        for number, split in first.values()
    }
    put(ledger, files, plan.batch_time_ms)


def record_earlier(ledger: _native.StateMap, files: Sequence[SourceFile]) -> None:
    """Record files that were there before `start="latest"`.

    They have no fingerprints, because that would mean to read the whole history. Their size must do.
    """
    put(ledger, {file: Known(file.etag, file.size, file.modified_ms, -1, "", EARLIER) for file in files}, 0)


def record_skipped(
    ledger: _native.StateMap, file: SourceFile, fingerprint: str | None, version: int, time_ms: int
) -> None:
    """Record a file that `version` takes out of the input."""
    known = Known(file.etag, file.size, file.modified_ms, version, fingerprint or "", SKIPPED)
    put(ledger, {file: known}, time_ms)


def record_requeued(ledger: _native.StateMap, splits: Sequence[Split], version: int, time_ms: int) -> None:
    """Record requeued rows that wait from `version` on. The batch that reads them records them as read."""
    known = {
        SourceFile.of_split(split): Known(split.etag, split.size, split.modified_ms, version, "", REQUEUED)
        for split in splits
    }
    put(ledger, known, time_ms)


def release(ledger: _native.StateMap, files: Sequence[SourceFile]) -> list[SourceFile]:
    """Forget those of `files` that are in quarantine as a whole, so that they are read again; return them."""
    known = zip(files, look_up_files(ledger, files), strict=True)
    found = [file for file, one in known if one is not None and one.how == QUARANTINED]
    if found:
        ledger.remove_many(_keys([(file.source, file.path) for file in found]))
    return found


def record_touched(ledger: _native.StateMap, files: Sequence[SourceFile], time_ms: int) -> None:
    """Record the new ETags and times of files that have the same bytes as before."""
    known = zip(files, look_up_files(ledger, files), strict=True)
    again = {
        file: dataclasses.replace(before, etag=file.etag, modified_ms=file.modified_ms)
        for file, before in known
        if before is not None and before.size == file.size and before.etag != file.etag
    }
    put(ledger, again, time_ms)


def put(ledger: _native.StateMap, files: Mapping[SourceFile, Known], time_ms: int) -> None:
    """Write what is known about files to the ledger."""
    if not files:
        return
    columns = [
        (int64_array if field.type == pa.int64() else string_array)(
            [getattr(known, field.name) for known in files.values()]
        )
        for field in _VALUE
    ]
    values = pa.RecordBatch.from_arrays(columns, schema=_VALUE)
    ledger.put_many(_keys([(file.source, file.path) for file in files]), values, time_ms)


def _keys(pairs: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    columns = [string_array([pair[i] for pair in pairs]) for i in range(2)]
    return pa.RecordBatch.from_arrays(columns, schema=_KEY)

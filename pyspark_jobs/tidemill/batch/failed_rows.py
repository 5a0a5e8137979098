"""Where the rows came from on which a user's function failed, for the message of the error.

Only after a failure are splits read again, up to `LARGEST_READ` and `_MOST_ROWS`. INVARIANT: the search never replaces
the error by another one. If it fails, or finds nothing certain, the message names less.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from datetime import date

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..operators.keys import KeySet, KeyValues, cells_of, format_key
from ..pipeline import flow
from ..pipeline.job import JobSink, Placed, Port
from ..protocol.records import Split
from ..schema import int64_array
from ..schema.cells import shown_cells
from ..schema.kernels import pc
from ..sources.contract import ROW, named_file
from ..sources.requeued import fetch_requeued
from ..values import dataclass
from .batch import Batch
from .given import GivenRows
from .input import columns_read, feed, read_split
from .sender import NumberedRows, Outgoing, RowOrigin, Sender
from .sequence import GROUP_BITS, group_of, groups_of
from .wire import Chunk, ChunkHead, Observed

LARGEST_READ = 1024**3
"""If the splits to read again are larger, in bytes, there is no search."""
_MOST_ROWS = 10_000_000
"""The search stops after this many rows."""
_MOST_GROUPS = 100
"""If a call was given rows of more groups of keys, there is no search: a message could not name them."""
_NUMPY_NUMBER = re.compile(r"\bnp\.\w+\(([^()]*)\)")
"""A number as NumPy shows it, such as `np.int64(7)`."""
_NAMED = 3
"""How many files, rows and keys a message names."""


def failed_rows(
    batch: Batch, placed: Placed, range_index: int, chunks: Sequence[Chunk], part: GivenRows, error: InvalidInput
) -> str:
    """Say which rows of a part a failed call was given, and where from: a file, or an operator and files."""
    row, given = getattr(error, "row", None), part.rows
    what = "rows" if row is None else f"the row {_shown_row(given.slice(row, 1))}"
    found: str | None = None
    places: list[int] = []
    with contextlib.suppress(Exception):  # the search calls sources and the user's steps again
        places = [row] if row is not None else _places_of_key(given, placed, getattr(error, "key", "None"))
    head = part.head(places[0] if places else 0)
    places = [place for place in places if part.head(place) == head]
    with contextlib.suppress(Exception):
        if places and head.split is not None:
            found = _listed_rows(_row_numbers(batch, range_index, chunks, part, places))
        elif places:
            found = _emitted(batch, part, head, places)
    if places and head.split is None and found is None:
        found = _emitted_for(batch, part, places)
    if head.split is not None:
        split = batch.plan.splits[head.split]
        if split.requeued is not None:
            return f"{what}{_of_requeued(batch, split)}"
        return f"{what} of file {named_file(split, batch.job.sources)}{found or ''}"
    return f"{what} that operator `{_emitter(batch, head)}` emitted{found or _from_files(batch)}"


def _of_requeued(batch: Batch, split: Split) -> str:
    """Say which version quarantined requeued rows, and from which files the rows of their object were first read."""
    assert split.requeued is not None
    files: list[str | None] = []
    with contextlib.suppress(Exception):
        held = fetch_requeued(batch.store(), split.requeued.name, split.requeued.checksum)
        files = pc.unique(held.column("file")).to_pylist()
    named = [f"`{one}`" for one in files if one is not None]
    of_files = f" of {'file' if len(named) == 1 else 'files'} {_listed(named, len(named))}" if named else ""
    return f"{of_files}, which version {split.requeued.version} quarantined"


def _emitter(batch: Batch, head: ChunkHead) -> str:
    """Return the name of the operator that emitted the rows of a chunk."""
    return list(batch.job.operators)[head.order[1]]


def _emitted_for(batch: Batch, part: GivenRows, places: Sequence[int]) -> str | None:
    """Say for which rows of files some rows were emitted. None if their places are not known."""
    known = part.places.take(int64_array(places)).of_rows() if part.port.carries_places else []
    found: dict[str, None] = {}
    for one in known:
        if one is None:
            return None
        file = named_file(batch.plan.splits[one[0]], batch.job.sources)
        found[file if one[1] is None else f"{file} row {one[1] + 1}"] = None
    return f" for {_listed(list(found), len(found))}" if found else None


def _from_files(batch: Batch) -> str:
    files = list(dict.fromkeys(named_file(split, batch.job.sources) for split in batch.plan.splits))
    return f" from the files {_listed(files, len(files))}" if files else ""


def _listed(named: Sequence[str], count: int) -> str:
    """Return the first of `count` things, of which the first few are `named`, and how many others there are."""
    more = count - len(named[:_NAMED])
    return ", ".join(named[:_NAMED]) + (f" and {more:,} more" if more else "")


def _listed_rows(numbers: Sequence[int]) -> str:
    rows = _listed([f"{number + 1}" for number in numbers[:_NAMED]], len(numbers))
    return f", row {rows}" if len(numbers) == 1 else f", rows {rows}"


def _shown_row(row: pa.RecordBatch) -> str:
    """Return the cells of a row as messages show them, in 200 characters at most."""
    found = ((name, shown_cells(row.column(name))[0]) for name in row.schema.names)
    return f"({_short(', '.join(f'{name}={_shown_cell(value)}' for name, value in found))})"


def _shown_cell(value: object) -> str:
    return str(value) if isinstance(value, date) else repr(value)


def _shown_key(keys: pa.RecordBatch, row: int) -> str:
    cells = [_shown_cell(value) for value in cells_of(keys, row)]
    return cells[0] if len(cells) == 1 else f"({', '.join(cells)})"


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:199] + "…"


def _places_of_key(given: pa.RecordBatch, placed: Placed, key: str) -> list[int]:
    """Return the places of the rows whose key an error shows as `key`; empty if that is not known."""
    if key == "None":  # the error may have no key
        return []
    key = _NUMPY_NUMBER.sub(r"\1", key)  # functions that are given frames get such keys
    keys = zip(*(shown_cells(given.column(name)) for name in flow.key_of(given, placed.operator)), strict=True)
    return [place for place, cells in enumerate(keys) if key in (repr(cells), format_key(cells))]


class _TooMuchError(Exception):
    """The search would cost too much."""


class _Caught(Outgoing):
    """Keeps the numbered rows that reach some inputs of operators. Nothing is sent."""

    def __init__(self, sender: Sender, origin: RowOrigin, wanted: Collection[str]) -> None:
        super().__init__(sender, origin)
        self._wanted = wanted
        self.rows: list[pa.RecordBatch] = []

    def to_operator(self, port: Port, rows: pa.RecordBatch) -> None:
        """Keep the rows as the operator prepares them, each with its number, without the late ones."""
        if port.label in self._wanted:
            handle, data_pass = port.operator.open_port(port.number), self.sender.batch.preparing(port)
            prepared = handle.prepare(flow.read_columns(rows, port), data_pass, combine=False)
            self.rows.append(NumberedRows(prepared, rows).rows)

    def to_output(self, output: JobSink, rows: pa.RecordBatch) -> None:
        """Ignore rows for a sink."""


def _read_again(
    batch: Batch, ports: Sequence[Port], numbers: Sequence[int]
) -> Iterator[tuple[Split, int, pa.RecordBatch]]:
    """Yield the numbered rows of some splits that reach inputs of operators: split, number of the block, rows."""
    if sum(batch.plan.splits[number].size for number in numbers) > LARGEST_READ:
        raise _TooMuchError
    sender, read = Sender(batch, 0, Observed(), combine=False), 0
    for number in numbers:
        split = batch.plan.splits[number]
        for block in read_split(batch, split, columns_read(batch.job, split.source, batch.read_context())):
            read += block.rows.num_rows
            if read > _MOST_ROWS:
                raise _TooMuchError
            origin = RowOrigin((number, block.number), 0, number=number, split=split)
            caught = _Caught(sender, origin, [port.label for port in ports])
            feed(batch.job, split, block.rows, caught)
            yield from ((split, block.number, rows) for rows in caught.rows)


def _row_numbers(
    batch: Batch, range_index: int, chunks: Sequence[Chunk], part: GivenRows, places: Sequence[int]
) -> list[int]:
    """Return the numbers in their file of rows of a part that one chunk brought from a split."""
    if part.port.carries_places:
        known = [one[1] for one in part.places.take(int64_array(places)).of_rows() if one is not None]
        return [] if None in known else [one for one in known if one is not None]
    port = part.port
    number, block, turn, piece = part.head(0).order
    ends = [hi for _, hi in batch.bounds]
    of_port = [one for one in chunks if one.head.port == port.number]
    earlier = [one for one in of_port if one.head.order[:3] == (number, block, turn) and one.head.order[3] < piece]
    before = sum(one.batch().num_rows for one in earlier)
    turns = 0
    for _, found, rows in _read_again(batch, [port], [number]):
        turns += found == block
        if found == block and turns == turn:
            sent = _native.partition(rows, flow.key_of(rows, port.operator), ends)[range_index]
            numbers: list[int] = sent.column(ROW).take(int64_array([before + place for place in places])).to_pylist()
            return [] if None in numbers else numbers
    return []


@dataclass
class _Key:
    """A key of an operator that emitted, and its rows in the batch: how many, and the first few."""

    cells: str
    rows: int = 0
    places: list[str] = field(default_factory=list)


def _emitted(batch: Batch, part: GivenRows, head: ChunkHead, places: Sequence[int]) -> str | None:
    """Say for which key some rows of a chunk were emitted, and from which rows of the batch. None if unknown.

    The order number of an emitted row has the group of its key, so the key is one of those in that group.
    """
    name, rows = _emitter(batch, head), part.whole
    emitter = batch.job.operators[name]
    if emitter.level or ROW not in rows.schema.names:
        return None
    failed = rows.take(int64_array(places))
    groups = set(groups_of(failed.column(ROW)).to_pylist())
    if None in groups or len(groups) > _MOST_GROUPS:
        return None
    found = _rows_of_groups(batch, emitter, groups)
    when = " when the watermark moved," if head.pass_number else ""
    if not any(found.values()):
        fired = " when a timeout fired," if not when and name not in batch.begins else when
        return f"{fired} for a key without rows in this batch"
    if not all(found.values()):
        return None
    keys = [key for of_group in found.values() for key in _narrowed(of_group, failed, emitter)]
    listed = _listed([place for key in keys for place in key.places], sum(key.rows for key in keys))
    if len(keys) == 1:
        return f"{when} for key `{_short(keys[0].cells)}`; rows of that key in this batch: {listed}"
    named = _listed([f"`{_short(key.cells)}`" for key in keys], len(keys))
    return f"{when} for keys among {named}; rows of these keys in this batch: {listed}"


def _narrowed(keys: Sequence[_Key], emitted: pa.RecordBatch, emitter: Placed) -> Sequence[_Key]:
    """Return those of several keys of one group that emitted rows show, if the rows have the key columns."""
    names = [name for name in emitter.operator.maps[0].key.names if name in emitted.schema.names]
    if len(keys) == 1 or len(names) < len(emitter.operator.maps[0].key.names):
        return keys
    seen = {_shown_key(emitted.select(names), row) for row in range(emitted.num_rows)}
    return [key for key in keys if key.cells in seen] or keys


def _rows_of_groups(batch: Batch, emitter: Placed, groups: set[int]) -> dict[int, list[_Key]]:
    """Return the keys of each group that have rows in the batch, with the places of their rows."""
    found: dict[int, dict[str, _Key]] = {group: {} for group in groups}
    sources = batch.job.sources_of(emitter.operator.name)
    numbers = [number for number, split in enumerate(batch.plan.splits) if split.source in sources]
    for split, _, rows in _read_again(batch, emitter.ports, numbers):
        key = flow.key_of(rows, emitter.operator)
        hashes = _native.key_hashes(rows.select(key))
        in_group = pc.is_in(_groups(hashes), value_set=int64_array(sorted(groups)))
        rows, hashes = rows.filter(in_group), hashes.filter(in_group)
        if not rows.num_rows:
            continue
        file = named_file(split, batch.job.sources)
        keys = KeySet(pa.Table.from_batches([rows.select(key)])).keys
        at = KeyValues(keys, int64_array(range(keys.num_rows))).of(rows.select(key))
        for number in range(keys.num_rows):
            own = pc.equal(at, number)
            group, cells = group_of(hashes.filter(own)[0].as_py()), _shown_key(keys, number)
            _add(found[group].setdefault(cells, _Key(cells)), file, rows.column(ROW).filter(own))
    return {group: list(keys.values()) for group, keys in found.items()}


def _groups(hashes: pa.Array) -> pa.Array:
    """Return the groups of key hashes, as int64."""
    shift = pa.scalar(64 - GROUP_BITS, pa.uint64())
    return pc.shift_right(hashes, shift).cast(pa.int64())


def _add(key: _Key, file: str, numbers: pa.Array) -> None:
    """Count rows of a key, and keep the first places. If a window or a step lost the numbers, a file counts once."""
    if numbers.null_count:
        if file not in key.places:
            key.places.append(file)
            key.rows += 1
        return
    key.rows += len(numbers)
    key.places += [
        f"{file} row {number + 1}" for number in numbers.slice(0, max(0, _NAMED - len(key.places))).to_pylist()
    ]

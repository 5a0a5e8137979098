"""Items as Arrow rows (place, target, data), for tasks that can only send tables; travels by value like `worker`.

A row without data is a marker: it tells the partition that gets it to apply that range. INVARIANT: exactly one task
of a level sends the markers of the next, one a range, all in its first rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

SCHEMA = "place int, target int, data binary"
_ARROW = pa.schema([("place", pa.int32()), ("target", pa.int32()), ("data", pa.binary())])
_ROWS = 1024
_BYTES = 4 * 1024**2

Row = tuple[int, int, bytes | None]


def addressed(pairs: Iterable[tuple[int, bytes]], places: Sequence[int], marks: bool) -> Iterator[Row]:
    """The rows of what a task sends, after the markers of all ranges where it is the one that `marks` them."""
    if marks:
        yield from ((place, target, None) for target, place in enumerate(places))
    yield from ((places[target], target, data) for target, data in pairs)


def batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Record batches of some MiB; a large item is in one by itself or with small ones."""
    waiting: list[Row] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row[2] or b"")
        if size >= _BYTES or len(waiting) >= _ROWS:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def by_target(received: Iterable[pa.RecordBatch]) -> dict[int, list[bytes]]:
    """What each range of this partition received; a range is there if its marker is."""
    items: dict[int, list[bytes]] = {}
    marked: set[int] = set()
    for batch in received:
        for target, data in zip(batch.column("target").to_pylist(), batch.column("data").to_pylist(), strict=True):
            if data is None:
                marked.add(target)
            else:
                items.setdefault(target, []).append(data)
    if not marked.issuperset(items):
        raise RuntimeError(f"ranges {sorted(set(items) - marked)} have items and no marker")
    return {target: items.pop(target, []) for target in sorted(marked)}


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )

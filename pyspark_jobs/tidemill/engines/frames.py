"""Items as Arrow rows (place, target, data), for tasks that can only send tables. Shipped by value like `worker`.

A row without data is a marker: the partition that receives it applies that range. INVARIANT: exactly one task of a
level sends the markers of the next level, one for each range, in its first rows. So each range is applied once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

SCHEMA = "place int, target int, data binary"
_ARROW = pa.schema([("place", pa.int32()), ("target", pa.int32()), ("data", pa.binary())])
_ROWS = 1024
_BYTES = 4 * 1024**2

_Row = tuple[int, int, bytes | memoryview | None]


def addressed(pairs: Iterable[tuple[int, bytes | memoryview]], places: Sequence[int], marks: bool) -> Iterator[_Row]:
    """Yield the rows of a task's items. The task that `marks` sends the markers of all ranges first."""
    if marks:
        yield from ((place, target, None) for target, place in enumerate(places))
    yield from ((places[target], target, data) for target, data in pairs)


def batches(rows: Iterable[_Row]) -> Iterator[pa.RecordBatch]:
    """Yield record batches of about 4 MiB. An item is never cut, so a large one makes a large batch."""
    waiting: list[_Row] = []
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
    """Return the items of each range of this partition. A range is present if its marker arrived."""
    items: dict[int, list[bytes]] = {}
    marked: set[int] = set()
    for batch in received:
        for target, data in zip(batch.column("target").to_pylist(), batch.column("data").to_pylist(), strict=True):
            if data is None:
                marked.add(target)
            else:
                items.setdefault(target, []).append(data)
    if not marked.issuperset(items):
        raise RuntimeError(f"ranges {sorted(set(items) - marked)} have items but no marker")
    return {target: items.pop(target, []) for target in sorted(marked)}


def _batch(rows: list[_Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )

"""State without some keys: writes segments again that hold rows of the keys, also tombstones and rows out of sight.

INVARIANT: a segment that is written again keeps its range and its sequence, so what it shows of all other keys, and
what is newer than what, stays as it was.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from .. import _native, names
from ..errors import InternalError
from ..protocol.records import HASH_END, Segment
from ..repo.opened import Opened
from ..state.columns import MapColumns
from ..state.older import read_run
from ..state.versions import LARGEST_COLUMN, fetch, open_map, store_run
from ..store import Store
from ..values import dataclass
from .keys import Keys

SegmentsByMap = Mapping[str, list[Segment]]


@dataclass(frozen=True)
class ForgetTarget:
    """Where objects are written again: version, attempt, and whether they are written at all.

    `stored` gets the name of each object before it is stored. `clean` gets the objects and published files that have
    none of the keys, so that those which a dry run read are not read again. Objects never change; what came since is
    not in it.
    """

    version: int
    attempt: str
    dry_run: bool = False
    stored: list[str] = field(default_factory=list)
    clean: set[str] = field(default_factory=set)

    def name(self, name: str) -> str:
        """Return the name of an object that will be stored, and note it."""
        self.stored.append(name)
        return name

    def stem(self, index: int) -> str:
        """Return the stem of the name of the `index`-th object."""
        return names.again_stem(self.version, self.attempt, index, "forget")


@dataclass
class Rewritten:
    """Maps without the keys: live segments, how many live rows of each map went, and which objects were replaced.

    `objects` maps the name of an object to the segment that took its place; None: no row was left, or a dry run.
    """

    maps: dict[str, list[Segment]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    objects: dict[str, Segment | None] = field(default_factory=dict)


def state_without_keys(
    repo: Opened, operator: str, columns: Mapping[str, MapColumns], maps: SegmentsByMap, keys: Keys, to: ForgetTarget
) -> Rewritten:
    """Write the segments of all maps of an operator again that hold one of the keys. A dry run only looks."""
    made = Rewritten()
    for name, segments in maps.items():
        shape = columns[name]
        made.rows[name] = _live(repo, shape, segments, keys)
        for segment in segments:
            if segment.name in made.objects or segment.name in to.clean:
                continue
            run = _with_keys(repo.store, shape, segment, keys)
            if run is None:
                to.clean.add(segment.name)
                continue
            target = to.name(names.segment(operator, name, repo.branch, to.stem(len(made.objects))))
            left = None if to.dry_run else run_without(run, keys.hashes)
            stored = [] if left is None else store_run(repo.store, repo.cache, left, (0, 0), target)
            made.objects[segment.name] = stored[0] if stored else None
        made.maps[name] = [again for segment in segments for again in _renamed(segment, made)]
    return made


def key_rows(
    repo: Opened, columns: Mapping[str, MapColumns], maps: SegmentsByMap, to: ForgetTarget
) -> Iterator[pa.Table]:
    """Yield the keys of all rows of an operator's segments, also of those that are out of sight or deleted."""
    for name, segments in maps.items():
        shape = columns[name]
        for segment in {one.name: one for one in segments}.values():
            if segment.name not in to.clean:
                run = read_run(shape.engine(), fetch(repo.store, segment.name, segment.checksum), segment.name)
                yield pa.Table.from_batches([run.rows().select(shape.key.names)])


def keys_without_rows(
    repo: Opened, columns: Mapping[str, MapColumns], maps: SegmentsByMap, keys: Keys
) -> list[dict[str, Any]]:
    """Return the keys that have no live row in any map of an operator."""
    left = dict(enumerate(keys.columns.to_pylist()))
    for name, segments in maps.items():
        shape = columns[name]
        for place, key_hash in enumerate(keys.hashes):
            if place in left:
                opened = open_map(repo.store, repo.cache, shape.engine(), segments, key_hash, key_hash)
                if _count(keys, pa.Table.from_batches([opened.map.scan()]), shape):
                    del left[place]
    return list(left.values())


def _live(repo: Opened, columns: MapColumns, segments: Sequence[Segment], keys: Keys) -> int:
    """Return how many live rows of a map have one of the keys."""
    found = 0
    for key_hash in set(keys.hashes):
        opened = open_map(repo.store, repo.cache, columns.engine(), segments, key_hash, key_hash)
        found += _count(keys, pa.Table.from_batches([opened.map.scan()]), columns)
    return found


def _with_keys(store: Store, columns: MapColumns, segment: Segment, keys: Keys) -> _native.Run | None:
    """Return the run of a segment if it has a row of one of the keys. `InternalError` if hashes collide."""
    run = read_run(columns.engine(), fetch(store, segment.name, segment.checksum), segment.name)
    found = False
    for key_hash in set(keys.hashes):
        rows = pa.Table.from_batches([run.within(key_hash, key_hash).rows()])
        ours = _count(keys, rows, columns)
        if 0 < ours < rows.num_rows:
            raise InternalError(f"forget: another key of map `{columns.name}` has the hash {key_hash:016x}, too")
        found = found or ours > 0
    return run if found else None


def _count(keys: Keys, rows: pa.Table, columns: MapColumns) -> int:
    return sum(keys.among(rows.select(columns.key.names)).to_pylist()) if rows.num_rows else 0


def run_without(run: _native.Run, hashes: Iterable[int]) -> _native.Run | None:
    """Return a run without all rows of these hashes, or None if no row is left."""
    edges = [-1, *sorted(set(hashes)), HASH_END + 1]
    return _joined(
        run.within(before + 1, after - 1) for before, after in itertools.pairwise(edges) if after - before > 1
    )


def run_of_keys(run: _native.Run, hashes: Iterable[int]) -> _native.Run | None:
    """Return all rows of a run that have one of these hashes, or None if there is none."""
    return _joined(run.within(one, one) for one in sorted(set(hashes)))


def _joined(parts: Iterable[_native.Run]) -> _native.Run | None:
    pieces = [piece for piece in parts if len(piece)]
    if not pieces:
        return None
    [(_, _, left)] = _native.Run.merge(pieces, 0, HASH_END, "nothing", LARGEST_COLUMN)
    return left


def _renamed(segment: Segment, made: Rewritten) -> list[Segment]:
    """Return the entry of a segment with the object that took its place; nothing if no row was left."""
    if segment.name not in made.objects:
        return [segment]
    stored = made.objects[segment.name]
    if stored is None:
        return []
    same = {one: getattr(stored, one) for one in ("name", "checksum", "size", "rows", "etag")}
    return [dataclasses.replace(segment, **same)]

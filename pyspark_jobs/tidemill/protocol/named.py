"""`named`: which objects a record names. Verifying and garbage collection share it.

Pure. INVARIANT: an object that any retained record names is never garbage, so a record type that names objects is
listed here or nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import singledispatch

from ..values import dataclass
from .kinds import rules_of
from .records import AddedOutput, Commit, OutputFile, QuarantineFile, Segment, Split, StoreVersion
from .refs import Refs


@dataclass(frozen=True)
class Object:
    """An object that a record names, and what it must be. `etag` is empty if the store has none."""

    name: str
    checksum: str
    size: int
    etag: str = ""


@singledispatch
def named(record: object) -> frozenset[Object]:
    """Return the objects that a commit, all refs, or a version of a `StateStore` name."""
    raise TypeError(f"a {type(record).__name__} names no objects")


@named.register
def _commit(record: Commit) -> frozenset[Object]:
    segments = (one for maps in record.state.values() for of_map in maps.values() for one in of_map)
    outputs = (file for files in record.outputs.values() for file in files)
    added = (file for outputs in record.adds.values() for file in _added(outputs))
    return _objects(segments, record.ledger, outputs, record.quarantine, added) | _requeued(
        *record.requeued, *record.waiting
    )


@named.register
def _refs(record: Refs) -> frozenset[Object]:
    seeds = (one for seed in record.seeds.values() for of_map in seed.maps.values() for one in of_map)
    bases = (one for base in record.bases for one in base.outputs)
    return _objects(seeds, record.ledger, bases)


@named.register
def _store_version(record: StoreVersion) -> frozenset[Object]:
    return _objects(record.segments)


def _requeued(*splits: Split) -> frozenset[Object]:
    return frozenset(Object(one.requeued.name, one.requeued.checksum, one.size) for one in splits if one.requeued)


def _added(outputs: Iterable[AddedOutput]) -> Iterator[OutputFile]:
    return (file for output in outputs for file in output.files)


def _objects(*groups: Iterable[Segment | OutputFile | QuarantineFile]) -> frozenset[Object]:
    return frozenset(
        Object(one.name, one.checksum, one.size, getattr(one, "etag", "")) for group in groups for one in group
    )


def output_files(commit: Commit, name: str) -> list[list[OutputFile]]:
    """Return the files of a sink in a version, by the version that wrote them: a promotion has those of its branch."""
    groups = [commit.outputs.get(name, [])]
    if rules_of(commit).of_branch:  # what the branch made, version by version
        groups += [one.files for one in commit.adds.get(name, []) if one.branch != commit.branch]
    return [files for files in groups if files]

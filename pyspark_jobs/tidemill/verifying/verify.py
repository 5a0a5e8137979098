"""`verify`: reads what a repository holds, and reports everything that is damaged, with what it affects.

INVARIANT: it writes nothing and repairs nothing. It lists the objects once, in the order of names, so commits come
before what they name, and a run at work beside it is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .. import _native, names
from ..errors import InvalidInput
from ..protocol.records import HASH_END, Commit, Segment, VersionOf
from ..protocol.refs import MAIN, Refs
from ..protocol.retained import first_kept, floor, kept_objects, pinned
from ..repo.opened import Opened
from ..repo.operators import committed_state
from ..sources.ledger import LEDGER_SCHEMA
from ..state.columns import MapColumns
from ..state.versions import open_map
from .contents import faults
from .findings import Findings, VerifyReport
from .forgotten import INCOMPLETE, Searched, search
from .objects import Objects, OnChecked
from .published import PublishedVersions
from .records import Records, live_branches

_MOST_PARTS, _PART_BYTES = 16, 4 << 20
"""The rows of a map are counted in parts of about so many bytes, so that merging them takes the memory of a part."""
_DATA = ("output/", "quarantine/", "state/")


def verify(
    repo: Opened, deep: bool = False, on_checked: OnChecked | None = None, forgotten: bool = False
) -> VerifyReport:
    """Check all records and the objects that they name. With `deep`, read every byte and count the rows of the heads.

    Without `deep`, versions that are no longer kept are left out, with their records and published files.
    `InvalidInput` if there is no repository. Damage is reported, not raised.
    """
    found = Findings()
    listing = {entry.name: entry for entry in repo.store.list()}
    if not any(name.startswith(("refs/", "branches/", *_DATA)) for name in listing):
        repo.initialised()  # raises the error that says so
    records = Records(repo.store, listing, found, repo.log.rewrites.commit)
    objects = Objects(found)
    refs = records.refs()
    heads, seen, published = [], set[VersionOf](), 0
    if refs is not None:
        _check_identity(repo, refs)
        repo.log.rewrites.know(refs.rewrote_at)
        objects.add(refs)
        versions = PublishedVersions(repo, refs.uuid, refs, listing, found)
        apart = pinned(refs)
        for commit in records.pinned(refs):
            seen.add(VersionOf(commit.branch, commit.version))
            objects.add(commit)
        for branch in live_branches(refs):
            head: Commit | None = None
            lowest = first_kept(floor(refs, branch.id))
            for head in records.commits(refs, branch, 0 if deep else lowest):
                at = VersionOf(head.branch, head.version)
                seen.add(at)
                if at in apart or at.version >= lowest:
                    objects.add(head, kept_objects(refs, head, at in apart))
                for fault in faults(head):
                    found.add(names.commit(head.branch, head.version), fault, f"version {head.version}")
                if branch.id == repo.branch:
                    versions.add(head)
            heads += [] if head is None else [head]
        published = versions.check(deep)
    size = objects.check(repo.store, listing, deep, on_checked or _silent)
    if deep and not found.problems:
        for head in heads:
            _count_rows(repo, head, found)
    searched = Searched()
    if forgotten and refs is not None:
        with found.unless_known(names.commits(MAIN), INCOMPLETE):
            searched = search(repo, refs, found)
    return VerifyReport(
        problems=list(found.problems.values()),
        commits=len(seen),
        objects=len(objects.known),
        bytes=size,
        published=published,
        unnamed=sum(name.startswith(_DATA) and name not in objects.known for name in listing),
        deep=deep,
        forgotten_keys=searched.keys if forgotten else None,
        unsearched=searched.unsearched,
        gone_files=searched.gone,
    )


def _silent(done: int, total: int) -> None:
    """Show no progress."""


def _check_identity(repo: Opened, refs: Refs) -> None:
    """Raise `InvalidInput` if the repository is that of another pipeline."""
    if refs.pipeline != repo.job.pipeline:
        raise InvalidInput(
            f"the repository {repo.store.uri} belongs to pipeline `{refs.pipeline}`, this is `{repo.job.pipeline}`",
            hint="use another root for this pipeline",
        )


def _count_rows(repo: Opened, head: Commit, found: Findings) -> None:
    """Note maps of a head that do not have as many rows as its commit says."""
    name = names.commit(head.branch, head.version)
    for what, columns, segments, expected in _maps(repo, head):
        affects = f"{what} in version {head.version}"
        with found.of(name, affects):
            rows = sum(
                len(open_map(repo.store, repo.cache, columns, segments, lo, hi).map)
                for lo, hi in _cut(HASH_END + 1, _parts(segments))
            )
            if rows != expected:
                found.add(name, f"{what}: found {rows} rows, expected {expected}", affects)


def _maps(repo: Opened, head: Commit) -> Iterator[tuple[str, _native.MapSchema, list[Segment], int]]:
    """Yield every map of a version: its name in words, its columns, its segments, and how many rows it must have."""
    laid: Mapping[str, Mapping[str, list[Segment]]] = committed_state(repo, head)
    for operator, maps in laid.items():
        described = head.schemas[operator]["maps"]
        for name, segments in maps.items():
            expected = head.rows.get(operator, {}).get(name)
            if expected is not None:
                columns = MapColumns.described(name, described[name]).engine()
                yield f"map `{name}` of operator `{operator}`", columns, segments, expected
    for expected in head.rows.get(names.LEDGER, {}).values():
        yield "the ledger", LEDGER_SCHEMA, head.ledger, expected


def _parts(segments: Sequence[Segment]) -> int:
    """Return into how many ranges to cut a map. Each range reads the segments once more, if they are not cached."""
    return min(_MOST_PARTS, 1 + sum(segment.size for segment in segments) // _PART_BYTES)


def _cut(end: int, parts: int) -> Iterator[tuple[int, int]]:
    return ((end * part // parts, end * (part + 1) // parts - 1) for part in range(parts))

"""What there is to do for a version in each sink, and the record that it was done.

A version with a record is published. INVARIANT: the first process that creates the record decides what it says; others
find it, and may not replace it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import names
from ..errors import CorruptState
from ..protocol.codec import decode, encode
from ..protocol.described import calls_function
from ..protocol.kinds import rules_of
from ..protocol.numbered import Numbered
from ..protocol.records import Commit, OutputFile, Published, VersionOf
from ..protocol.refs import MAIN
from ..repo.opened import Opened
from ..sinks.contract import Owner, SinkPlace
from ..store import Store
from ..values import dataclass

NOT_DESCRIBED: Mapping[str, Any] = {"kind": "unknown", "path": None, "schema": ""}
"""A sink that a commit withdraws files of, or adds files to, but does not have."""


@dataclass(frozen=True)
class SinkWork:
    """The work in one sink for one version. `files` have their places in the commit's list.

    `is_gone`: the version was withdrawn before it was published. What it withdraws goes, and nothing is added.
    """

    commit: Commit
    name: str
    described: Mapping[str, Any]
    files: Sequence[tuple[int, OutputFile]]
    withdraws: Sequence[VersionOf]
    is_gone: bool = False


def works(repo: Opened, commit: Commit) -> Iterator[SinkWork]:
    """Yield what there is to do for a version, sink by sink."""
    if not repo.publishes or commit.branch != repo.branch:
        return
    for name in dict.fromkeys((*commit.sinks, *commit.withdraws, *commit.adds)):
        described = commit.sinks.get(name, NOT_DESCRIBED)
        if calls_function(described) and repo.branch != MAIN:
            continue
        outputs = [*commit.outputs.get(name, []), *(f for added in commit.adds.get(name, []) for f in added.files)]
        is_kept = described["kind"] is None and not rules_of(commit).adds_published
        files = [(place, file) for place, file in enumerate(outputs) if file.rows and not is_kept]
        withdraws = commit.withdraws.get(name, [])
        if files or withdraws or (calls_function(described) and rules_of(commit).carries_out):
            yield SinkWork(commit, name, described, files, withdraws)


def place_of(repo: Opened, sink: str, uuid: str | None = None) -> SinkPlace:
    """Return what a sink needs to work at its place. Of a copy of a repository it is the copy's uuid that counts.

    `uuid` is that of the repository, if the caller knows it; otherwise it is read from `refs/`.
    """
    owner = Owner(repo.job.pipeline, repo.initialised().uuid if uuid is None else uuid, sink)
    return SinkPlace(owner, repo.store, repo.storage_options.get("sink"))


def read_record(repo: Opened, version: VersionOf, sink: str) -> Published | None:
    """Return the record of what a sink shows of a version, or None if nothing was published."""
    records = _records(repo.store, version.branch, sink)
    data = records.read(version.version)
    return None if data is None else decode(Published, data, records.name(version.version))


def record_of(repo: Opened, work: SinkWork) -> Published | None:
    """Return the record of a version in a sink. `CorruptState` if it is that of another commit."""
    commit = work.commit
    found = read_record(repo, VersionOf(commit.branch, commit.version), work.name)
    if found is not None:
        _check_same(repo.store, found, commit.checksum)
    return found


def has_record(repo: Opened, work: SinkWork) -> bool:
    """Whether a version is published in a sink.

    Once the newest version of a sink was seen to be recorded, the store is not asked again.
    """
    commit = work.commit
    if repo.session.published.get(work.name) == commit.checksum:
        return True
    is_there = record_of(repo, work) is not None
    if is_there:
        repo.session.published[work.name] = commit.checksum
    return is_there


def claim(repo: Opened, record: Published) -> bool:
    """Create the record, unless another process made the version visible first. Return whether it is ours."""
    records = _records(repo.store, record.branch, record.sink)
    data = encode(record)
    found = records.claim(record.version, data)
    _check_same(repo.store, decode(Published, found, records.name(record.version)), record.commit_checksum)
    repo.session.published[record.sink] = record.commit_checksum
    return found == data


def _records(store: Store, branch: str, sink: str) -> Numbered:
    return Numbered(store, names.published(branch, sink), "published record")


def _check_same(store: Store, found: Published, commit_checksum: str) -> None:
    if found.commit_checksum != commit_checksum:
        uri = _records(store, found.branch, found.sink).uri(found.version)
        raise CorruptState(
            f"read `{uri}`: it was published from the commit with checksum {found.commit_checksum}, but the commit of "
            f"version {found.version} has {commit_checksum}",
            hint="restore `published/` and `branches/` from one backup",
        )

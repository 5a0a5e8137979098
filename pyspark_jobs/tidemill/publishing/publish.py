"""Publishes committed outputs and carries out withdrawals, version by version, and keeps a record of each.

Only the branch `main` publishes. INVARIANT: a version with a record is never published again, wherever its files are
now, and nothing is published in a place that only a record names; see `former_sinks` for deleting from one. A version
that was withdrawn before it was published gets a record without files, so no process that stalled publishes it later.
CRASH: a run that dies before the record has published some of the files; the next run repeats the version before it
plans.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import pyarrow as pa

from .. import names
from ..clock import now_ms
from ..counts import versions_of
from ..errors import CorruptState, InvalidInput, StoreUnavailable, TidemillError
from ..protocol.codec import decode, encode
from ..protocol.described import calls_function
from ..protocol.history import is_shown
from ..protocol.kinds import rules_of
from ..protocol.named import Object
from ..protocol.numbered import Numbered
from ..protocol.records import Commit, OutputFile, Published, PublishedFile, VersionOf
from ..protocol.refs import MAIN
from ..protocol.retained import is_kept
from ..repo.opened import Opened
from ..repo.stored import fault_in
from ..schema import to_arrow
from ..sinks import asked, recorded_folder
from ..sinks.contract import Applied, Change, Owner, Seen, Sink, SinkPlace, Withdrawn
from ..sinks.folder import Folder
from ..sinks.public import parsed, public_name
from ..sinks.same_files import same_files
from ..store import ListedObject, Store, side_by_side
from ..values import dataclass
from .former_sinks import is_former, names_of, withdraw_former

LOG = logging.getLogger("tidemill")
NOT_DESCRIBED: Mapping[str, Any] = {"kind": "unknown", "path": None, "schema": ""}
"""A sink that a commit withdraws files of, or adds files to, but does not have."""
Unneeded = Mapping[str, Collection[int]]
"""By sink, versions that need not be published, because a correction is about to withdraw them."""


@dataclass(frozen=True)
class _Work:
    """The work in one sink for one version. `files` have their places in the commit's list.

    `is_gone`: the version was withdrawn before it was published. What it withdraws goes, and nothing is added.
    """

    commit: Commit
    name: str
    described: Mapping[str, Any]
    files: Sequence[tuple[int, OutputFile]]
    withdraws: Sequence[VersionOf]
    is_gone: bool = False


def publish_version(repo: Opened, commit: Commit, head: Commit, unneeded: Unneeded | None = None) -> int:
    """Publish one version wherever it has no record yet, if `head` shows it. Return in how many sinks that was done."""
    todo = [work for work in works(repo, commit) if commit.version not in (unneeded or {}).get(work.name, ())]
    return sum(_publish(repo, _as_shown(work, head)) for work in todo if not _is_recorded(repo, work))


def _as_shown(work: _Work, head: Commit) -> _Work:
    """Return the work; it adds nothing if `head` does not show the version."""
    return dataclasses.replace(work, is_gone=not is_shown(head, work.commit.version, work.name))


def publish_new(repo: Opened, commit: Commit) -> int:
    """Publish a version that this process has just committed, which probably has no record yet; see `publish_version`.

    So the places of sinks are listed while the records are asked for, and sinks are served side by side. Only functions
    are called one after the other, in this thread, after that.
    """
    todo = list(works(repo, commit))
    beside = [work for work in todo if _is_plain(repo, work)] if repo.store.requests_at_once > 1 else []
    done = side_by_side(repo.store, [partial(_publish_listed, repo, work) for work in beside])
    rest = [work for work in todo if work not in beside]
    return sum(done) + sum(_publish(repo, work) for work in rest if not _is_recorded(repo, work))


def look_for_records(repo: Opened, head: Commit) -> None:
    """Ask side by side whether the newest version is published, so that `repair` need not ask.

    An error is left to `repair`.
    """
    with contextlib.suppress(TidemillError):
        side_by_side(repo.store, [partial(_is_recorded, repo, work) for work in works(repo, head)])


def _is_plain(repo: Opened, work: _Work) -> bool:
    """Whether nothing but new files of a folder is to be published, so that no code of the user is called."""
    return _folder(repo, work) is not None and bool(work.files) and not work.withdraws


def _folder(repo: Opened, work: _Work) -> Folder | None:
    return asked.sink_folder(repo.declared_sink(work.name))


def _publish_listed(repo: Opened, work: _Work) -> bool:
    """Publish a version in a folder that is listed while its record is asked for."""
    folder = _folder(repo, work)
    assert folder is not None
    with _errors_name_sink(repo, work):
        listed = partial(folder.listed, _change(repo, work, [], _ShownAlready()), place_of(repo, work.name))
        reads: list[Callable[[], Any]] = [partial(_is_recorded, repo, work), listed]
        is_recorded, there = side_by_side(repo.store, reads)
    return not is_recorded and _publish(repo, work, there)


def repair(repo: Opened, head: Commit | None, unneeded: Unneeded | None = None) -> list[int]:
    """Publish versions that earlier runs left unpublished, oldest first. Return those versions.

    `unneeded` ones are left as they are. A version that `head` does not show is not published; only what it withdraws
    is withdrawn.
    """
    if head is None or not repo.publishes:
        return []
    return [commit.version for commit in _left(repo, head) if publish_version(repo, commit, head, unneeded)]


def repair_if_possible(repo: Opened, head: Commit | None) -> bool:
    """Publish what earlier runs left, up to the first version that cannot be published. Return whether to look again.

    INVARIANT: what cannot be published never blocks the correction that withdraws it. Any other correction meets the
    error again when it commits.
    """
    try:
        return bool(repair(repo, head))
    except (InvalidInput, CorruptState) as error:
        LOG.warning("%s", error.message)
        return True


def _left(repo: Opened, head: Commit) -> Iterator[Commit]:
    """Yield the versions that may be unpublished. A copy leaves those of the original to the original."""
    for commit in repo.log.commits(head.published_through + 1, through=head):
        if commit.pipeline_uuid == repo.initialised().uuid:
            yield commit


def republish(repo: Opened, since: int, only: str | None) -> list[int]:
    """Make the files of every version from `since` visible again. Return the versions for which that was done.

    Versions that a later commit withdrew are left out, as are sinks that the code does not have any more, and versions
    of which files of the original of this copy are there. A function is called again only if `only` names it.
    """
    commits = list(repo.log.commits(since))
    theirs = shown_by_original(repo, commits)
    for sink, versions in theirs.items():
        LOG.warning("sink `%s`: the rows of %s are not published again, because files of the repository of which this "
                    "is a copy have them", sink, versions_of(versions))  # fmt: skip
    _warn_of_lost(repo, [work for commit in commits for work in works(repo, commit)])
    gone = {(name, one) for commit in commits for name, those in commit.withdraws.items() for one in those}
    done = []
    for commit in commits:
        ours = VersionOf(commit.branch, commit.version)
        todo = [work for work in works(repo, commit) if (work.name, ours) not in gone]
        todo = [work for work in todo if commit.version not in theirs.get(work.name, ())]
        asked = [work for work in todo if _is_asked(repo, work, only)]
        if [work for work in asked if _publish(repo, work)]:
            done.append(commit.version)
    return done


def shown_by_original(repo: Opened, commits: Iterable[Commit]) -> dict[str, list[int]]:
    """Return by sink the versions among `commits` that files show which the original of this copy published."""
    uuid = repo.initialised().uuid
    before = {one.version: one.pipeline_uuid for one in commits if one.pipeline_uuid != uuid}
    found: dict[str, list[int]] = {}
    for output in repo.job.outputs.values() if before and repo.publishes else ():
        if output.sink is not None and output.sink.path:
            there = (one for one in asked.seen(output.sink, place_of(repo, output.name)) if not one.is_ours)
            versions = {one.version for one in there if before.get(one.version, "").startswith(one.uuid or "-")}
            if versions:
                found[output.name] = sorted(versions)
    return found


def _warn_of_lost(repo: Opened, works: Sequence[_Work]) -> None:
    for name in sorted({work.name for work in works if work.files and repo.declared_sink(work.name) is None}):
        LOG.warning("sink `%s` is left out, because this code does not have it; its files stay where they are", name)


def take_over(repo: Opened, sink: str, others: Sequence[Seen]) -> None:
    """Publish, under our own uuid, the versions among `others` that we have from the repository we are a copy of."""
    newest = repo.log.head()
    for version in sorted({one.version for one in others if newest is not None and one.version <= newest.version}):
        commit = repo.log.commit(version)
        if any(one.version == version and commit.pipeline_uuid.startswith(one.uuid) for one in others):
            for work in works(repo, commit):
                if work.name == sink:
                    _publish(repo, work)


def _is_asked(repo: Opened, work: _Work, only: str | None) -> bool:
    sink = repo.declared_sink(work.name)
    if sink is None:
        return False
    return work.name == only if asked.is_called(sink) or only is not None else bool(work.files)


def published_through(repo: Opened, head: Commit | None) -> int:
    """Return the last version up to which all versions are published, or -1. This reads the records."""
    if head is None or not repo.publishes:
        return -1
    for commit in _left(repo, head):
        todo = [work for work in works(repo, commit) if not _is_lost_function(repo, work)]
        if any(_record(repo, work) is None for work in todo):
            return commit.version - 1
    return head.version


def works(repo: Opened, commit: Commit) -> Iterator[_Work]:
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
            yield _Work(commit, name, described, files, withdraws)


def _withdraw_if_late(repo: Opened, work: _Work, names: Collection[str] = ()) -> None:
    """Delete what we have just copied if the version was withdrawn while this process stalled.

    `names` are those of earlier versions under which it copied files. INVARIANT: what a promotion has taken over since
    stays. Other places than folders do not add it then; see `Sink.apply`.
    """
    head, folder = repo.log.head(), _folder(repo, work)
    if folder is not None and head is not None and not is_shown(head, work.commit.version, work.name):
        place, by = place_of(repo, work.name), taken_over_in(repo, head, work.name)
        ours = [one for one in folder.seen(place) if one.is_ours and one.name not in by]
        late = [one.name for one in ours if one.version == work.commit.version or one.name in names]
        folder.remove(place, late)


def taken_over_in(repo: Opened, head: Commit | None, sink: str) -> dict[str, int]:
    """Return the files that a sink shows under the name of another version, with the promotion that took them over."""
    found: dict[str, int] = {}
    for version in [] if head is None else head.promotions:
        if head is not None and is_shown(head, version, sink):
            found |= dict.fromkeys(_taken_over(repo, version, sink), version)
    return found


def _taken_over(repo: Opened, version: int, sink: str) -> Iterator[str]:
    """Yield the names of other versions under which a promotion shows files, whether it is published yet or not."""
    record = read_record(repo, VersionOf(repo.branch, version), sink)
    if record is not None:
        yield from (one.name for one in record.files if (name := parsed(one.name)) and name.version != version)
        return
    for work in works(repo, repo.log.commit(version)):
        if work.name == sink:
            shown = _shown_already(repo, work, [read_record(repo, one, sink) for one in work.withdraws])
            yield from (one.name for one in shown.files.values())


def seen_by_record(repo: Opened, head: Commit | None, sink: str, found: Iterable[Seen]) -> Iterator[Seen]:
    """Yield what a place has, each file as one of the version whose record has it, whatever its name says."""
    by = taken_over_in(repo, head, sink)
    yield from (dataclasses.replace(one, version=by.get(one.name, one.version)) for one in found)


@dataclass(frozen=True)
class _ShownAlready:
    """What a promotion shows as it is, because the branch has made it again, by the places of its files.

    `files` are those of records that it withdraws; they stay. If it was published before, `names` are those under which
    its own record has such files.
    """

    files: Mapping[int, PublishedFile] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)


def _shown_already(repo: Opened, work: _Work, withdrawn: Sequence[Published | None]) -> _ShownAlready:
    """Return what a promotion shows as it is of the records that it withdraws.

    INVARIANT: processes that publish it agree, because these records never change, and were all made before.
    """
    sink = repo.declared_sink(work.name)
    if sink is None or work.is_gone or not rules_of(work.commit).of_branch or not asked.keeps_unchanged(sink):
        return _ShownAlready()
    version = work.commit.version
    ours = read_record(repo, VersionOf(work.commit.branch, version), work.name)
    there = [
        file
        for record in (withdrawn if ours is None else [ours])
        if record is not None and record.uri == sink.uri
        for file in record.files
    ]
    found = same_files(work.files, there, place_of(repo, work.name).owner)
    if ours is None:
        return _ShownAlready(files=found)
    named = {at: (file.name, parsed(file.name)) for at, file in found.items()}
    return _ShownAlready(names={at: name for at, (name, of) in named.items() if of is None or of.version != version})


def _publish(repo: Opened, work: _Work, there: Mapping[str, ListedObject] | None = None) -> bool:
    """Make a version visible in one sink, and record that. `there`: its files that were just seen in the place.

    Return False if its function left the code, or if its objects were given up.
    """
    if _is_lost_function(repo, work) and not work.is_gone:
        LOG.warning(
            "sink `%s`: version %d was committed for a function of foreachBatch that this code does not have; the "
            "function is not called; see `tidemill outputs --sink %s`", work.name, work.commit.version, work.name,
        )  # fmt: skip
        return False
    commit = work.commit
    with _errors_name_sink(repo, work):
        records = [(one, read_record(repo, one, work.name)) for one in work.withdraws]
        known = [record for _, record in records if record is not None]
        sink, place = repo.declared_sink(work.name), place_of(repo, work.name)
        former = [one for one in known if is_former(sink, one)]
        kind, path, uri = _place_of_record(work, sink, known)
        withdraws = [(one, record) for one, record in records if record not in former]
        shown = _shown_already(repo, work, known)
        try:
            change = dataclasses.replace(_change(repo, work, withdraws, shown), there=there)
            is_silent = sink is None or (work.is_gone and _is_void(sink, change))
            applied = Applied() if sink is None or is_silent else asked.applied(sink, change, place)
        except CorruptState:
            if not _is_given_up(repo, work):
                raise
            _withdraw_if_late(repo, work, shown.names.values())
            return False
        withdrawn = applied.withdrawn + withdraw_former(former, place)
        folder = recorded_folder(kind, uri) if sink is None else _folder(repo, work)
        half_done: list[str] = []
        if work.is_gone and folder is not None:
            half_done = [public_name(place.owner, commit.version, at, file) for at, file in work.files]
            withdrawn += half_done
        is_first = _claim(
            repo,
            Published(
                branch=commit.branch,
                version=commit.version,
                sink=work.name,
                pipeline_uuid=commit.pipeline_uuid,
                commit_checksum=commit.checksum,
                kind=kind,
                path=path,
                uri=uri,
                files=[*shown.files.values(), *applied.files],
                published_ms=now_ms(),
                withdrawn=withdrawn,
                position=applied.position,
            ),
        )
        if not is_first:
            _withdraw_if_late(repo, work, shown.names.values())
        elif half_done and folder is not None:  # after the record, so that no promotion takes over what is deleted here
            folder.remove(place, half_done)
    return True


def _is_void(sink: Sink, change: Change) -> bool:
    """Whether there is nothing to call a function for that was not called before its version was withdrawn."""
    return asked.is_called(sink) and not change.adds and not change.withdraws


def _is_given_up(repo: Opened, work: _Work) -> bool:
    """Whether objects of a version may be deleted: it was withdrawn while this process stalled, or is not kept."""
    head, version = repo.log.head(), work.commit.version
    if head is not None and not is_shown(head, version, work.name):
        return True
    if is_kept(repo.refresh(), VersionOf(work.commit.branch, version)):
        return False
    LOG.warning("sink `%s`: version %d is no longer kept, so its files cannot be published again", work.name, version)
    return True


@contextlib.contextmanager
def _errors_name_sink(repo: Opened, work: _Work) -> Iterator[None]:
    """Add to errors the sink's name, and that the version itself is committed."""
    try:
        yield
    except (InvalidInput, StoreUnavailable, CorruptState) as error:
        what = f"publish version {work.commit.version} of sink `{work.name}`, which is committed"
        hint = error.hint or "correct the cause; the next run publishes the version"
        if isinstance(error, CorruptState) and rules_of(work.commit).carries_out and _has_lost_object(repo, work):
            back = work.commit.version - 1
            hint += f". Or undo the version with `tidemill rewind --to {back}`; the next run then makes its rows again"
        raise type(error)(f"{what}: {error.message}", hint=hint) from error


def _has_lost_object(repo: Opened, work: _Work) -> bool:
    """Whether an object with rows of the version is missing or damaged."""
    found = (Object(one.name, one.checksum, one.size) for _, one in work.files)
    return any(fault_in(repo.store, one, repo.store.stat(one.name), deep=True) is not None for one in found)


def _is_lost_function(repo: Opened, work: _Work) -> bool:
    has_code = repo.recorded is None
    return has_code and calls_function(work.described) and repo.declared_sink(work.name) is None


def _place_of_record(work: _Work, sink: Sink | None, records: Sequence[Published]) -> tuple[str, str, str]:
    """Return the kind, path and URI of the place where the rows of a version are: the sink as the code declares it.

    INVARIANT: a place that only a commit names is never written to. If nothing is to be published, the sink may have
    left the code. Then the place is that of the newest of the `records` to withdraw, or the one that the commit names.
    """
    if sink is not None:
        return sink.kind, sink.path, sink.uri
    if records and (work.is_gone or not work.files) and recorded_folder(records[-1].kind, records[-1].uri) is not None:
        return records[-1].kind, records[-1].path, records[-1].uri
    if work.is_gone:
        said = work.described
        return said["kind"] or "", said["path"] or "", said.get("uri") or ""
    raise InvalidInput(
        f"this code does not have the sink, and a commit alone cannot say where to write (it says "
        f"{work.described['kind']} in `{work.described['path'] or ''}`)",
        hint="restore the sink, with this path or another one, and run once; then remove it",
    )


def place_of(repo: Opened, sink: str, uuid: str | None = None) -> SinkPlace:
    """Return what a sink needs to work at its place. Of a copy of a repository it is the copy's uuid that counts.

    `uuid` is that of the repository, if the caller knows it; otherwise it is read from `refs/`.
    """
    owner = Owner(repo.job.pipeline, repo.initialised().uuid if uuid is None else uuid, sink)
    return SinkPlace(owner, repo.store, repo.storage_options.get("sink"))


def _change(
    repo: Opened, work: _Work, withdraws: Sequence[tuple[VersionOf, Published | None]], shown: _ShownAlready
) -> Change:
    stays = {*shown.names.values(), *(one.name for one in shown.files.values())}
    gone = [
        dataclasses.replace(one, files=[name for name in one.files if name not in stays])
        for one in _withdrawn(repo, work, withdraws)
    ]
    return Change(
        version=work.commit.version,
        schema=to_arrow(work.described["schema"]) if work.described["schema"] else pa.schema([]),
        adds=[] if work.is_gone else [one for one in work.files if one[0] not in shown.files],
        withdraws=gone,
        same_rows=rules_of(work.commit).same_rows,
        names=shown.names,
    )


def _withdrawn(
    repo: Opened, work: _Work, withdraws: Sequence[tuple[VersionOf, Published | None]]
) -> Iterator[Withdrawn]:
    """Yield the versions that the commit withdraws, without those of the repository of which this is a copy."""
    uuid, sink = repo.initialised().uuid, repo.declared_sink(work.name)
    for one, record in withdraws:
        commit = repo.log.commit(one.version)
        if record is not None and sink is not None and record.uri != sink.uri:
            LOG.warning(
                "sink `%s`: version %d is withdrawn, but it was published in `%s`, which is not the sink's path now; "
                "its files stay there", work.name, record.version, record.path,
            )  # fmt: skip
        files = [] if record is None else names_of(record, place_of(repo, work.name).owner)
        if files or commit.pipeline_uuid == uuid:
            path = commit.sinks.get(work.name, NOT_DESCRIBED)["path"]
            yield Withdrawn(one.branch, one.version, path or "", files)


def _records(store: Store, branch: str, sink: str) -> Numbered:
    return Numbered(store, names.published(branch, sink), "published record")


def read_record(repo: Opened, version: VersionOf, sink: str) -> Published | None:
    """Return the record of what a sink shows of a version, or None if nothing was published."""
    records = _records(repo.store, version.branch, sink)
    data = records.read(version.version)
    return None if data is None else decode(Published, data, records.name(version.version))


def _record(repo: Opened, work: _Work) -> Published | None:
    """Return the record of a version in a sink. `CorruptState` if it is that of another commit."""
    commit = work.commit
    found = read_record(repo, VersionOf(commit.branch, commit.version), work.name)
    if found is not None:
        _check_same(repo.store, found, commit.checksum)
    return found


def _is_recorded(repo: Opened, work: _Work) -> bool:
    """Whether a version is published in a sink.

    Once the newest version of a sink was seen to be recorded, the store is not asked again.
    """
    commit = work.commit
    if repo.session.published.get(work.name) == commit.checksum:
        return True
    is_there = _record(repo, work) is not None
    if is_there:
        repo.session.published[work.name] = commit.checksum
    return is_there


def _claim(repo: Opened, record: Published) -> bool:
    """Create the record, unless another process made the version visible first. Return whether it is ours."""
    records = _records(repo.store, record.branch, record.sink)
    data = encode(record)
    found = records.claim(record.version, data)
    _check_same(repo.store, decode(Published, found, records.name(record.version)), record.commit_checksum)
    repo.session.published[record.sink] = record.commit_checksum
    return found == data


def _check_same(store: Store, found: Published, commit_checksum: str) -> None:
    if found.commit_checksum != commit_checksum:
        uri = _records(store, found.branch, found.sink).uri(found.version)
        raise CorruptState(
            f"read `{uri}`: it was published from the commit with checksum {found.commit_checksum}, but the commit of "
            f"version {found.version} has {commit_checksum}",
            hint="restore `published/` and `branches/` from one backup",
        )

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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from ..clock import now_ms
from ..errors import CorruptState, InvalidInput, StoreUnavailable, TidemillError
from ..protocol.described import calls_function
from ..protocol.history import is_shown
from ..protocol.kinds import rules_of
from ..protocol.named import Object
from ..protocol.records import Commit, Published, VersionOf
from ..protocol.retained import is_kept
from ..repo.opened import Opened
from ..repo.stored import fault_in
from ..schema import to_arrow
from ..sinks import asked, recorded_folder
from ..sinks.contract import Applied, Change, Sink, Withdrawn
from ..sinks.folder import Folder
from ..sinks.public import public_name
from ..store import ListedObject, side_by_side
from .former_sinks import is_former, names_of, withdraw_former
from .taken_over import ShownAlready, shown_already, taken_over_in
from .works import NOT_DESCRIBED, SinkWork, claim, has_record, place_of, read_record, record_of, works

LOG = logging.getLogger("tidemill")
Unneeded = Mapping[str, Collection[int]]
"""By sink, versions that need not be published, because a correction is about to withdraw them."""


def publish_version(repo: Opened, commit: Commit, head: Commit, unneeded: Unneeded | None = None) -> int:
    """Publish one version wherever it has no record yet, if `head` shows it. Return in how many sinks that was done."""
    todo = [work for work in works(repo, commit) if commit.version not in (unneeded or {}).get(work.name, ())]
    return sum(publish_work(repo, _as_shown(work, head)) for work in todo if not has_record(repo, work))


def _as_shown(work: SinkWork, head: Commit) -> SinkWork:
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
    return sum(done) + sum(publish_work(repo, work) for work in rest if not has_record(repo, work))


def look_for_records(repo: Opened, head: Commit) -> None:
    """Ask side by side whether the newest version is published, so that `repair` need not ask.

    An error is left to `repair`.
    """
    with contextlib.suppress(TidemillError):
        side_by_side(repo.store, [partial(has_record, repo, work) for work in works(repo, head)])


def _is_plain(repo: Opened, work: SinkWork) -> bool:
    """Whether nothing but new files of a folder is to be published, so that no code of the user is called."""
    return _folder(repo, work) is not None and bool(work.files) and not work.withdraws


def _folder(repo: Opened, work: SinkWork) -> Folder | None:
    return asked.sink_folder(repo.declared_sink(work.name))


def _publish_listed(repo: Opened, work: SinkWork) -> bool:
    """Publish a version in a folder that is listed while its record is asked for."""
    folder = _folder(repo, work)
    assert folder is not None
    with _errors_name_sink(repo, work):
        listed = partial(folder.listed, _change(repo, work, [], ShownAlready()), place_of(repo, work.name))
        reads: list[Callable[[], Any]] = [partial(has_record, repo, work), listed]
        is_published, there = side_by_side(repo.store, reads)
    return not is_published and publish_work(repo, work, there)


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


def published_through(repo: Opened, head: Commit | None) -> int:
    """Return the last version up to which all versions are published, or -1. This reads the records."""
    if head is None or not repo.publishes:
        return -1
    for commit in _left(repo, head):
        todo = [work for work in works(repo, commit) if not _is_lost_function(repo, work)]
        if any(record_of(repo, work) is None for work in todo):
            return commit.version - 1
    return head.version


def _withdraw_if_late(repo: Opened, work: SinkWork, names: Collection[str] = ()) -> None:
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


def publish_work(repo: Opened, work: SinkWork, there: Mapping[str, ListedObject] | None = None) -> bool:
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
        shown = shown_already(repo, work, known)
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
        is_first = claim(
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


def _is_given_up(repo: Opened, work: SinkWork) -> bool:
    """Whether objects of a version may be deleted: it was withdrawn while this process stalled, or is not kept."""
    head, version = repo.log.head(), work.commit.version
    if head is not None and not is_shown(head, version, work.name):
        return True
    if is_kept(repo.refresh(), VersionOf(work.commit.branch, version)):
        return False
    LOG.warning("sink `%s`: version %d is no longer kept, so its files cannot be published again", work.name, version)
    return True


@contextlib.contextmanager
def _errors_name_sink(repo: Opened, work: SinkWork) -> Iterator[None]:
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


def _has_lost_object(repo: Opened, work: SinkWork) -> bool:
    """Whether an object with rows of the version is missing or damaged."""
    found = (Object(one.name, one.checksum, one.size) for _, one in work.files)
    return any(fault_in(repo.store, one, repo.store.stat(one.name), deep=True) is not None for one in found)


def _is_lost_function(repo: Opened, work: SinkWork) -> bool:
    has_code = repo.recorded is None
    return has_code and calls_function(work.described) and repo.declared_sink(work.name) is None


def _place_of_record(work: SinkWork, sink: Sink | None, records: Sequence[Published]) -> tuple[str, str, str]:
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


def _change(
    repo: Opened, work: SinkWork, withdraws: Sequence[tuple[VersionOf, Published | None]], shown: ShownAlready
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
    repo: Opened, work: SinkWork, withdraws: Sequence[tuple[VersionOf, Published | None]]
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

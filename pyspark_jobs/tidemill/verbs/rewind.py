"""`rewind`: go back to an earlier version, by a commit that restores it. Files that were read since then wait again.

Files that were published since are withdrawn. A rewind to a version that was itself rewound publishes its files again.
CRASH: one conditional create is the whole rewind. Withdrawing follows it, and the next run completes it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from .. import names
from ..driver.context import Context
from ..driver.correct import correct, required
from ..driver.discard import discard_names
from ..driver.identity import check_root
from ..driver.ledger import store_skipped
from ..driver.listing import listed_files
from ..driver.overtaken import fenced_if_overtaken
from ..driver.promoted import record_operators
from ..driver.publish import repair
from ..driver.versions import Needed, VersionSpec, hold, resolve
from ..errors import CorruptState, Fenced, InvalidInput, StoreUnavailable
from ..protocol.history import last_forget
from ..protocol.kinds import Changes, rules_of
from ..protocol.records import Commit, SkippedFile
from ..protocol.retained import refuse_if_gone
from ..protocol.successor import Origin, restored
from ..sources.contract import SourceFile
from ..sources.ledger import READ, look_up
from ..store.probe import probe
from ..upkeep.rest_published import Writing
from .files import File, Files, one_of, planned_files
from .sink_change import SinkChange, published_instead, sink_change


@dataclass(frozen=True)
class Rewind:
    """What `rewind` would do.

    `undone`: versions that leave the effective history. `waiting`: files that they read or skipped, which wait again,
    without those in `without` and those in `gone`, which do not exist any more. `withdraws` and `adds`: by sink, the
    versions whose files go and come back. `ends_plan`: the version whose open plan ends.
    """

    to_version: int
    undone: list[int]
    waiting: list[SourceFile]
    without: list[SourceFile]
    gone: list[SourceFile]
    withdraws: dict[str, list[int]]
    adds: dict[str, list[int]]
    ends_plan: int | None


@dataclass(frozen=True)
class _Found:
    """The versions at both ends, and what would be done."""

    origin: Origin
    target: Commit | None
    change: SinkChange
    rewind: Rewind


def rewind(context: Context, to_version: VersionSpec, reason: str, without: Sequence[File] = ()) -> Commit:
    """Restore a version by a commit, and return it. `InvalidInput` for a version that is not kept, or no reason."""
    required("rewind", reason)
    check_root(context)
    probe(context.store)
    repair(context, context.head())  # completes an earlier rewind, also if this one is refused
    found = _found(context, to_version, without)
    origin, target = found.origin, found.target
    if target is not None:
        again = found.change.again
        hold(context, Needed(target.version, again), origin.number, "rewind", reason)
    repair(context, origin.head)  # another process may have committed since; what stays is read from published files
    origin = context.origin(origin.head)
    attempt = uuid.uuid4().hex[:12]
    to = Writing(origin.number, attempt)
    changes: Changes = {
        "attempt": attempt,
        "reason": reason,
        **restored(origin, target),
        **published_instead(context, origin.head, found.change, to),
    }
    stored = to.stored
    if found.rewind.without:
        ours = store_skipped(context, target, found.rewind.without, origin.number, attempt)
        stored += [one.name for one in ours.segments]
        changes["ledger"] = ours.segments
        changes["rows"] = {**changes["rows"], names.LEDGER: {"files": ours.rows}}
        changes["skipped"] = [SkippedFile(f.source, f.path, f.etag, f.size) for f in found.rewind.without]
    try:
        made = correct(context, origin, "rewind", changes)
    except Fenced:
        discard_names(context.store, stored, attempt)
        raise
    record_operators(context, made)
    return made


def planned(context: Context, to_version: VersionSpec, without: Sequence[File] = ()) -> Rewind:
    """Return what `rewind` would do. Writes nothing."""
    return _found(context, to_version, without).rewind


def _found(context: Context, to_version: VersionSpec, without: Sequence[File]) -> _Found:
    head = context.head()
    target = _target(context, head, to_version)
    try:
        with fenced_if_overtaken(context, head, "rewind"):
            return _looked_up(context, head, target, without)
    except CorruptState:
        _target(context, head, to_version)  # raises if retention gave it up in the meantime
        raise


def _looked_up(context: Context, head: Commit | None, target: Commit | None, without: Sequence[File]) -> _Found:
    origin = context.origin(head)
    number = -1 if target is None else target.version
    change = sink_change(context, head, target, "rewind")
    undone = [context.log.commit(version) for version in change.undone]
    plan = context.log.plan(origin.number, origin.parent)
    waiting = _read_by(context, undone, target)
    out = _taken_out(context, target, without, waiting | planned_files(plan))
    if head is not None and _is_there(head, number, out):
        raise InvalidInput(f"rewind to version {number}: this is what the newest version has, so nothing would change")
    left = {key: file for key, file in waiting.items() if key not in {(one.source, one.path) for one in out}}
    there = _there(context) if left else {}
    gone = [file for key, file in left.items() if there is not None and key not in there]
    again = [file for key, file in left.items() if there is None or key in there]
    ends = None if plan is None else plan.number
    made = Rewind(number, change.undone, again, out, gone, change.withdraws, change.adds, ends)
    return _Found(origin, target, change, made)


def _is_there(head: Commit, number: int, out: Sequence[SourceFile]) -> bool:
    """Whether the head is the version to restore, or restores it and took the same files out of the input."""
    if number == head.version:
        return not out
    same = {(one.source, one.path, one.etag) for one in head.skipped} == {(f.source, f.path, f.etag) for f in out}
    return head.restores is not None and head.restores.version == number and same


def _target(context: Context, head: Commit | None, to_version: VersionSpec) -> Commit | None:
    number = resolve(context, to_version)
    if head is None:
        raise InvalidInput(f"rewind to version {number}: pipeline `{context.job.pipeline}` has no version yet")
    if number > head.version:
        raise InvalidInput(f"rewind to version {number}: the newest version is {head.version}")
    refuse_if_gone(context.refresh(), context.at(number), "rewind to", whole=True)
    forgot = last_forget(head)
    if forgot is not None and number < forgot:  # its floor may not be raised yet
        raise InvalidInput(
            f"rewind to version {number}: version {forgot} forgot keys that earlier versions hold",
            hint="versions before a `forget` cannot be restored",
        )
    return None if number < 0 else context.log.commit(number)


def _there(context: Context) -> Files | None:
    """Return the files that the sources have now, or None if a source cannot be listed."""
    try:
        return listed_files(context)
    except (InvalidInput, StoreUnavailable):
        return None


def _read_by(context: Context, undone: Sequence[Commit], target: Commit | None) -> dict[tuple[str, str], SourceFile]:
    """Return the files that the undone versions read or skipped and the target did not, by source and path."""
    files: dict[tuple[str, str], SourceFile] = {}
    for commit in undone:
        if rules_of(commit).reads:
            files |= planned_files(context.log.plan(commit.version))
        files |= {
            (one.source, one.path): SourceFile(one.source, one.path, one.etag, one.size, 0) for one in commit.skipped
        }
    known = look_up(context.ledger(target).map, list(files.values()))
    return {key: file for (key, file), at in zip(files.items(), known, strict=True) if at is None}


def _taken_out(context: Context, target: Commit | None, without: Sequence[File], known: Files) -> list[SourceFile]:
    """Return the files of `without`, as they are now. `InvalidInput` for a file that is unknown or that was kept."""
    if not without:
        return []
    candidates = {**known, **listed_files(context)}
    found = [one_of(context, candidates, file, "rewind", "file to leave out") for file in without]
    before = look_up(context.ledger(target).map, found)
    for file, at in zip(found, before, strict=True):
        if at is not None and at.how == READ:
            raise InvalidInput(
                f"rewind without `{file.path}`: version {at.version} read it, so its rows are part of the version to "
                "restore",
                hint=f"rewind to version {at.version - 1}",
            )
    return list(dict.fromkeys(found))

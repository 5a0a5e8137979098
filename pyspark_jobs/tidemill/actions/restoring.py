"""Which version a rewind restores, and what becomes of the files that were read since."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

from ..counts import count_of
from ..errors import InvalidInput, StoreUnavailable
from ..protocol.kinds import rules_of
from ..protocol.records import Commit
from ..protocol.retained import refuse_if_gone
from ..repo.input_files import File, InputFiles, listed_files, one_of, planned_files
from ..repo.opened import Opened
from ..repo.steps import Steps
from ..repo.versions import VersionSpec, number_of_version
from ..sources.contract import SourceFile, named_file
from ..sources.ledger import QUARANTINED, READ, look_up_files


def is_there(head: Commit, target: Commit | None, out: Sequence[SourceFile]) -> bool:
    """Whether the head is the version to restore, or promotes or restores it, with the same files out of the input."""
    if target is not None and target.as_parent in (head.as_parent, head.promoted):
        return not out
    same = {(one.source, one.path, one.etag) for one in head.skipped} == {(f.source, f.path, f.etag) for f in out}
    before = head.restores
    is_restored = before is not None and (before.version < 0 if target is None else before == target.as_parent)
    return is_restored and same


def version_to_restore(repo: Opened, head: Commit | None, to_version: VersionSpec) -> Commit | None:
    """Return the commit of a version, None for version -1. `InvalidInput` if it cannot be restored."""
    number = number_of_version(repo, to_version)
    if head is None:
        raise InvalidInput(f"rewind to version {number}: pipeline `{repo.job.pipeline}` has no version yet")
    if number > head.version:
        raise InvalidInput(f"rewind to version {number}: the newest version is {head.version}")
    refuse_if_gone(repo.refresh(), repo.version_of(number), "rewind to", whole=True)
    forgot = repo.log.given_up_by(head)
    if forgot is not None and number < forgot:  # its floor may not be raised yet
        raise InvalidInput(
            f"rewind to version {number}: version {forgot} forgot keys that earlier versions hold",
            hint="versions before a `forget` cannot be restored",
        )
    return None if number < 0 else repo.log.commit(number)


class CurrentFiles:
    """The files that the sources have now. They are listed once, when they are first needed."""

    def __init__(self, repo: Opened) -> None:
        self._opened = repo

    @functools.cached_property
    def files(self) -> InputFiles:
        """All files. An error if a source cannot be listed."""
        return listed_files(self._opened)

    def if_possible(self) -> InputFiles | None:
        """Return all files, or None if a source cannot be listed."""
        try:
            return self.files
        except (InvalidInput, StoreUnavailable):
            return None


def read_by(repo: Opened, before: Steps, after: Steps) -> dict[tuple[str, str], SourceFile]:
    """Return the files that the steps which are undone read or skipped and the target did not, by source and path.

    In the place of a promotion stand the versions of its branch.
    """
    files: dict[tuple[str, str], SourceFile] = {}
    stays, target = set(after.all), after.head
    for step in (one for one in before.all if one not in stays):
        commit = before.commit(step)
        if rules_of(commit).reads:
            files |= planned_files(before.plan_of(step, commit))
        files |= {(one.source, one.path): SourceFile.skipped(one) for one in commit.skipped}
    known = look_up_files(repo.ledger(target).map, list(files.values()))
    return {key: file for (key, file), at in zip(files.items(), known, strict=True) if at is None}


def requeued_then(before: Steps, after: Steps) -> list[str]:
    """Return in a line each what becomes of rows and files that were requeued, if a rewind undoes that or their batch.

    Rows of a version that is undone itself are left out, because their file waits again.
    """
    stays, lines = set(after.all), []
    target, head = after.head, before.head
    known = {split.path for split in (() if head is None else head.waiting)}
    waiting = Counter[int]()
    for split in () if target is None else target.waiting:
        if split.requeued is not None and split.path not in known:
            waiting[split.requeued.version] += split.requeued.rows
    for version, rows in sorted(waiting.items()):
        lines.append(f"{count_of(rows, 'requeued row')} of version {version} will be read again")
    quarantined = {step.version for step in after.all}
    for step in (one for one in before.all if one not in stays):
        commit = before.commit(step)
        held = (split.requeued for split in commit.requeued)
        rows = sum(one.rows for one in held if one is not None and one.version in quarantined)
        what = [count_of(rows, "row")] if rows else []
        released = [SourceFile.skipped(one) for one in commit.released]
        known_files = look_up_files(after.repo.ledger(target).map, released)
        files = sum(one is not None and one.how == QUARANTINED for one in known_files)
        what += [count_of(files, "file")] if files else []
        if what:
            lines.append(f"{' and '.join(what)} that version {step.version} requeued will be in quarantine again")
    return lines


def taken_out(
    repo: Opened, target: Commit | None, without: Sequence[File], known: InputFiles, listing: CurrentFiles
) -> list[SourceFile]:
    """Return the files of `without`, as they are now. `InvalidInput` for a file that is unknown or that was kept."""
    if not without:
        return []
    candidates = {**known, **listing.files}
    found = [one_of(repo, candidates, file, "rewind", "file to leave out") for file in without]
    before = look_up_files(repo.ledger(target).map, found)
    for file, at in zip(found, before, strict=True):
        if at is not None and at.how == READ:
            raise InvalidInput(
                f"rewind without {named_file(file, repo.sources)}: version {at.version} read it, so its rows are part "
                "of the version to restore",
                hint=f"rewind to version {at.version - 1}",
            )
    return list(dict.fromkeys(found))

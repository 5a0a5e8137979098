"""What a rewind or promotion needs of the sinks: which versions they show, whether that can be undone, what came back.

INVARIANT: a correction that a sink cannot carry out is refused before it is committed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ..counts import count_of, versions_of
from ..errors import InvalidInput
from ..protocol.described import calls_function
from ..protocol.history import is_effective, is_shown, last_forget, shown_by
from ..protocol.kinds import KINDS, rules_of
from ..protocol.records import Commit, Kind, Published, VersionOf
from ..repo.opened import Opened
from ..sinks import asked, recorded_folder
from ..sinks.contract import Seen, Sink
from ..sinks.folder import Folder
from .former_sinks import check_former, places_of
from .taken_over import seen_by_record
from .works import NOT_DESCRIBED, place_of, read_record, works

LOG = logging.getLogger("tidemill")


SUSPECT_VERSIONS = 100
"""For how many versions after a correction a run looks for files that it withdrew and a stalled process copied."""
KEEP = 'leave what is published as it is: outputs="keep" or --outputs keep'
"""What helps if a promotion cannot withdraw what a sink shows."""


def may_have_strays(repo: Opened, head: Commit | None) -> bool:
    """Whether files were withdrawn so recently that a run looks for them."""
    return head is not None and first_suspect(repo, head) <= head.version


def first_suspect(repo: Opened, head: Commit) -> int:
    """Return the first version whose files were withdrawn so recently that a run looks for them.

    A `forget` may have withdrawn files of any version before it, and a promotion that was undone those that it had
    taken over. A compaction withdraws old files, too, but a process that publishes them now stalled long ago: a run
    looks for those of recent versions, `maintain` for all.
    """
    forget = last_forget(head)
    found = [*([] if forget is None else [(0, forget)]), *head.replaced]
    found += [(max(one.first, one.by - SUSPECT_VERSIONS), one.by) for one in head.shown_by if one.sink]
    recent = [(first, by) for first, by in found if head.version - by <= SUSPECT_VERSIONS]
    undone = [one for one in head.promotions if any(first <= one <= by for first, by in recent)]
    recent += [taken for one in undone for taken in repo.log.commit(one).replaced if taken[1] == one - 1]
    return min((first for first, _ in recent), default=head.version + 1)


def published_sinks(repo: Opened, commit: Commit) -> list[str]:
    """Return the sinks in which a version shows rows, or whose function was called for it."""
    return [
        work.name
        for work in works(repo, commit)
        if work.files or (calls_function(work.described) and rules_of(commit).carries_out)
    ]


def refuse_unless_withdrawable(repo: Opened, name: str, versions: Sequence[int], kind: Kind) -> None:
    """Raise `InvalidInput` if what a sink published of versions cannot be withdrawn by this code.

    Files of a sink that the code no longer has are deleted by their records. Calls of a function cannot be undone so.
    """
    sink = repo.declared_sink(name)
    described = {one: repo.log.commit(one).sinks.get(name, NOT_DESCRIBED) for one in versions}
    calls = [one for one in versions if calls_function(described[one])]
    former = [
        one for one in versions if one not in calls and (sink is None or (described[one]["path"] and not sink.path))
    ]
    records = _published(repo, name, {one: described[one] for one in former}, kind)
    with _way_out(name, kind):
        if calls and (sink is None or not asked.is_called(sink)):
            raise InvalidInput(
                f"its function was called for {versions_of(calls)}, and only the function could undo that, which this "
                "code does not have"
            )
        for (written_as, uri), files in places_of(records):
            check_former(written_as, uri, files, place_of(repo, name))
    if sink is not None and len(former) < len(versions):
        _refuse_withdrawal(name, sink, kind)


def refuse_unless_shown_again(repo: Opened, name: str, version: int, kind: Kind) -> None:
    """Raise `InvalidInput` if this code cannot publish a version again, because it does not have the sink."""
    sink = repo.declared_sink(name)
    if sink is not None:
        _refuse_withdrawal(name, sink, kind)
        return
    with _way_out(name, kind):
        raise InvalidInput(
            f"the rows of version {version} would have to be published again, but this code does not have the sink"
        )


def _refuse_withdrawal(name: str, sink: Sink, kind: Kind) -> None:
    try:
        asked.refuse_withdrawal(sink)
    except InvalidInput as error:
        hint = f"{error.hint}. Or {KEEP}" if KINDS[kind].of_branch else error.hint
        raise InvalidInput(f"{kind}: sink `{name}`: {error.message}", hint=hint) from error


def _published(repo: Opened, name: str, described: Mapping[int, Mapping[str, Any]], kind: Kind) -> list[Published]:
    """Return the records of versions, without those of folders that are not published yet.

    `InvalidInput` for another one that is not: only the code can say what is in its place.
    """
    records = []
    for version, said in described.items():
        record = read_record(repo, VersionOf(repo.branch, version), name)
        if record is not None:
            records.append(record)
        elif recorded_folder(said["kind"] or "", said.get("uri") or "") is None:
            raise InvalidInput(
                f"{kind}: sink `{name}`: version {version} is not published yet, and this code does not have the sink",
                hint="run `tidemill publish` with code that has the sink",
            )
    return records


@contextlib.contextmanager
def _way_out(name: str, kind: Kind) -> Iterator[None]:
    """Add to errors the sink's name, and what helps."""
    try:
        yield
    except InvalidInput as error:
        hint = KEEP if KINDS[kind].of_branch else f"{kind} with code that has the sink, and then remove it"
        raise InvalidInput(f"{kind}: sink `{name}`: {error.message}", hint=hint) from error


def withdraw_strays(repo: Opened, head: Commit | None, since: int = 0) -> dict[str, list[str]]:
    """Withdraw files of versions from `since` on that were withdrawn before, and return their names by sink.

    A process that stalled while it published may copy them after the withdrawal, and then die. On S3, the files of
    versions before `since` are not listed, unless they are in partition folders.
    """
    found: dict[str, list[str]] = {}
    if head is None or not repo.publishes or not (head.replaced or head.shown_by or last_forget(head) is not None):
        return found
    for name, folder in _folders(repo, head):
        place = place_of(repo, name)
        ours = [one for one in seen_by_record(repo, head, name, folder.seen(place, since - 1)) if one.is_ours]
        strays = _not_alone(repo, head, name, ours)
        if strays:
            LOG.warning(
                "sink `%s`: %s of withdrawn versions appeared again and will be deleted, for example `%s`",
                name, count_of(len(strays), "file"), strays[0],
            )  # fmt: skip
            folder.remove(place, strays)
            found[name] = strays
    return found


def _not_alone(repo: Opened, head: Commit, sink: str, present: Sequence[Seen]) -> list[str]:
    """Return the names of files that were withdrawn, without those whose rows would then be in no file.

    The folder may be an older backup. INVARIANT: what a `forget` withdrew goes in any case.
    """
    names, forgot = {one.name for one in present}, last_forget(head)
    gone = [one for one in present if not is_shown(head, one.version, sink)]
    by = {one.version: shown_by(head, one.version, sink) for one in gone if is_effective(head, one.version)}
    lacking = {one for one in by.values() if not has_all_files(repo, one, sink, names)}
    alone = {one for one, record in by.items() if record in lacking and one >= (forgot or 0)}
    if alone:
        first = min(by[one] for one in alone)
        LOG.warning(
            "sink `%s`: files of %s were withdrawn, but stay, because files of %s, which show their rows, are missing; "
            "`tidemill publish --from %d --sink %s` publishes these again",
            sink, versions_of(sorted(alone)), versions_of(sorted({by[one] for one in alone})), first, sink,
        )  # fmt: skip
    return sorted(one.name for one in gone if one.version not in alone)


def has_all_files(repo: Opened, version: int, sink: str, names: Collection[str]) -> bool:
    """Whether all files of a published record are in the folder."""
    record = read_record(repo, VersionOf(repo.branch, version), sink)
    return record is not None and all(file.name in names for file in record.files)


def _folders(repo: Opened, head: Commit) -> Iterator[tuple[str, Folder]]:
    """Yield the folders of sinks: of those of the code, and of others that were withdrawn from recently."""
    for name, output in repo.job.outputs.items():
        folder = asked.sink_folder(output.sink)
        if folder is not None:
            yield name, folder
    for by in [last + 1 for _, last in head.replaced if head.version - last <= SUSPECT_VERSIONS]:
        for name in repo.log.commit(by).withdraws:
            record = read_record(repo, VersionOf(repo.branch, by), name)
            folder = None if record is None else recorded_folder(record.kind, record.uri)
            if folder is not None and repo.declared_sink(name) is None:
                yield name, folder

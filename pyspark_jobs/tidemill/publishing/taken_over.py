"""Files that a promotion shows as they are, under their earlier names, because the branch has made the same ones.

INVARIANT: their names say the version that published them first; the promotion's record says that it has them now. So
whoever asks which version a file belongs to asks here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from ..protocol.history import is_shown
from ..protocol.kinds import rules_of
from ..protocol.records import Commit, Published, PublishedFile, VersionOf
from ..repo.opened import Opened
from ..sinks import asked
from ..sinks.contract import Seen
from ..sinks.public import parsed
from ..sinks.same_files import same_files
from ..values import dataclass
from .works import SinkWork, place_of, read_record, works


@dataclass(frozen=True)
class ShownAlready:
    """What a promotion shows as it is, because the branch has made it again, by the places of its files.

    `files` are those of records that it withdraws; they stay. If it was published before, `names` are those under which
    its own record has such files.
    """

    files: Mapping[int, PublishedFile] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)


def shown_already(repo: Opened, work: SinkWork, withdrawn: Sequence[Published | None]) -> ShownAlready:
    """Return what a promotion shows as it is of the records that it withdraws.

    INVARIANT: processes that publish it agree, because these records never change, and were all made before.
    """
    sink = repo.declared_sink(work.name)
    if sink is None or work.is_gone or not rules_of(work.commit).of_branch or not asked.keeps_unchanged(sink):
        return ShownAlready()
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
        return ShownAlready(files=found)
    named = {at: (file.name, parsed(file.name)) for at, file in found.items()}
    return ShownAlready(names={at: name for at, (name, of) in named.items() if of is None or of.version != version})


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
            shown = shown_already(repo, work, [read_record(repo, one, sink) for one in work.withdraws])
            yield from (one.name for one in shown.files.values())


def seen_by_record(repo: Opened, head: Commit | None, sink: str, found: Iterable[Seen]) -> Iterator[Seen]:
    """Yield what a place has, each file as one of the version whose record has it, whatever its name says."""
    by = taken_over_in(repo, head, sink)
    yield from (dataclasses.replace(one, version=by.get(one.name, one.version)) for one in found)

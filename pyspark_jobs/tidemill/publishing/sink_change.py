"""What sinks need if versions leave the history of a branch or come back: `rewind` and `promote` share it.

INVARIANT: a change that a sink cannot carry out is refused before anything is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from ..protocol.history import Restoration, correction
from ..protocol.kinds import Changes, rules_of
from ..protocol.named import output_files
from ..protocol.records import AddedOutput, Commit, Kind, Shown, VersionOf
from ..protocol.retained import is_kept, refuse_if_gone
from ..repo.discard import discarded_if_full
from ..repo.opened import Opened
from ..repo.overtaken import fenced_if_overtaken
from ..sinks.asked import sink_folder
from ..sinks.joined import can_join
from ..values import dataclass
from .filled import added_again
from .rest import Rest, Writing, store_rest
from .withdraw import published_sinks, refuse_unless_shown_again, refuse_unless_withdrawable
from .works import read_record


@dataclass(frozen=True)
class SinkChange:
    """What changes: `undone` are the versions that leave the history.

    `kind` is that of the correction. `withdraws`: by sink, the records whose files go. `added` are output files
    that are published again, `rest` the versions whose rows stay of files that go.
    """

    kind: Kind
    undone: list[int]
    shown_by: list[Shown]
    withdraws: dict[str, list[int]]
    added: dict[str, list[AddedOutput]]
    rest: list[Rest]

    @property
    def again(self) -> list[int]:
        """The versions whose output files are published again."""
        return sorted({one.version for those in self.added.values() for one in those if one.files})

    @property
    def unneeded(self) -> dict[str, list[int]]:
        """By sink, the versions that need not be published first: they are withdrawn, and none of their rows stays."""
        needed = {(one.sink, one.record) for one in self.rest}
        return {sink: [one for one in those if (sink, one) not in needed] for sink, those in self.withdraws.items()}

    @property
    def adds(self) -> dict[str, list[int]]:
        """By sink, the versions whose rows are published again."""
        found = {sink: [one.version for one in versions] for sink, versions in self.added.items()}
        for one in self.rest:
            found[one.sink] = sorted({*found.get(one.sink, []), *one.versions})
        return found


def sink_change(repo: Opened, head: Commit | None, target: Commit | None, kind: Kind) -> SinkChange:
    """Return what sinks need if the next version restores `target`. `InvalidInput` if a sink cannot do it."""
    change = correction(head, target)
    withdraws = _by_sink(repo, change)
    for sink, records in withdraws.items():
        refuse_unless_withdrawable(repo, sink, records, kind)
    rest = _rest(repo, withdraws, change, repo.log.given_up_by(head))
    added = _added(repo, change, rest, kind)
    for sink, again in _filled(repo, (target, head), change, rest, kind):
        added.setdefault(sink, []).append(again)
    return SinkChange(kind, change.undone, change.shown_by, withdraws, added, rest)


def published_instead(repo: Opened, head: Commit | None, change: SinkChange, to: Writing) -> Changes:
    """Store what stays of withdrawn files, and return what the commit says of the sinks."""
    adds: dict[str, list[AddedOutput]] = {}
    with fenced_if_overtaken(repo, head, change.kind), discarded_if_full(repo.store, to.attempt):
        for one in sorted(change.rest, key=lambda one: min(one.versions)):
            made = store_rest(repo, one, _batch_ids(repo, head, one.versions), to)
            if made is not None:
                adds.setdefault(one.sink, []).append(made)
    for sink, added in change.added.items():
        adds.setdefault(sink, []).extend(added)
    withdraws = {sink: [VersionOf(repo.branch, one) for one in records] for sink, records in change.withdraws.items()}
    return {"shown_by": change.shown_by, "withdraws": withdraws, "adds": adds}


def _batch_ids(repo: Opened, head: Commit | None, versions: Collection[int]) -> set[int]:
    """Return what rows of versions have in `_batch_id`. Those of a promotion have the versions of the branch."""
    found = set(versions)
    for version in found.intersection([] if head is None else head.promotions):
        found |= _promoted_ids(repo, repo.log.commit(version))
    return found


def _promoted_ids(repo: Opened, promotion: Commit) -> set[int]:
    """Return the versions that wrote the rows of a promotion. A version of a branch may be a promotion, too."""
    found: set[int] = set()
    for one in (one for those in promotion.adds.values() for one in those if one.branch != promotion.branch):
        made = repo.own_log(one.branch).commit(one.version)
        found |= _promoted_ids(repo, made) if rules_of(made).of_branch else {one.version}
    return found


def _ours(repo: Opened, versions: Sequence[int]) -> list[Commit]:
    """Return the commits of versions, without those of the repository of which this is a copy."""
    uuid = repo.initialised().uuid
    return [commit for version in versions if (commit := repo.log.commit(version)).pipeline_uuid == uuid]


def _by_sink(repo: Opened, change: Restoration) -> dict[str, list[int]]:
    """Return by sink which records are withdrawn that published something there."""
    found: dict[str, list[int]] = {}
    records = {record for one in (change.others, *change.sinks.values()) for record in one.withdraws}
    for commit in _ours(repo, sorted(records)):
        for sink in published_sinks(repo, commit):
            if commit.version in change.of(sink).withdraws:
                found.setdefault(sink, []).append(commit.version)
    return found


def _rest(repo: Opened, withdraws: Mapping[str, Sequence[int]], change: Restoration, forgot: int | None) -> list[Rest]:
    """Return what stays of withdrawn files.

    Sinks without plain files get the outputs of these versions instead, and so do sinks in which the files are not
    published yet, if all these outputs are kept.
    """
    found = []
    for name, records in withdraws.items():
        folder = sink_folder(repo.declared_sink(name))
        if folder is not None and can_join(folder.extension):
            rest = change.of(name).rest
            found += [
                Rest(name, record, rest[record])
                for record in records
                if record in rest and not _has_outputs_instead(repo, name, record, rest[record], forgot)
            ]
    return found


def _has_outputs_instead(repo: Opened, sink: str, record: int, versions: Sequence[int], forgot: int | None) -> bool:
    """Whether files are not published yet, and the outputs of the versions that they show are kept."""
    if read_record(repo, VersionOf(repo.branch, record), sink) is not None:
        return False
    refs = repo.initialised()
    return min(versions) >= (forgot or 0) and all(is_kept(refs, repo.version_of(one)) for one in versions)


def _added(repo: Opened, change: Restoration, rest: Sequence[Rest], kind: Kind) -> dict[str, list[AddedOutput]]:
    """Return the outputs of versions that come back, by sink. `InvalidInput` if their files are no longer kept."""
    found: dict[str, list[AddedOutput]] = {}
    versions = {version for one in (change.others, *change.sinks.values()) for version in one.adds}
    stays = {(one.sink, version) for one in rest for version in one.versions}
    for commit in _ours(repo, sorted(versions)):
        version = commit.version
        for sink in published_sinks(repo, commit):
            if version not in change.of(sink).adds or (sink, version) in stays:
                continue
            files = list(itertools.chain(*output_files(commit, sink)))
            if files:
                refuse_if_gone(repo.initialised(), repo.version_of(version), f"{kind}: publish again")
            refuse_unless_shown_again(repo, sink, version, kind)
            found.setdefault(sink, []).append(AddedOutput(repo.branch, version, files))
    return found


def _filled(
    repo: Opened, heads: tuple[Commit | None, ...], change: Restoration, rest: Sequence[Rest], kind: Kind
) -> Iterator[tuple[str, AddedOutput]]:
    """Yield what comes back of versions that sinks got by a `fill`, by sink."""
    stays = {(one.sink, version) for one in rest for version in one.versions}
    for sink in dict.fromkeys(one.sink for head in heads if head is not None for one in head.shown_by if one.sink):
        for version in change.of(sink).adds:
            if (sink, version) in stays or repo.log.commit(version).sinks.get(sink, {}).get("kind") is not None:
                continue
            added = added_again(repo, heads, sink, version, kind)
            if added is not None:
                refuse_unless_shown_again(repo, sink, version, kind)
                yield sink, added

"""The effective history of a version: the versions that led to it, without those that were rewound. Pure.

A rewind from version 20 to version 5 is version 21, whose effective history is 0 to 5 and 21. Each commit carries the
ranges that its history leaves out, so no other commit is read for that. INVARIANT: every version of the effective
history of the head is shown in the sinks exactly once, by its own published record or by that of a later version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from ..values import dataclass
from .records import REWRITE, Commit, Shown

Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class _Change:
    """What a sink needs if a version is restored: records to withdraw, and versions to show again.

    Records have the numbers of versions. `rest` has, by withdrawn record, those of `adds` whose rows it shows now,
    because it also shows others that are undone.
    """

    withdraws: list[int]
    adds: list[int]
    rest: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Restoration:
    """What changes if `target` is restored.

    `undone` are versions of the history before that are not in the history after, `shown_by` says who shows the others
    from then on. `sinks` has the changes of sinks with records of their own, `others` those of all other sinks.
    """

    undone: list[int]
    shown_by: list[Shown]
    others: _Change
    sinks: dict[str, _Change] = field(default_factory=dict)

    def of(self, sink: str) -> _Change:
        """Return what changes in a sink."""
        return self.sinks.get(sink, self.others)


def is_effective(head: Commit, version: int) -> bool:
    """Whether a version is in the effective history of `head`."""
    return 0 <= version <= head.version and not any(first <= version <= last for first, last in head.replaced)


def last_forget(commit: Commit | None) -> int | None:
    """Return the version of the last `forget` up to a commit, or None."""
    if commit is None:
        return None
    return max((one.version for one in commit.forgotten), default=commit.forgotten_at)


def last_rewrite(commit: Commit | None) -> int | None:
    """Return the version of the last `forget` up to a commit that has rewritten earlier versions, or None."""
    if commit is None:
        return None
    return commit.version if REWRITE in commit.requires else commit.rewrote_at


def effective(head: Commit | None, since: int = 0) -> Iterator[int]:
    """Yield the effective history of `head` from version `since` on, oldest first. None: version -1."""
    if head is not None:
        yield from (version for version in range(max(since, 0), head.version + 1) if is_effective(head, version))


def replaced_at(number: int, target: Commit | None) -> list[tuple[int, int]]:
    """Return the ranges that version `number` leaves out if it restores `target`. None: version -1."""
    before = [] if target is None else target.replaced
    first = 0 if target is None else target.version + 1
    return [*before, (first, number - 1)] if first < number else list(before)


def shown_by(head: Commit, version: int, sink: str = "") -> int:
    """Return the version whose published record shows a version of the effective history in a sink.

    Without `sink`: in sinks that no `forget` changed.
    """
    found = {one.sink: one.by for one in head.shown_by if one.first <= version <= one.last and one.sink in ("", sink)}
    return found.get(sink, found.get("", version))


def is_shown(head: Commit, record: int, sink: str = "") -> bool:
    """Whether the files of a published record belong to a sink, or were withdrawn."""
    if record > head.version or (is_effective(head, record) and shown_by(head, record, sink) == record):
        return True
    shown = (one for one in head.shown_by if one.by == record)
    return any(shown_by(head, version, sink) == record for one in shown for version in range(one.first, one.last + 1))


def corrections(head: Commit, since: int = -1) -> list[int]:
    """Return the versions after `since` that rewinds and promotions replaced, and these corrections, oldest first.

    Without the corrections that replaced nothing.
    """
    found = {one for first, last in head.replaced for one in range(max(first, since + 1), last + 2)}
    return sorted(one for one in found if since < one <= head.version)


def shown(head: Commit | None, sink: str = "") -> dict[int, int]:
    """Return the record that shows each version of the effective history in a sink, by version. See `shown_by`."""
    by = {version: version for version in effective(head)}
    for place in dict.fromkeys(("", sink)):
        for one in head.shown_by if head is not None else ():
            if one.sink == place:
                by.update((version, one.by) for version in range(one.first, one.last + 1) if version in by)
    return by


def correction(head: Commit | None, target: Commit | None) -> Restoration:
    """Return what changes in the sinks if the version after `head` restores `target`."""
    number = 0 if head is None else head.version + 1
    after = set(effective(target))
    undone = sorted(set(effective(head)) - after)
    others, by = _change(shown(head), undone, after, number)
    ranges = _ranges((version, record) for version, record in sorted(by.items()) if record != version)
    sinks = {}
    for sink in dict.fromkeys(one.sink for one in head.shown_by if one.sink) if head is not None else ():
        sinks[sink], of_sink = _change(shown(head, sink), undone, after, number)
        ranges += _ranges(((at, record) for at, record in sorted(of_sink.items()) if record != by[at]), sink)
    return Restoration(undone, ranges, others, sinks)


def _change(
    before: Mapping[int, int], undone: Sequence[int], after: set[int], number: int
) -> tuple[_Change, dict[int, int]]:
    """Return what changes in a sink, and the record that shows each version of the history after."""
    withdrawn = {before[version] for version in undone}
    rest: dict[int, list[int]] = {}
    for version in sorted(after & before.keys()):
        if before[version] in withdrawn:
            rest.setdefault(before[version], []).append(version)
    stays = {version: before[version] for version in after & before.keys() if before[version] not in withdrawn}
    adds = sorted(after - stays.keys())
    return _Change(sorted(withdrawn), adds, rest), stays | dict.fromkeys(adds, number)


def shown_again(head: Commit, records: Mapping[str, Iterable[int]], number: int) -> list[Shown]:
    """Return who shows the versions of the history of `head` if version `number` publishes records again, by sink."""
    versions = {}
    for sink, again in records.items():
        which = set(again)
        versions[sink] = [at for at, record in shown(head, sink).items() if record in which]
    return shown_instead(head, versions, number)


def shown_instead(head: Commit, versions: Mapping[str, Iterable[int]], number: int) -> list[Shown]:
    """Return who shows the versions of the history of `head` if version `number` shows some of them, by sink."""
    found = [one for one in head.shown_by if one.sink not in versions]
    general = shown(head)
    for sink, again in versions.items():
        moved = shown(head, sink) | dict.fromkeys(again, number)
        changed = ((one, record) for one, record in sorted(moved.items()) if record != general[one])
        found += _ranges(changed, sink)
    return found


def _ranges(pairs: Iterable[tuple[int, int]], sink: str = "") -> list[Shown]:
    """Return pairs of a version and its record as ranges of versions with the same record."""
    found: list[Shown] = []
    for version, record in pairs:
        last = found[-1] if found else None
        if last is not None and last.by == record and last.last == version - 1:
            found[-1] = Shown(last.first, version, record, sink)
        else:
            found.append(Shown(version, version, record, sink))
    return found

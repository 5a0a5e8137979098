"""The effective history of a version: the versions that led to it, without those that were rewound. Pure.

A rewind from version 20 to version 5 is version 21, whose effective history is 0 to 5 and 21. Each commit carries the
ranges that its history leaves out, so no other commit is read for that. INVARIANT: every version of the effective
history of the head is shown in the sinks exactly once, by its own published record or by that of a later version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .records import Commit, Shown

Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Correction:
    """What the sinks need if `target` is restored: records to withdraw, versions to show again, and by whom.

    `undone` are versions of the history before that are not in the history after. Records have the numbers of versions.
    """

    undone: list[int]
    withdraws: list[int]
    adds: list[int]
    shown_by: list[Shown]


def is_effective(head: Commit, version: int) -> bool:
    """Whether a version is in the effective history of `head`."""
    return 0 <= version <= head.version and not any(first <= version <= last for first, last in head.replaced)


def last_forget(commit: Commit | None) -> int | None:
    """Return the version of the last `forget` up to a commit, or None."""
    if commit is None:
        return None
    return max((one.version for one in commit.forgotten), default=commit.forgotten_at)


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


def correction(head: Commit | None, target: Commit | None) -> Correction:
    """Return what changes in the sinks if the version after `head` restores `target`.

    Single sinks keep what a `forget` published again, because no version before it is restored.
    """
    before, after = set(effective(head)), set(effective(target))
    number = 0 if head is None else head.version + 1
    by = {} if head is None else {version: shown_by(head, version) for version in before}
    undone = sorted(before - after)
    withdrawn = {by[version] for version in undone}
    adds = sorted(version for version in after if version not in before or by[version] in withdrawn)
    stays = {version: by[version] for version in after & before if by[version] not in withdrawn}
    shown = stays | dict.fromkeys(adds, number)
    ranges = _ranges((version, record) for version, record in sorted(shown.items()) if record != version)
    ranges += [] if head is None else [one for one in head.shown_by if one.sink]
    return Correction(undone, sorted(withdrawn), adds, ranges)


def shown_again(head: Commit, records: Mapping[str, Iterable[int]], number: int) -> list[Shown]:
    """Return who shows the versions of the history of `head` if version `number` publishes records again, by sink."""
    found = [one for one in head.shown_by if one.sink not in records]
    for sink, again in records.items():
        moved = {one: shown_by(head, one, sink) for one in effective(head)}
        moved |= {one: number for one, record in moved.items() if record in set(again)}
        changed = ((one, record) for one, record in moved.items() if record != shown_by(head, one))
        found += _ranges(sorted(changed), sink)
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

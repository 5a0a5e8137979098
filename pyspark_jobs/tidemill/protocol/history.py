"""The effective history of a version: the versions that led to it, without those that were rewound. Pure.

A rewind from version 20 to version 5 is version 21, whose effective history is 0 to 5 and 21. Each commit carries the
ranges that its history leaves out, so no other commit is read for that. INVARIANT: every version of the effective
history of the head is shown in the sinks exactly once, by its own published record or by that of a later version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


def effective(head: Commit | None, since: int = 0) -> Iterator[int]:
    """Yield the effective history of `head` from version `since` on, oldest first. None: version -1."""
    if head is not None:
        yield from (version for version in range(max(since, 0), head.version + 1) if is_effective(head, version))


def replaced_at(number: int, target: Commit | None) -> list[tuple[int, int]]:
    """Return the ranges that version `number` leaves out if it restores `target`. None: version -1."""
    before = [] if target is None else target.replaced
    first = 0 if target is None else target.version + 1
    return [*before, (first, number - 1)] if first < number else list(before)


def shown_by(head: Commit, version: int) -> int:
    """Return the version whose published record shows a version of the effective history."""
    return next((one.by for one in head.shown_by if one.first <= version <= one.last), version)


def is_shown(head: Commit, record: int) -> bool:
    """Whether the files of a published record belong to the sinks, or were withdrawn."""
    own = is_effective(head, record) and shown_by(head, record) == record
    return own or record > head.version or any(one.by == record for one in head.shown_by)


def correction(head: Commit | None, target: Commit | None) -> Correction:
    """Return what changes in the sinks if the version after `head` restores `target`."""
    before, after = set(effective(head)), set(effective(target))
    number = 0 if head is None else head.version + 1
    by = {} if head is None else {version: shown_by(head, version) for version in before}
    undone = sorted(before - after)
    withdrawn = {by[version] for version in undone}
    adds = sorted(version for version in after if version not in before or by[version] in withdrawn)
    stays = {version: by[version] for version in after & before if by[version] not in withdrawn}
    shown = stays | dict.fromkeys(adds, number)
    ranges = _ranges((version, record) for version, record in sorted(shown.items()) if record != version)
    return Correction(undone, sorted(withdrawn), adds, ranges)


def _ranges(pairs: Iterable[tuple[int, int]]) -> list[Shown]:
    """Return pairs of a version and its record as ranges of versions with the same record."""
    found: list[Shown] = []
    for version, record in pairs:
        last = found[-1] if found else None
        if last is not None and last.by == record and last.last == version - 1:
            found[-1] = Shown(last.first, version, record)
        else:
            found.append(Shown(version, version, record))
    return found

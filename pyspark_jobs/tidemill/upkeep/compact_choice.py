"""Which published files are compacted: a function of their sizes. Pure.

A group is consecutive versions, because a record of what was published is replaced as a whole. INVARIANT: a group at
least halves the number of its files, and no version in it has most of its bytes. So the choice from the result is
empty, and a row is rewritten about once each time the data of its neighbours doubles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ..values import dataclass

TARGET_BYTES = 128 << 20
LARGEST_GROUP = 4
"""A group has at most so many times the target in all partition folders together: so much is written by a commit."""
SMALLEST_BYTES = 64 << 10
"""A version counts as at least so large. Opening smaller files takes longer than reading them."""


@dataclass(frozen=True)
class VersionFiles:
    """The published files that show versions `first..last` of a sink, by partition folder: their sizes.

    `is_fixed`: they stay as they are. A group has no versions on both sides of them.
    """

    record: int
    first: int
    last: int
    folders: Mapping[str, Sequence[int]]
    is_fixed: bool = False

    @property
    def files(self) -> int:
        """How many files there are."""
        return sum(map(len, self.folders.values()))

    @property
    def bytes(self) -> int:
        """How large all files are together."""
        return sum(map(sum, self.folders.values()))

    @property
    def largest(self) -> int:
        """The bytes of the largest file."""
        return max((size for sizes in self.folders.values() for size in sizes), default=0)


@dataclass(frozen=True)
class VersionGroup:
    """Consecutive published versions whose files are joined, folder by folder."""

    members: Sequence[VersionFiles]
    target_bytes: int

    @property
    def first(self) -> int:
        """The first version that it shows."""
        return self.members[0].first

    @property
    def last(self) -> int:
        """The last version that it shows."""
        return self.members[-1].last

    @property
    def files(self) -> int:
        """How many files it has now."""
        return sum(one.files for one in self.members)

    @property
    def bytes(self) -> int:
        """How large its files are together."""
        return sum(one.bytes for one in self.members)

    @property
    def into(self) -> int:
        """How many files there will be, if they become as large as those that are joined."""
        folders = {folder for one in self.members for folder in one.folders}
        sizes = ([size for one in self.members for size in one.folders.get(folder, ())] for folder in folders)
        return sum(len(split(of_folder, self.target_bytes)) for of_folder in sizes)


def choose_groups(published: Sequence[VersionFiles], target_bytes: int = TARGET_BYTES) -> list[VersionGroup]:
    """Return the groups whose files should be joined, oldest first. `published` is ordered by version.

    A file is small below half of the target. A group consists of versions that have small files only.
    """
    return [
        group
        for small in _small(published, target_bytes)
        for pack in _packed(small, target_bytes)
        for even in _even(pack)
        for group in _worth(even, target_bytes)
    ]


def split(sizes: Sequence[int], target_bytes: int) -> list[int]:
    """Return how many of the files of a folder, in their order, are joined into each new file."""
    counts: list[int] = []
    room = -1
    for size in sizes:
        if size > room:
            counts.append(0)
            room = target_bytes
        counts[-1] += 1
        room -= size
    return counts


def _small(published: Sequence[VersionFiles], target_bytes: int) -> Iterator[list[VersionFiles]]:
    """Yield runs of consecutive versions with small files."""
    run: list[VersionFiles] = []
    for one in published:
        if one.is_fixed or not one.files or 2 * one.largest >= target_bytes or (run and one.first <= run[-1].last):
            yield run
            run = []
        if not one.is_fixed and one.files and 2 * one.largest < target_bytes:
            run.append(one)
    yield run


def _packed(run: Sequence[VersionFiles], target_bytes: int) -> Iterator[list[VersionFiles]]:
    """Yield parts of a run that fit into one file in each folder, and versions that do not fit by themselves."""
    pack: list[VersionFiles] = []
    folders: dict[str, int] = {}
    for one in run:
        sizes = {folder: sum(files) for folder, files in one.folders.items()}
        fits = all(folders.get(folder, 0) + size <= target_bytes for folder, size in sizes.items())
        if pack and not (fits and sum(folders.values()) + one.bytes <= LARGEST_GROUP * target_bytes):
            yield pack
            pack, folders = [], {}
        pack.append(one)
        folders |= {folder: folders.get(folder, 0) + size for folder, size in sizes.items()}
    yield pack


def _even(pack: Sequence[VersionFiles]) -> Iterator[list[VersionFiles]]:
    """Yield parts in which no version has most of the bytes: those before and after such a version.

    A version with several files in a folder may have most of them.
    """
    waiting = [list(pack)]
    while waiting:
        part = waiting.pop()
        weights = [max(one.bytes, SMALLEST_BYTES) for one in part]
        at = weights.index(max(weights)) if part else 0
        if part and 2 * weights[at] > sum(weights) and part[at].files == len(part[at].folders):
            waiting += [part[at + 1 :], part[:at]]
        elif part:
            yield part


def _worth(part: Sequence[VersionFiles], target_bytes: int) -> Iterator[VersionGroup]:
    """Yield the part as a group, without versions at its ends that share no folder, if its files become half."""
    first, end = 0, len(part)
    while first < end and not _shares(part[first], part[first + 1 : end]):
        first += 1
    while first < end and not _shares(part[end - 1], part[first : end - 1]):
        end -= 1
    group = VersionGroup(part[first:end], target_bytes)
    if group.members and 2 * group.into <= group.files:
        yield group


def _shares(one: VersionFiles, others: Collection[VersionFiles]) -> bool:
    """Whether joining would make fewer files of one version."""
    return any(len(files) > 1 or any(folder in other.folders for other in others)
               for folder, files in one.folders.items())  # fmt: skip

"""The seam between a batch and what runs it: `Work` is what there is to do, an `Engine` does it.

An engine only moves items: it does not know what is in them. INVARIANT: every range of every level is applied
exactly once in a result that counts, also where nothing was sent to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Item:
    """A chunk or a receipt on its way: bytes for the range `target` of the next level."""

    target: int
    data: bytes


class Work(Protocol):
    """One batch as tasks. Can be pickled by cloudpickle; a task may be run again, and by another process."""

    @property
    def scatter_tasks(self) -> int:
        """Tasks that read input; 0 for a sweep."""

    @property
    def ranges(self) -> int:
        """Apply tasks of every level."""

    @property
    def levels(self) -> int:
        """How many exchanges deep the work is; at least 1."""

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules that workers cannot import: to be pickled by value."""

    @property
    def paths(self) -> tuple[str, ...]:
        """`sys.path` entries that a worker on the same machine adds where they exist."""

    def scatter(self, task: int) -> Iterator[Item]:
        """What scatter task `task` sends to the ranges of level 0."""

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        """What a range of a level makes of what was sent to it, in any order: items for the next level, or, on the
        last level, receipts (target 0)."""


class Engine(Protocol):
    """Runs a `Work`: scatter, then level by level, with an exchange by target before each level.

    Where `scatter_tasks <= 1 and ranges == 1` there is no exchange: all of it runs in one task. Nothing is promised
    about the order in which items reach a range.
    """

    @property
    def name(self) -> str:
        """`local`, `spark` or `connect`."""

    @property
    def parallelism(self) -> int:
        """How many tasks it runs at once; what `tasks="auto"` means for a batch that is not small."""

    def execute(self, work: Work) -> list[bytes]:
        """All receipts, in any order. A task that raises fails the call with one clear error."""

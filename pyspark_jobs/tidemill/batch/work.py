"""The seam between a batch and its engine: `Work` describes the tasks, and an `Engine` runs them.

An engine moves items without looking into them. INVARIANT: in a result that counts, every range of every level was
applied exactly once, even if nothing was sent to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from ..errors import InternalError
from ..values import dataclass

Data = bytes | memoryview
"""A message. An engine hands on its bytes, and may make a `bytes` of a `memoryview`."""


@dataclass(frozen=True, slots=True)
class Item:
    """A chunk or a receipt on its way: bytes for range `target` of the next level."""

    target: int
    data: Data


class Work(Protocol):
    """One batch as tasks. cloudpickle can pickle it. A task may run several times, in several processes."""

    @property
    def scatter_tasks(self) -> int:
        """How many tasks read input; 0 for a sweep."""

    @property
    def ranges(self) -> int:
        """How many apply tasks every level has."""

    @property
    def levels(self) -> int:
        """How many exchanges deep the work is; at least 1."""

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules that workers cannot import, and that are therefore pickled by value."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Entries that a worker adds to `sys.path` if they exist on its machine."""

    def scatter(self, task: int) -> Iterator[Item]:
        """Run scatter task `task`; yield items for the ranges of level 0."""

    def apply(self, level: int, range_index: int, items: Iterable[Data]) -> Iterator[Item]:
        """Run the apply task of a range on the items sent to it, in any order.

        Yield items for the next level or, on the last level, receipts with target 0.
        """


class StateWork:
    """The part of a `Work` that reads only state and no input."""

    @property
    def scatter_tasks(self) -> int:
        """0, because nothing is read but state."""
        return 0

    def scatter(self, task: int) -> Iterator[Item]:
        """Never called."""
        raise InternalError(f"`{type(self).__name__}` has no scatter task {task}")


class Engine(Protocol):
    """Runs a `Work`: the scatter tasks, then level by level, with an exchange by target before each level.

    If `scatter_tasks <= 1 and ranges == 1`, all of the work runs in one task without an exchange. Items may reach a
    range in any order.
    """

    @property
    def name(self) -> str:
        """`local`, `spark` or `connect`."""

    @property
    def parallelism(self) -> int:
        """How many tasks it runs at once. A batch that is not small is cut into as many with `tasks="auto"`."""

    @property
    def is_remote(self) -> bool:
        """Whether tasks run on other machines, which may lack what this one has."""

    def execute(self, work: Work) -> list[bytes]:
        """Run the work and return all receipts, in any order. If a task raises, the call raises one clear error."""

"""`BatchWork`: a batch as an engine sees it, an implementation of `batch.work.Work`.

INVARIANT: an error of the five kinds never crosses an engine as an exception. It is sent to the driver as a message, so
every engine reports it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..errors import TidemillError
from . import apply, scatter, wire
from .batch import Batch
from .work import Item


@dataclass(frozen=True)
class BatchWork:
    """The work of one batch."""

    batch: Batch
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def scatter_tasks(self) -> int:
        """How many tasks read input."""
        return len(self.batch.assignment)

    @property
    def ranges(self) -> int:
        """How many key ranges every level has."""
        return self.batch.tasks

    @property
    def levels(self) -> int:
        """How many exchanges deep the work is."""
        return self.batch.levels

    def scatter(self, task: int) -> Iterator[Item]:
        """Run scatter task `task`. If it fails, the error goes to every range."""
        return self._guarded(lambda: scatter.run(self.batch, task), self.ranges)

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        """Run the apply task of a range. If it fails, the error goes to all ranges of the next level."""
        targets = self.ranges if level < self.levels - 1 else 1
        return self._guarded(lambda: apply.run(self.batch, level, range_index, items), targets)

    def _guarded(self, run: Callable[[], Iterator[Item]], targets: int) -> Iterator[Item]:
        try:
            yield from run()
        except TidemillError as error:
            for target in range(targets):
                yield Item(target, wire.failure(error))

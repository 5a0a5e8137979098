"""The smallest work there is, to start what a first batch would wait for: workers, and the JVM's classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..batch.work import Item


@dataclass(frozen=True)
class Warmup:
    """Each scatter task sends each range a byte; each range returns one receipt."""

    scatter_tasks: int
    ranges: int
    levels: int = 1
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def scatter(self, task: int) -> Iterator[Item]:
        """One byte for every range."""
        return (Item(target, b"%d" % task) for target in range(self.ranges))

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        """A receipt that names the level, the range and who sent to it."""
        yield Item(0, b"%d/%d: %s" % (level, range_index, b" ".join(sorted(items))))

"""The smallest possible work. Running it starts the workers and loads the JVM's classes before the first batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..batch.work import Data, Item
from ..values import dataclass


@dataclass(frozen=True)
class Warmup:
    """Each scatter task sends one byte to each range, and each range returns one receipt."""

    scatter_tasks: int
    ranges: int
    levels: int = 1
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def scatter(self, task: int) -> Iterator[Item]:
        """Send one byte to every range."""
        return (Item(target, b"%d" % task) for target in range(self.ranges))

    def apply(self, level: int, range_index: int, items: Iterable[Data]) -> Iterator[Item]:
        """Return a receipt that names the level, the range and its senders."""
        yield Item(0, b"%d/%d: %s" % (level, range_index, b" ".join(sorted(map(bytes, items)))))

"""`BatchWork`: a batch as an engine sees it, an implementation of `batch.work.Work`.

INVARIANT: an error of the five kinds never crosses an engine as an exception. It is sent to the driver as a message, so
every engine reports it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..errors import InvalidInput, TidemillError
from ..values import dataclass
from . import apply, scatter, wire
from .batch import Batch
from .memory import private_bytes
from .work import Data, Item


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
        return self._guarded(
            lambda: scatter.scatter_task(self.batch, task), self.ranges, f"task {task + 1} that reads input"
        )

    def apply(self, level: int, range_index: int, items: Iterable[Data]) -> Iterator[Item]:
        """Run the apply task of a range. If it fails, the error goes to all ranges of the next level."""
        targets = self.ranges if level < self.levels - 1 else 1
        what = f"key range {range_index + 1} of {self.ranges}"
        return self._guarded(lambda: apply.apply_range(self.batch, level, range_index, items), targets, what)

    def _guarded(self, run: Callable[[], Iterator[Item]], targets: int, what: str) -> Iterator[Item]:
        try:
            yield from run()
            return
        except TidemillError as error:
            failure = wire.encode_failure(error)
        except MemoryError as error:
            failure = wire.encode_failure(self._out_of_memory(what, error))
        for target in range(targets):
            yield Item(target, failure)

    def _out_of_memory(self, what: str, error: MemoryError) -> InvalidInput:
        """Return the error for a task whose process was refused memory."""
        reason = f" ({error})" if str(error) else ""
        aim = self.batch.settings.task_memory_bytes
        return InvalidInput(
            f"run {what} of a batch: out of memory{reason}; the process has {private_bytes() >> 20:,} MiB, "
            f"`tidemill.task_memory_bytes` is {aim >> 20:,} MiB",
            hint="lower `tidemill.task_memory_bytes`, so that the batch is cut into more key ranges, or raise the "
            "limit of the process (`spark.executor.pyspark.memory`, `ulimit -v`). The rows of one key stay "
            "together: if one key has most of them, bound a batch by `maxBytesPerTrigger`",
        )

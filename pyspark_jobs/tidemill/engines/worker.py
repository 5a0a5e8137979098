"""What a task does, the same on every engine: whole, scattered, applied; and, for Spark's, opening and reporting.

Spark's engines ship these functions by value, so that a worker can say what it lacks before it imports Tidemill: they
import only the standard library and pyspark. INVARIANT: an item goes to a range that exists, and what a range does
not read of its items is read for it, so that the tasks before it always run to their end.
"""

from __future__ import annotations

import gc
import os
import platform
import struct
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from ..batch.work import Item, Work

T = TypeVar("T")

# How a task's error is written inside the texts that Spark makes of it; `failure` reads it there.
BEGIN_TASK_ERROR = "[tidemill:task]"
BEGIN_IMPORT_ERROR = "[tidemill:import]"
END_ERROR = "[tidemill:end]"


class Shipment(NamedTuple):
    """A work on its way: its pickle, and what must be on `sys.path` before that can be opened."""

    pickle: bytes
    paths: tuple[str, ...]


def reported(run: Callable[[Work], Iterator[T]], pickle: bytes, paths: tuple[str, ...]) -> Iterator[T]:
    """What `run` yields for the work; what goes wrong is raised as one error that carries its line and traceback."""
    try:
        yield from run(opened(pickle, paths))
    except Exception as error:  # noqa: BLE001 - it goes on as one that survives the way
        text = str(error)
        if not text.startswith(BEGIN_IMPORT_ERROR):
            line = "".join(traceback.format_exception_only(error)).strip().partition("\n")[0]
            text = f"{BEGIN_TASK_ERROR} {line}\n{traceback.format_exc().rstrip()}\n{END_ERROR}"
        raise RuntimeError(text) from None


def opened(pickle: bytes, paths: tuple[str, ...]) -> Work:
    """The work, fresh: no task sees what another did to it. Says what this worker cannot import."""
    from pyspark import cloudpickle

    _spare_imports()
    sys.path[:0] = [path for path in paths if path not in sys.path and os.path.exists(path)]
    try:
        work: Work = cloudpickle.loads(pickle)  # the driver's own bytes, of this run; nothing from storage
    except ImportError as error:
        where = f"a worker on `{platform.node()}` with `{sys.executable}`"
        raise RuntimeError(
            f"{BEGIN_IMPORT_ERROR} {where} cannot import `{error.name}`: {error}\n"
            f"{traceback.format_exc().rstrip()}\n{END_ERROR}"
        ) from error
    return work


def _spare_imports() -> None:
    """Leaves what this process has imported out of its garbage collections, from its second task on.

    Spark collects all garbage after each task (40 ms with pandas and Arrow there), while the batch is committed and
    the next task may wait. Done once: what tasks make later is collected as ever.
    """
    package = sys.modules.get(__package__.partition(".")[0])
    if package is not None and not hasattr(package, "_imports_spared"):  # to ask gc how much is frozen takes 10 ms
        gc.freeze()
        package._imports_spared = True  # type: ignore[attr-defined]


def is_alone(work: Work) -> bool:
    """Whether one task does all of it, without an exchange."""
    return work.scatter_tasks <= 1 and work.ranges == 1


def whole(work: Work) -> Iterator[bytes]:
    """All of a work that `is_alone`, in this task."""
    received: Iterator[bytes] = (data for task in range(work.scatter_tasks) for _, data in scattered(work, task))
    for level in range(work.levels):
        received = _data(applied(work, level, 0, received))
    return received


def scattered(work: Work, task: int) -> Iterator[tuple[int, bytes]]:
    """(range, bytes) of what a scatter task sends."""
    return _addressed(work.scatter(task), work.ranges, f"scatter task {task}")


def applied(work: Work, level: int, range_index: int, received: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """(range, bytes) of what a range of a level makes of what it received; of receipts the range is 0."""
    rest = iter(received)
    targets = work.ranges if level + 1 < work.levels else 1
    yield from _addressed(work.apply(level, range_index, rest), targets, f"range {range_index} of level {level}")
    for _ in rest:
        pass


def sent(pairs: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Packed range and bytes in turn: how Spark's exchange of bytes wants them."""
    for target, data in pairs:
        yield struct.pack("!q", target)
        yield data


def _addressed(items: Iterable[Item], targets: int, sender: str) -> Iterator[tuple[int, bytes]]:
    for item in items:
        if not 0 <= item.target < targets:
            raise ValueError(f"{sender} sent an item to range {item.target}, expected 0 to {targets - 1}")
        yield item.target, item.data


def _data(pairs: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    return (data for _, data in pairs)

"""The body of a task, the same on every engine; for Spark also opening the work and reporting errors.

Spark's engines ship these functions by value, and they import only the standard library and pyspark. So a worker can
report a missing module before it imports Tidemill. INVARIANT: an item goes to an existing range, and the items that a
range leaves unread are read for it, so that upstream tasks always run to their end.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import struct
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from ..batch.work import Data, Item, Work

_T = TypeVar("_T")

# These marks enclose a task's error inside the text of Spark's exception. `failure` reads it there.
BEGIN_TASK_ERROR = "[tidemill:task]"
BEGIN_IMPORT_ERROR = "[tidemill:import]"
BEGIN_ARCHIVE_ERROR = "[tidemill:archive]"
END_ERROR = "[tidemill:end]"
MANIFEST = "tidemill-pack.json"
"""The file of an archive of `tidemill pack` that says what it is for."""


class Shipment(NamedTuple):
    """A work on its way to a worker: its pickle, and the `sys.path` entries needed to open it."""

    pickle: bytes
    paths: tuple[str, ...]


def run_reporting(run: Callable[[Work], Iterator[_T]], pickle: bytes, paths: tuple[str, ...]) -> Iterator[_T]:
    """Open the work and yield what `run` yields. An error is raised as one with its line and traceback as text."""
    try:
        yield from run(open_work(pickle, paths))
    except Exception as error:  # noqa: BLE001 - it is raised again as text, which survives the way to the driver
        text = str(error)
        if not text.startswith((BEGIN_IMPORT_ERROR, BEGIN_ARCHIVE_ERROR)):
            line = "".join(traceback.format_exception_only(error)).strip().partition("\n")[0]
            text = f"{BEGIN_TASK_ERROR} {line}\n{traceback.format_exc().rstrip()}\n{END_ERROR}"
        raise RuntimeError(text) from None


def open_work(pickle: bytes, paths: tuple[str, ...]) -> Work:
    """Prepare this process and return a fresh copy of the work, so that no task sees another's changes.

    The error names a missing module, or an archive that is not for this Python or this architecture.
    """
    from pyspark import cloudpickle

    _freeze_imports()
    _silence_closed_connections(sys.modules["__main__"])
    sys.path[:0] = [path for path in paths if path not in sys.path and os.path.exists(path)]
    where = f"a worker on `{platform.node()}` with `{sys.executable}`"
    if unfit := _unfit_archive():
        raise RuntimeError(f"{BEGIN_ARCHIVE_ERROR} {where} {unfit}\n\n{END_ERROR}")
    try:
        work: Work = cloudpickle.loads(pickle)  # the driver's own bytes, of this run; nothing from storage
    except ImportError as error:
        raise RuntimeError(
            f"{BEGIN_IMPORT_ERROR} {where} cannot import `{error.name}`: {error}\n"
            f"{traceback.format_exc().rstrip()}\n{END_ERROR}"
        ) from error
    return work


def built_for() -> dict[str, str]:
    """Return the Python and the machine for which packages of this process are built, as a manifest names them."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": version, "machine": f"{sys.platform}-{platform.machine()}"}


def _unfit_archive() -> str:
    """Return how the first archive of `tidemill pack` on `sys.path` does not fit this process, or an empty text.

    Imports from such an archive fail in ways that do not say why.
    """
    ours = built_for()
    for folder in sys.path:
        try:
            with open(os.path.join(folder, MANIFEST), encoding="utf-8") as file:
                manifest = json.load(file)
            theirs = {name: str(manifest[name]) for name in ours}
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if theirs != ours:
            said = [f"Python {one['python']} on {one['machine']}" for one in (theirs, ours)]
            return f"was given an archive of `tidemill pack` for {said[0]}, and is {said[1]}"
        return ""
    return ""


def _freeze_imports() -> None:
    """Exclude the imported objects of this process from garbage collection, from its second task on.

    Spark collects all garbage after each task, which takes 40 ms with pandas and Arrow imported, while the next task
    may wait. This happens once per process, so objects of later tasks are collected as before.
    """
    package = sys.modules.get(__package__.partition(".")[0])
    if package is not None and not hasattr(package, "_imports_frozen"):  # asking gc how much is frozen takes 10 ms
        gc.freeze()
        package._imports_frozen = True  # type: ignore[attr-defined]


class _Tracebacks:
    """Replaces the module `traceback` in Spark's daemon; prints nothing for a connection that Spark closed."""

    def print_exc(self, *arguments: Any, **options: Any) -> None:
        """Print the current exception, unless it is a closed connection."""
        if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
            traceback.print_exc(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


def _silence_closed_connections(main: Any) -> None:
    """Keep this worker process from printing a traceback when Spark closes its connection, as after Ctrl-C.

    The daemon prints only errors of its own connection, then ends the process. Errors of tasks go to the driver.
    """
    is_daemon = getattr(getattr(main, "__spec__", None), "name", None) == "pyspark.daemon"
    if is_daemon and getattr(main, "traceback", None) is traceback:
        main.traceback = _Tracebacks()


def partition() -> int:
    """Return the number of the partition that this task of Spark works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "a task runs inside Spark"
    return context.partitionId()


def is_alone(work: Work) -> bool:
    """Whether one task does all of the work, without an exchange."""
    return work.scatter_tasks <= 1 and work.ranges == 1


def run_whole(work: Work) -> Iterator[Data]:
    """Run all of a work that `is_alone` in this task, and yield its receipts."""
    received: Iterator[Data] = (data for task in range(work.scatter_tasks) for _, data in scatter(work, task))
    for level in range(work.levels):
        received = _data(apply(work, level, 0, received))
    return received


def scatter(work: Work, task: int) -> Iterator[tuple[int, Data]]:
    """Yield (range, bytes) of every item that a scatter task sends."""
    return _addressed(work.scatter(task), work.ranges, f"scatter task {task}")


def apply(work: Work, level: int, range_index: int, received: Iterable[Data]) -> Iterator[tuple[int, Data]]:
    """Apply what a range of a level received; yield (range, bytes) of its items. The range of a receipt is 0."""
    rest = iter(received)
    targets = work.ranges if level + 1 < work.levels else 1
    yield from _addressed(work.apply(level, range_index, rest), targets, f"range {range_index} of level {level}")
    for _ in rest:
        pass


def pack_pairs(pairs: Iterable[tuple[int, Data]]) -> Iterator[Data]:
    """Yield the packed range, then the bytes, of each item, as Spark's exchange of bytes expects them."""
    for target, data in pairs:
        yield struct.pack("!q", target)
        yield data


def _addressed(items: Iterable[Item], targets: int, sender: str) -> Iterator[tuple[int, Data]]:
    for item in items:
        if not 0 <= item.target < targets:
            raise ValueError(f"{sender} sent an item to range {item.target}, expected 0 to {targets - 1}")
        yield item.target, item.data


def _data(pairs: Iterable[tuple[int, Data]]) -> Iterator[Data]:
    return (data for _, data in pairs)

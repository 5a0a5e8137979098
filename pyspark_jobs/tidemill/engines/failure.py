"""Turns the exception of a failed run into one clear error, the same on every engine.

If a worker reported its error, Java's stack traces are dropped. INVARIANT: errors of the five kinds and interrupts pass
through unchanged.
"""

from __future__ import annotations

import errno
import os
import re

from ..errors import InternalError, InvalidInput, StoreUnavailable, TidemillError
from .worker import BEGIN_ARCHIVE_ERROR, BEGIN_IMPORT_ERROR, BEGIN_TASK_ERROR, END_ERROR

_BEGIN = "|".join(re.escape(mark) for mark in (BEGIN_TASK_ERROR, BEGIN_IMPORT_ERROR, BEGIN_ARCHIVE_ERROR))
_REPORTED = re.compile(rf"({_BEGIN}) (.*?)(?:\n(.*?))?(?:\n{re.escape(END_ERROR)}|\Z)", re.DOTALL)
_DIED = ("Python worker exited unexpectedly", "Python worker faulthandler", "ExecutorLostFailure")
_VERSIONS_DIFFER = "PYTHON_VERSION_MISMATCH"
_VERSION = re.compile(r"\b\d+\.\d+\b")
_INSTALL = "install it where the workers run, or ship an environment to them (`spark.archives`)"
_PACK = (
    "run `tidemill pack` on a machine with the Python and the architecture of the workers, and give them that archive"
)
_STOPPED = "Cannot call methods on a stopped SparkContext"
_NO_PYTHON = re.compile(r'Cannot run program "([^"]*)"')
_PYTHON = "set `spark.pyspark.python` to a Python of the driver's version on the workers"
_KILLED = "it was killed, ran out of memory, or crashed in native code of Tidemill or of your function"
_FULL = os.strerror(errno.ENOSPC)
_FULL_HINT = (
    "free space in `spark.local.dir` of the machines that run tasks, or set it to a folder on another disk, then run "
    "again"
)
_RETRIED = "nothing was committed, the next run retries the batch"
_DIED_HINT = (
    "look for out of memory in the logs of the machine and of Spark. If it was, raise `spark.executor.memoryOverhead`, "
    f"which Python workers share, or lower `tidemill.task_memory_bytes`; {_RETRIED}"
)
_RESULTS_TOO_LARGE = "spark.driver.maxResultSize"
# The exit code 52 is Spark's own for an executor whose JVM is out of memory. 137 is any `kill -9` and proves nothing.
_NO_HEAP = re.compile(r"OutOfMemoryError: (?:Java heap|GC overhead|Requested array)|exit(?:ed with)? code:? 52\b", re.I)
_KILLED_FOR_MEMORY = re.compile(r"exceeding (?:\w+ )?memory limits|OOMKilled", re.I)
_HEAP_HINT = (
    "raise `spark.executor.memory` (`spark.driver.memory` if the master is `local`), or lower "
    f"`tidemill.chunk_bytes`; {_RETRIED}"
)
_OVERHEAD_HINT = (
    "raise `spark.executor.memoryOverhead`, which Python workers share, run fewer tasks at once in an executor "
    f"(`spark.executor.cores`), or lower `tidemill.task_memory_bytes`; {_RETRIED}"
)


def failed(error: Exception, engine: str) -> TidemillError:
    """Return the error to raise for a run that failed with `error`. A worker's traceback follows the first line."""
    if isinstance(error, TidemillError):
        return error
    text = str(error)
    reported = _REPORTED.search(text)
    if reported is not None:
        begin, line, trace = reported.groups(default="")
        if begin != BEGIN_TASK_ERROR:
            detail = f"\n\n{trace}" if trace else ""
            hint = _PACK if begin == BEGIN_ARCHIVE_ERROR else _INSTALL
            return InvalidInput(f"run a batch on engine `{engine}`: {line}{detail}", hint=hint)
        return task_failed(line, trace, engine)
    if _VERSIONS_DIFFER in text:
        line = next(line for line in text.splitlines() if _VERSIONS_DIFFER in line).partition(_VERSIONS_DIFFER)[2]
        versions = _VERSION.findall(line)
        what = "workers have Python {}, the driver has {}".format(*versions) if len(versions) == 2 else line.strip("] ")
        return InvalidInput(f"run a batch on engine `{engine}`: {what}", hint=_PYTHON)
    if (program := _NO_PYTHON.search(text)) is not None:
        return InvalidInput(
            f"run a batch on engine `{engine}`: a machine that runs tasks cannot start its Python, `{program[1]}`",
            hint=_PYTHON,
        )
    if _STOPPED in text:
        return InvalidInput(
            f"run a batch on engine `{engine}`: Spark's context has stopped",
            hint="Spark's own messages are above; it stops if the cluster is away, or if the session was closed",
        )
    if _FULL in text:
        return StoreUnavailable(
            f"run a batch on engine `{engine}`: Spark could not write to its local folders: {_FULL}", hint=_FULL_HINT
        )
    if (out_of_memory := _out_of_memory(text, engine)) is not None:
        return out_of_memory
    if any(sign in text for sign in _DIED):
        what = "a worker process ended during a task"
        return InternalError(f"run a batch on engine `{engine}`: {what}; {_KILLED}", hint=_DIED_HINT)
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    return InternalError(f"run a batch on engine `{engine}`: {type(error).__name__}: {line}\n\n{text}")


def _out_of_memory(text: str, engine: str) -> InvalidInput | None:
    """Return the error if a text of Spark says that something ran out of memory."""
    if _RESULTS_TOO_LARGE in text:
        return InvalidInput(
            f"run a batch on engine `{engine}`: the receipts of the tasks are larger than `spark.driver.maxResultSize`",
            hint=f"raise `{_RESULTS_TOO_LARGE}`, or set it to 0, which means no limit; {_RETRIED}",
        )
    if _NO_HEAP.search(text):
        return InvalidInput(
            f"run a batch on engine `{engine}`: the JVM of an executor or of the driver ran out of memory "
            "(OutOfMemoryError)",
            hint=_HEAP_HINT,
        )
    if _KILLED_FOR_MEMORY.search(text):
        return InvalidInput(
            f"run a batch on engine `{engine}`: an executor was killed because its container has too little memory",
            hint=_OVERHEAD_HINT,
        )
    return None


def task_failed(line: str, trace: str, engine: str) -> InternalError:
    """Return the error for a task that raised. `line` is the exception as Python prints it, `trace` its traceback."""
    return InternalError(f"run a batch on engine `{engine}`: a task raised {line}\n\n{trace.rstrip()}")

"""One clear error out of whatever a failed run left behind, the same for every engine.

No engine shows Java's stack traces where a worker said what is wrong. INVARIANT: errors of the five kinds and
interrupts pass through untouched.
"""

from __future__ import annotations

import re

from ..errors import InternalError, InvalidInput, TidemillError
from .worker import BEGIN_IMPORT_ERROR, BEGIN_TASK_ERROR, END_ERROR

_BEGIN, _END = f"({re.escape(BEGIN_TASK_ERROR)}|{re.escape(BEGIN_IMPORT_ERROR)})", re.escape(END_ERROR)
_REPORTED = re.compile(rf"{_BEGIN} (.*?)(?:\n(.*?))?(?:\n{_END}|\Z)", re.DOTALL)
_DIED = ("Python worker exited unexpectedly", "Python worker faulthandler", "ExecutorLostFailure")
_VERSIONS_DIFFER = "PYTHON_VERSION_MISMATCH"
_INSTALL = "install it where the workers run, or ship an environment to them (`spark.archives`)"
_KILLED = "it was killed, ran out of memory or crashed in native code, its own or a function's"
_DIED_HINT = (
    "nothing of the batch counts, and the next run runs it again; the logs of the machine (out of memory?) and of "
    "Spark say more"
)


def failed(error: Exception, engine: str) -> TidemillError:
    """The error to raise where a run failed by `error`: the first line stands alone, the worker's traceback follows."""
    if isinstance(error, TidemillError):
        return error
    text = str(error)
    reported = _REPORTED.search(text)
    if reported is not None:
        begin, line, trace = reported.groups(default="")
        if begin == BEGIN_IMPORT_ERROR:
            return InvalidInput(f"run a batch on engine `{engine}`: {line}\n\n{trace}", hint=_INSTALL)
        return task_failed(line, trace, engine)
    if _VERSIONS_DIFFER in text:
        line = next(line for line in text.splitlines() if _VERSIONS_DIFFER in line)
        hint = "set `PYSPARK_PYTHON` to a Python of the driver's version on the workers"
        return InvalidInput(f"run a batch on engine `{engine}`: {line.strip()}", hint=hint)
    if any(sign in text for sign in _DIED):
        what = "a worker process ended in the middle of a task"
        return InternalError(f"run a batch on engine `{engine}`: {what}; {_KILLED}", hint=_DIED_HINT)
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    return InternalError(f"run a batch on engine `{engine}`: {type(error).__name__}: {line}\n\n{text}")


def task_failed(line: str, trace: str, engine: str) -> InternalError:
    """The error for a task that raised: `line` is the exception as Python prints it, `trace` its traceback."""
    return InternalError(f"run a batch on engine `{engine}`: a task raised {line}\n\n{trace.rstrip()}")

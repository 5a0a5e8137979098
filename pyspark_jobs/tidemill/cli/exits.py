"""Exit statuses, and the lines that report an error: kind and first line, details, hint; no internal traceback.

INVARIANT: the numbers never change, because Airflow and scripts rely on them.
"""

from __future__ import annotations

import traceback
from enum import IntEnum

from ..errors import Fenced, InternalError, TidemillError


class Exit(IntEnum):
    """The exit status of a command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOTHING = 3
    """Nothing to do: no file was waiting, nothing was due, committed or published."""
    FENCED = 4
    """Another run is committing to this pipeline."""
    INTERRUPTED = 130


INTERRUPTED = "interrupted: committed batches are kept; run again to retry the unfinished batch and resume"


def as_tidemill_error(error: Exception) -> TidemillError:
    """Return `error` if it is one of the five kinds, else an `InternalError` that describes it."""
    if isinstance(error, TidemillError):
        return error
    first, _, rest = str(error).partition("\n")
    return InternalError(
        f"unexpected `{type(error).__name__}`: {first}" + (f"\n{rest}" if rest else ""),
        hint="this is a bug in Tidemill; run again with `--debug` for a traceback",
    )


def exit_status(error: TidemillError) -> Exit:
    """Return the exit status for `error`."""
    return Exit.FENCED if isinstance(error, Fenced) else Exit.FAILED


def error_lines(error: TidemillError) -> list[str]:
    """Return the lines of an error for people: `Kind: first line`, then details, the hint last."""
    first, *rest = str(error).splitlines()
    return [f"{type(error).__name__}: {first}", *rest]


def trace(error: BaseException) -> list[str]:
    """Return the traceback of `error`, for `--debug`."""
    return "".join(traceback.format_exception(error)).rstrip().splitlines()

"""Exit statuses, and how an error is told: kind and first line, the rest, the hint; never a traceback of ours.

Airflow and scripts rely on the numbers; they do not change.
"""

from __future__ import annotations

import traceback
from enum import IntEnum

from ..errors import Fenced, InternalError, TidemillError


class Exit(IntEnum):
    """What the command ended with."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOTHING = 3
    """Nothing was waiting, due, committed or published."""
    FENCED = 4
    """Somebody else commits here."""
    INTERRUPTED = 130


INTERRUPTED = "interrupted: what is committed stays, nothing half-written counts; run it again to go on"


def as_tidemill_error(error: Exception) -> TidemillError:
    """`error` if it is one of the five kinds, else the bug that it is."""
    if isinstance(error, TidemillError):
        return error
    first, _, rest = str(error).partition("\n")
    return InternalError(
        f"an unexpected `{type(error).__name__}`: {first}" + (f"\n{rest}" if rest else ""),
        hint="this is a bug; `--debug` shows where",
    )


def exit_status(error: TidemillError) -> Exit:
    """The status that tells of `error`."""
    return Exit.FENCED if isinstance(error, Fenced) else Exit.FAILED


def told(error: TidemillError) -> list[str]:
    """The lines of an error for a person: `Kind: first line`, then the rest, the hint last."""
    first, *rest = str(error).splitlines()
    return [f"{type(error).__name__}: {first}", *rest]


def trace(error: BaseException) -> list[str]:
    """The traceback of `error`, for `--debug`."""
    return "".join(traceback.format_exception(error)).rstrip().splitlines()

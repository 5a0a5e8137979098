"""The exit status and the lines of an error: kind and first line, details, hint; no internal traceback."""

from __future__ import annotations

import traceback

from ..errors import Exit, Fenced, InternalError, TidemillError

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

"""`.foreachBatch(fn)`: a user's function as a sink. The driver calls it once for each committed batch.

The rows are stored in the repository as Parquet, like those of a stream without a sink. CRASH: the driver records the
call after the function has returned. A run that dies before that calls it again, so the function is called at least
once for each batch. The first calls of all batches are in the order of versions. A process that stalled before its call
may call late, so a function that must not do a batch twice compares `batch_id`.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput, kind_of
from . import forms
from .contract import Applied, Change, Seen, SinkPlace, Staged

_Function = Callable[..., Any]
"""`fn(table, batch_id)`, or `fn(table, batch_id, withdrawn=())`."""


class ForeachBatch:
    """Calls `function(table, batch_id)` on the driver. Workers receive the sink without the function."""

    kind = "foreach-batch"
    path = ""
    uri = ""

    def __init__(self, function: _Function) -> None:
        if not callable(function):
            raise InvalidInput(f"foreachBatch: expected a function of (table, batch_id), found {function!r}")
        self.function: _Function | None = function

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "function": None}

    def describe(self) -> dict[str, Any]:
        """Return the kind. The function itself is not recorded."""
        return {"kind": self.kind, "path": ""}

    def check(self, schema: pa.Schema) -> None:
        """Accept any rows."""

    def stage(self, rows: pa.Table) -> list[Staged]:
        """Return one Parquet file."""
        return forms.staged(rows)

    def refuse_withdrawal(self) -> None:
        """Raise `InvalidInput` if the function does not accept the batches that no longer count."""
        if self.function is None or not _takes_withdrawn(self.function):
            raise InvalidInput(
                "the function given to foreachBatch has no parameter `withdrawn`, so it cannot undo its batches",
                hint="add the parameter: `def fn(table, batch_id, withdrawn=())`. After a rewind it has the ids of the "
                "batches whose rows no longer count",
            )

    def apply(self, change: Change, at: SinkPlace) -> Applied:
        """Call the function with the rows of a version, and with the batches that no longer count, if there are any.

        Versions that were published as files are not among these, because the function was not called for them.
        An error of the function becomes `InvalidInput` if it is a programming error such as a TypeError. Otherwise it
        becomes `StoreUnavailable`, because another system that the function uses may recover."""
        assert self.function is not None  # the driver has it; only workers do not
        version, table = change.version, forms.rows_of_change(change, at)
        withdrawn = [one.version for one in change.withdraws if not one.path]
        try:
            if withdrawn:
                self.function(table, version, withdrawn=withdrawn)
            else:
                self.function(table, version)
        except Exception as error:
            raise kind_of(error)(
                f"the function given to foreachBatch raised `{type(error).__name__}: {error}` for batch {version}\n"
                f"{traceback.format_exc()}",
                hint="correct the cause; the next run calls the function again for this batch before it continues",
            ) from error
        return Applied()

    def seen(self, at: SinkPlace, since: int = -1) -> Iterator[Seen]:
        """Yield nothing: a function has no place."""
        del at, since
        return iter(())

    def __repr__(self) -> str:
        return f"ForeachBatch({getattr(self.function, '__name__', self.function)!r})"


def _takes_withdrawn(function: _Function) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return any(
        one.kind is inspect.Parameter.VAR_KEYWORD or (one.name == "withdrawn" and one.kind in named)
        for one in parameters
    )


__all__ = ["ForeachBatch"]

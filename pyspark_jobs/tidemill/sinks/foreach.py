"""`.foreachBatch(fn)`: a user's function as a sink. The driver calls it once for each committed batch.

The rows are stored in the repository as Parquet, like those of a stream without a sink. CRASH: the driver records the
call after the function has returned. A run that dies before that calls it again, so the function is called at least
once for each batch, in the order of versions.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .. import names
from ..errors import InvalidInput, kind_of
from ..protocol.records import OutputFile
from ..schema import empty_table
from ..state.versions import fetch
from ..store import Store
from .contract import Options, Publication
from .files import Parquet

Function = Callable[[pa.Table, int], Any]


class ForeachBatch(Parquet):
    """Calls `function(table, batch_id)` on the driver. Workers receive the sink without the function."""

    kind = "foreach-batch"
    every_batch = True

    def __init__(self, function: Function, schema: pa.Schema) -> None:
        if not callable(function):
            raise InvalidInput(f"foreachBatch: expected a function of (table, batch_id), found {function!r}")
        super().__init__("function")
        self.path = ""
        self.function: Function | None = function
        self.schema = schema

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "function": None}

    def check_place(self, options: Options) -> None:
        """Accept anything, because the sink has no folder."""

    def publish(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> int:
        """Call the function unless the repository records that it was called; return how many calls were made.

        An error of the function becomes `InvalidInput` if it is a programming error such as a TypeError. Otherwise it
        becomes `StoreUnavailable`, because another system that the function uses may recover."""
        del options
        called = names.called(whose.sink, whose.version)
        if self.function is None or store.stat(called) is not None:
            return 0
        found = [pq.ParquetFile(pa.BufferReader(fetch(store, file.name, file.checksum))) for file in files]
        tables = [file.read(use_threads=False).drop_columns([names.BATCH_ID]) for file in found]
        table = pa.concat_tables(tables) if tables else empty_table(self.schema)
        try:
            self.function(table, whose.version)
        except Exception as error:
            raise kind_of(error)(
                f"sink `{whose.sink}`: the function given to foreachBatch raised `{type(error).__name__}: {error}` for "
                f"batch {whose.version}, which stays committed\n{traceback.format_exc()}",
                hint="correct the cause; the next run calls the function again for this batch before it continues",
            ) from error
        store.put(called, json.dumps({"version": whose.version}).encode())
        return 1

    def is_published(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> bool:
        """Return whether the repository records that the function was called."""
        del files, options
        return self.function is None or store.stat(names.called(whose.sink, whose.version)) is not None

    def __repr__(self) -> str:
        return f"ForeachBatch({getattr(self.function, '__name__', self.function)!r})"


__all__ = ["ForeachBatch"]

"""`folded`: the finished values of partial aggregates, computed by the operator itself.

INVARIANT: whatever a batch would emit for a key is what a reader of its state gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from .. import _native
from ..errors import InternalError
from ..protocol.records import HASH_END
from ..schema import one_batch
from .contract import Handle

NEVER_MS = -(2**62)
"""A watermark before all times, so that nothing is late and nothing ends."""
ALWAYS_MS = 2**62
"""A watermark after all times, so that everything ends."""


def folded(handle: Any, rows: pa.Table, passes: Sequence[Any]) -> pa.Table:
    """Return the outputs of an operator that has an empty state and gets `rows`, columns of its state map.

    The rows are those of the first pass. There is one output for each row, in the order of the operator's outputs.
    """
    opened: Handle = handle
    opened.open([_native.StateMap.open(schema, [], 0, HASH_END) for schema in handle.map_schemas()])
    chunk = one_batch(rows.select(handle.prepared_schema().names), "state")
    given = [[chunk], *([] for _ in passes[1:])]
    made = [opened.apply(chunks, each, [0] * len(chunks)) for chunks, each in zip(given, passes, strict=True)]
    outputs = pa.Table.from_batches(made)
    if outputs.num_rows != rows.num_rows:
        raise InternalError(f"finish the state of aggregates: {rows.num_rows} rows gave {outputs.num_rows} outputs")
    return outputs

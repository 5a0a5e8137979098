"""What the operators of aggregates share, and `folded`: finished values of partial aggregates.

The operator itself computes them. INVARIANT: whatever a batch would emit for a key is what a reader of its state gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from .. import _native
from ..errors import InternalError
from ..protocol.records import HASH_END
from ..schema import one_batch
from .aggregate_rules import any_by_order
from .contract import Defaults, Handle
from .functions import Aggregate

NEVER_MS = -(2**62)
"""A watermark before all times, so that nothing is late and nothing ends."""
ALWAYS_MS = 2**62
"""A watermark after all times, so that everything ends."""


class OfAggregates(Defaults):
    """Defaults of an operator of aggregates: it emits for keys, or what has ended, and never for single rows."""

    aggregates: tuple[tuple[str, Aggregate], ...]

    @property
    def order_matters(self) -> bool:
        """Whether a function depends on the order of rows."""
        return any_by_order(one.function for _, one in self.aggregates)

    @property
    def emits_for_rows(self) -> bool:
        """False: a row of the output is that of a key."""
        return False


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

"""`p.preview(10)`: what the first rows of each source become, without a root, an engine or a clock.

One pass over a few rows in this process, with empty states; nothing is written, published or called back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..operators.contract import closed_if_it_fails
from ..protocol.records import HASH_END
from ..sources.contract import ReadContext, SourceFile
from .graph import Graph
from .nodes import Keyed, Node, Read, Stateless, Union, parents_of


def preview(pipeline: Graph, rows: int, options: Mapping[str, Any]) -> dict[str, pa.Table]:
    """The first rows of every source, operator and sink, by name; `InvalidInput` for a source without files."""
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise InvalidInput(f"preview: {rows!r} rows, expected a whole number from 1 on")
    few = _Few(pipeline, rows, options)
    named: dict[str, Node] = {
        **pipeline.reads,
        **pipeline.operators,
        **{write.name: write.node for write in pipeline.sinks.values()},
    }
    return {name: few.rows(node).slice(0, rows) for name, node in named.items()}


class _Few:
    """The rows of each node, made once."""

    def __init__(self, pipeline: Graph, count: int, options: Mapping[str, Any]) -> None:
        self.pipeline, self.count, self.options = pipeline, count, options
        self.made: dict[Node, pa.Table] = {}
        self.newest_ms = 0

    def rows(self, node: Node) -> pa.Table:
        """Rows of a node in its columns."""
        if node not in self.made:
            self.made[node] = self._made(node)
        return self.made[node].select(node.schema.names)

    def _made(self, node: Node) -> pa.Table:
        if isinstance(node, Read):
            return self._read(node)
        if isinstance(node, Union):
            tables = [self.rows(parent) for parent in node.parents]
            return pa.concat_tables(tables, promote_options="default").select(node.schema.names)
        if isinstance(node, Keyed):
            return self._applied(node, self.rows(node.parent))
        (parent,) = parents_of(node)
        self.rows(parent)
        above = self.made[parent]  # with what is hidden: a step may ask for `_metadata`
        if not isinstance(node, Stateless):
            return above
        made = [node.step.apply(batch, self.pipeline.timeZone) for batch in above.to_batches()]
        return pa.Table.from_batches(made) if made else node.schema.empty_table()

    def _read(self, node: Read) -> pa.Table:
        source = self.pipeline.sources[node.source]
        files = source.discover(node.source, self.options)
        if not files:
            raise InvalidInput(f"preview: the source `{node.source}` has no files: {source!r}")
        taken, left = [], self.count
        for batch in self._blocks(source, files):
            taken.append(batch.slice(0, left))
            left -= taken[-1].num_rows
            if left == 0:
                break
        return pa.Table.from_batches(taken) if taken else node.schema.empty_table()

    def _blocks(self, source: Any, files: list[SourceFile]) -> Iterator[pa.RecordBatch]:
        context = ReadContext(self.options, self.pipeline.timeZone, metadata=True)
        for file in files:
            self.newest_ms = max(self.newest_ms, file.modified_ms)
            for split in source.splits([file], self.options):
                for block in source.read(split, self.count, context):
                    yield block.rows

    def _applied(self, node: Keyed, rows: pa.Table) -> pa.Table:
        """What a new operator, with empty state, makes of the rows in its data pass."""
        operator = node.operator
        before = 0 if operator.input.event_time is not None else None
        pass_ = _native.Pass("data", self.newest_ms, before, before)
        handle, at_work = operator.open(), operator.open()
        batches = rows.combine_chunks().to_batches()
        chunks = [handle.prepare(batch, pass_, combine=False).rows for batch in batches]
        at_work.open([_native.StateMap.open(columns.engine(), [], 0, HASH_END) for columns in operator.maps])
        with closed_if_it_fails(at_work):
            found = pa.Table.from_batches([at_work.apply(chunks, pass_)])
            at_work.finish()
        return found

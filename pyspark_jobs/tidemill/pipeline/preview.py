"""`p.preview(10)`: the result of a few rows of each source, without a root, an engine or a clock.

It runs the compiled pipeline once in this process, with empty states. It writes, publishes and calls back nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..operators.contract import BoundOperator, close_on_error
from ..protocol.records import HASH_END
from ..schema import one_batch
from ..sources import asked
from ..sources.contract import ReadContext, SourceFile
from . import flow
from .graph import Graph
from .job import Job, JobSink, Placed, Port, compile_job
from .nodes import Read


def preview(pipeline: Graph, rows: int, options: Mapping[str, Any]) -> dict[str, pa.Table]:
    """Return the first rows of every source, operator and sink, by name. A source without files is `InvalidInput`."""
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise InvalidInput(f"preview: {rows!r} rows, expected a whole number of at least 1")
    sources = {node.source: _SourceRows(pipeline, node, rows, options) for node in pipeline.reads.values()}
    found = {name: source.shown() for name, source in sources.items()}
    if pipeline.operators or pipeline.sinks:
        newest_ms = max((source.newest_ms for source in sources.values()), default=0)
        found |= _run(compile_job(pipeline), sources, newest_ms)
    return {name: table.slice(0, rows) for name, table in found.items()}


def _run(job: Job, sources: Mapping[str, _SourceRows], newest_ms: int) -> dict[str, pa.Table]:
    """Return what the operators and sinks make of the rows."""
    preview = _Preview(job, newest_ms)
    for name, source in sources.items():
        for node in job.nodes:
            if node.source == name and source.rows is not None:
                flow.run_steps(job, node.number, source.rows, preview, f"source `{name}`")
    for level in range(job.levels):
        for placed in job.at_level(level):
            preview.apply(placed)
    return preview.tables()


class _SourceRows:
    """The first rows of one source, with their hidden columns."""

    def __init__(self, pipeline: Graph, node: Read, count: int, options: Mapping[str, Any]) -> None:
        self.schema, self.newest_ms = node.schema, 0
        source = pipeline.sources[node.source]
        files = asked.look_at_source(source, node.source, None, options)
        if not files:
            raise InvalidInput(f"preview: the source `{node.source}` has no files: {source!r}")
        context = ReadContext(options, pipeline.timeZone, metadata=True)
        taken, left = [], count
        for rows in self._blocks(source, files, count, context):
            taken.append(rows.slice(0, left))
            left -= taken[-1].num_rows
            if left == 0:
                break
        self.rows = one_batch(pa.Table.from_batches(taken), f"source `{node.source}`") if left < count else None

    def _blocks(
        self, source: Any, files: list[SourceFile], count: int, context: ReadContext
    ) -> Iterator[pa.RecordBatch]:
        for file in files:
            self.newest_ms = max(self.newest_ms, file.modified_ms)
            for split in asked.splits(source, [file], context.storage_options):
                for block in source.read(split, count, context):
                    yield block.rows

    def shown(self) -> pa.Table:
        """Return the rows in the columns that the source declares."""
        return _table([] if self.rows is None else [flow.declared(self.rows, self.schema)], self.schema)


class _Preview:
    """Receives rows and applies the operators, level by level. A `flow.Receiver`."""

    def __init__(self, job: Job, newest_ms: int) -> None:
        self.job, self.newest_ms = job, newest_ms
        ports = (port for placed in job.operators.values() for port in placed.ports)
        self._handles = {port.label: port.operator.open_port(port.number) for port in ports}
        self._chunks: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._results: dict[str, pa.Table] = {}
        self._outputs: dict[str, list[pa.RecordBatch]] = defaultdict(list)

    def to_operator(self, port: Port, rows: pa.RecordBatch) -> None:
        """Prepare rows for an operator. Each row stays its own, and no row is late."""
        given = flow.declared(rows, port.input.schema)
        prepared = self._handles[port.label].prepare(given, self._pass(port.operator), combine=False).rows
        self._chunks[port.label].append(prepared)

    def to_output(self, output: JobSink, rows: pa.RecordBatch) -> None:
        """Keep rows for a sink."""
        self._outputs[output.name].append(flow.declared(rows, output.schema))

    def at_watermark(self, name: str, column: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Let all rows pass, because a preview has no watermarks."""
        del name, column
        return rows

    def apply(self, placed: Placed) -> None:
        """Apply a new operator with empty state, in its data pass, and pass its outputs on."""
        operator = placed.operator
        handle = operator.open()
        handle.open([_native.StateMap.open(columns.engine(), [], 0, HASH_END) for columns in operator.maps])
        with close_on_error(handle):
            chunks = [(rows, port.number) for port in placed.ports for rows in self._chunks.pop(port.label, [])]
            made = handle.apply([rows for rows, _ in chunks], self._pass(operator), [number for _, number in chunks])
            handle.finish()
        self._results[operator.name] = pa.Table.from_batches([made])
        if made.num_rows:
            flow.run_steps(self.job, placed.node, made, self, f"operator `{operator.name}`")

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows of every operator and sink, by name."""
        sinks = {name: _table(self._outputs[name], output.schema) for name, output in self.job.outputs.items()}
        return self._results | sinks

    def _pass(self, operator: BoundOperator) -> Any:
        before = 0 if any(given.event_time is not None for given in operator.inputs) else None
        return _native.Pass("data", self.newest_ms, before, before)


def _table(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches) if batches else schema.empty_table()

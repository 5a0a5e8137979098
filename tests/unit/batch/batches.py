"""Batches over sources of rows in memory, and the messages that their scatter tasks send."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import tidemill as tm
from tests.unit.protocol import valid_records as make
from tidemill.batch import scatter, wire
from tidemill.batch.batch import Batch
from tidemill.batch.wire import Chunk, Header, Message
from tidemill.pipeline.job import compile_job
from tidemill.protocol.records import Split
from tidemill.run.tasks import assigned
from tidemill.settings import Settings
from tidemill.sources.contract import ROW, Block, EarlyFiles, ReadContext, SmallFiles

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Blocks:
    """A source with the given blocks of rows; every split has the same rows."""

    schema: pa.Schema
    blocks: Sequence[Sequence[dict[str, Any]]]
    rejects: pa.Table | None = None

    def read(self, split: Split, block_rows: int, context: ReadContext) -> Iterator[Block]:
        first = 0
        for number, rows in enumerate(self.blocks):
            numbers = pa.array(range(first, first + len(rows)), pa.int64())
            batch = pa.RecordBatch.from_pylist(list(rows), schema=self.schema).append_column(ROW, numbers)
            yield Block(number, batch, self.rejects if number == 0 else None)
            first += len(rows)

    def read_early_together(self, splits: Sequence[Split], context: ReadContext) -> EarlyFiles:
        return {}

    def read_small(self, splits: Sequence[Split], block_rows: int, context: ReadContext) -> Iterator[SmallFiles | None]:
        yield from [None] * len(splits)


def batch(
    pipeline: tm.Pipeline,
    blocks: Sequence[Sequence[dict[str, Any]]],
    *,
    tasks: int = 1,
    splits: int = 1,
    rejects: pa.Table | None = None,
    chunk_bytes: int = 1 << 20,
    watermarks: dict[str, int] | None = None,
) -> Batch:
    """A batch over splits that each have these blocks."""
    job = compile_job(pipeline)
    source = Blocks(pipeline.sources["source"].schema, blocks, rejects)
    return assigned(
        Batch(
            job=dataclasses.replace(job, sources={"source": source}),
            plan=make.plan(splits=tuple(make.split(f"{number}.csv") for number in range(splits))),
            attempt="try",
            root="memory://unit",
            storage_options={},
            settings=Settings(chunk_bytes=chunk_bytes),
            state={},
            watermarks=watermarks or {},
            tasks=tasks,
        ),
        tasks,
    )


def scattered(made: Batch) -> list[list[Message]]:
    """The messages that all scatter tasks of a batch send to each range."""
    received: list[list[Message]] = [[] for _ in range(made.tasks)]
    for task in range(len(made.assignment)):
        for item in scatter.scatter_task(made, task):
            received[item.target].append(wire.decode_message(item.data))
    return received


def chunks(messages: Sequence[Message], kind: str) -> list[Chunk]:
    """The chunks of one kind."""
    return [one for one in messages if isinstance(one, Chunk) and one.head.kind == kind]


def headers(messages: Sequence[Message]) -> list[Header]:
    """The headers."""
    return [one for one in messages if isinstance(one, Header)]

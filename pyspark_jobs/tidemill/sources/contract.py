"""What the rest of Tidemill sees of a source: files, blocks of rows, and the seam `Source`.

Values only. INVARIANT: blocks depend on the file's bytes and `block_rows` alone, not on where or how often it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pyarrow as pa

from ..protocol.records import Split
from ..schema import TIMESTAMP

ROW = "_row"
"""Hidden column, last: the number of a row in its file from 0 on, counted over good and bad ones."""
METADATA = "_metadata"
"""Hidden column, where it is asked for: which file a row comes from (Spark: `_metadata`)."""
HIDDEN = (METADATA, ROW)
SPLIT_BYTES = 64 * 1024**2
"""A file larger than this is cut, where its format can be."""

METADATA_TYPE = pa.struct(
    [
        pa.field("file_path", pa.string()),
        pa.field("file_name", pa.string()),
        pa.field("file_size", pa.int64()),
        pa.field("file_modification_time", TIMESTAMP),
    ]
)
ABANDON_PLAN = (
    'abandon the plan: r.replan("…"), or `tidemill replan … --reason "…"` with the pipeline and `--root` of '
    "`tidemill run`"
)
"""The advice for a plan whose file has changed or is missing."""
REJECT_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("file", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("column", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("text", pa.string()),
    ]
)
"""Rows that could not be read. `line` counts from 1; it is null where the whole file is rejected, or has no lines."""


@dataclass(frozen=True)
class SourceFile:
    """A file that a source has now. `path` is relative to the source's folder."""

    source: str
    path: str
    etag: str
    size: int
    modified_ms: int


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a split, hidden columns last, and what was rejected since the block before (or None)."""

    number: int
    rows: pa.RecordBatch
    rejects: pa.Table | None = None


@dataclass(frozen=True)
class ReadContext:
    """How splits are read: by which options of the store, in which time zone, with `_metadata` or not; what of them."""

    storage_options: Mapping[str, Any] = field(default_factory=dict)
    time_zone: str = "UTC"
    metadata: bool = False
    columns: frozenset[str] | None = None
    """The columns of the schema that anybody looks at; a source may leave out others. None: all."""


@dataclass(frozen=True)
class Intake:
    """What the planner does with the files that a source shows, and how much of them one batch takes."""

    start: Literal["earliest", "latest"] = "earliest"
    """"latest": files that were there before `init` are passed over."""
    overwritten: Literal["error", "new"] = "error"
    """What a taken file with another content is."""
    max_files: int | None = None
    max_bytes: int | None = None


class Source(Protocol):
    """Where rows come from. Travels to the workers by pickle."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""

    @property
    def intake(self) -> Intake:
        """Which of its files wait, and how many a batch takes."""

    def discover(self, name: str, storage_options: Mapping[str, Any] | None = None) -> list[SourceFile]:
        """Every file that is there now, in the order in which batches take them."""

    def splits(
        self,
        files: Sequence[SourceFile],
        storage_options: Mapping[str, Any] | None = None,
        split_bytes: int = SPLIT_BYTES,
    ) -> list[Split]:
        """The files as units of reading: one each, or parts of about `split_bytes` where the format can be cut."""

    def read(self, split: Split, block_rows: int, context: ReadContext) -> Iterator[Block]:
        """The rows of a split, in blocks of exactly `block_rows` rows, the last one shorter."""


class Step(Protocol):
    """A stateless step over rows. Travels to the workers by pickle."""

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions, for the code reference in commits."""

    @property
    def needs_metadata(self) -> bool:
        """Whether it asks for `_metadata`."""

    def output(self, schema: pa.Schema) -> pa.Schema:
        """The columns that it makes of rows with `schema`; `InvalidInput` where it cannot."""

    def carried(self, given: pa.Schema, made: pa.Schema, names: Sequence[str]) -> list[str]:
        """The names in `made`, its output, under which a column of `given` leaves it as it came, where that has `names`
        there: all of them the same. Those of the first come first, and of each its own."""

    def apply(self, rows: pa.RecordBatch, time_zone: str) -> pa.RecordBatch:
        """What it makes of `rows`, hidden columns last as they came."""

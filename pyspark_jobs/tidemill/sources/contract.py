"""The protocols `Source` and `StatelessStep`, and what passes through them: files, blocks of rows.

Values only. INVARIANT: blocks depend only on the file's bytes, on `block_rows` and on the columns that are read, not on
where or how often the file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

import pyarrow as pa

from ..protocol.records import SkippedFile, Split
from ..schema import TIMESTAMP
from ..store import Store
from ..values import dataclass
from .content import Content
from .listing import Selection

ROW = "_row"
"""Hidden last column: the number of a row in its file, from 0. Unreadable rows count too."""
METADATA = "_metadata"
"""Hidden column, present if a step asks for it: the file that a row comes from. Spark: `_metadata`."""
HIDDEN = (METADATA, ROW)
BLOCK_BYTES = 64 * 1024**2
"""A block of so many bytes is complete, whatever its number of rows."""
SPLIT_BYTES = 64 * 1024**2
"""A larger file is split if its format allows it."""

METADATA_TYPE = pa.struct(
    [
        pa.field("file_path", pa.string()),
        pa.field("file_name", pa.string()),
        pa.field("file_size", pa.int64()),
        pa.field("file_modification_time", TIMESTAMP),
    ]
)


@dataclass(frozen=True)
class SourceFile:
    """A file that is in the source's folder now, or another part of a source that is read as a whole.

    `path` is relative to the folder; of another part it is a name that stays the same. `etag` changes with the content.
    `size` is in bytes, `modified_ms` when it arrived. `position` is that of a source without a ledger once it was read.
    """

    source: str
    path: str
    etag: str
    size: int
    modified_ms: int
    position: str = ""

    @classmethod
    def of_split(cls, split: Split) -> SourceFile:
        """Return what a split was planned from."""
        return cls(split.source, split.path, split.etag, split.size, split.modified_ms)

    @classmethod
    def skipped(cls, file: SkippedFile) -> SourceFile:
        """Return a file that a commit took out of the input. When it arrived is not recorded."""
        return cls(file.source, file.path, file.etag, file.size, 0)


def named_file(file: SourceFile | Split, sources: Collection[str]) -> str:
    """Return a file for a message. If there are several sources, it has the name of its source, too."""
    return f"`{file.path}`" + (f" of source `{file.source}`" if len(sources) > 1 else "")


@dataclass(frozen=True)
class Misfit:
    """A text that is no row, by its place, and why."""

    place: int
    reason: str


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a split, hidden columns last, and the rejects since the previous block, or None."""

    number: int
    rows: pa.RecordBatch
    rejects: pa.Table | None = None
    fingerprint: str | None = None
    """That of the file; only in the first block of the file."""
    lost_rows: int | None = None
    """Of a file that goes to quarantine as a whole, how many rows it has; 0 if they cannot be counted. None for others.

    It is the file's only block, and its reject stands for all rows."""

    @property
    def rejected_rows(self) -> int:
        """How many rows of the file the rejects stand for."""
        if self.lost_rows is not None:
            return self.lost_rows
        return 0 if self.rejects is None else self.rejects.num_rows


@dataclass(frozen=True)
class Early:
    """A file whose bytes the driver has read already, and its fingerprint."""

    content: Content
    fingerprint: str | None


@dataclass(frozen=True)
class SmallFiles:
    """Consecutive small splits that are whole files without rejects, read together."""

    rows: pa.RecordBatch
    """The rows of all files, hidden columns last, as they are in blocks."""
    counts: Sequence[int]
    """How many rows each file has."""
    fingerprints: Sequence[str | None]


EarlyFiles = Mapping[tuple[str, str], Early]
"""Files that were read already, by source and path. Each is a whole split, with the ETag and the size that it says."""


class BeingRead(Protocol):
    """A split that a thread reads before its batch begins. Only the source that made it looks into it."""

    @property
    def split(self) -> Split:
        """The split, with the ETag and the size that it says."""


class ReadsAhead(Protocol):
    """What a source has that can read before it is asked. Others need no such method."""

    def read_ahead(
        self, splits: Sequence[Split], block_rows: int, context: ReadContext, most_bytes: int
    ) -> Sequence[BeingRead]:
        """Begin to read the first of some splits in one thread, for `ReadContext.being_read`.

        About `most_bytes` of rows are kept at most. Splits that cannot be read so are left out. The end of the process
        must not wait for the thread. An error is not kept: `read` finds it again.
        """


@dataclass(frozen=True)
class ReadContext:
    """How splits are read: options of the store, time zone, whether `_metadata` is added, and which columns."""

    storage_options: Mapping[str, Any] = field(default_factory=dict)
    time_zone: str = "UTC"
    metadata: bool = False
    columns: frozenset[str] | None = None
    """The columns that the pipeline uses. A source may omit others. None means all."""
    early: EarlyFiles = field(default_factory=dict)
    """Files that need not be read again."""
    being_read: Mapping[tuple[str, str], BeingRead] = field(default_factory=dict, repr=False, compare=False)
    """Splits that are being read ahead, by source and path. Empty in other processes than that of the driver."""
    folders: dict[str, Store] = field(default_factory=dict, repr=False, compare=False)
    """The folders of sources that are open, by path, so that the reads of one task share them."""

    def read_before(self, split: Split) -> Early | None:
        """Return the file of a split if it was read already."""
        return self.early.get((split.source, split.path))


@dataclass(frozen=True)
class Intake:
    """Which files of a source the planner reads, and how much of them one batch may read."""

    start: Literal["earliest", "latest"] = "earliest"
    """With "latest", files that were present at `init` are left out."""
    overwritten: Literal["error", "new", "ignore"] = "error"
    """What a file is that was overwritten with other bytes after it was read."""
    bad_files: Literal["fail", "quarantine"] = "fail"
    """What becomes of a file that is not of its format."""
    max_files: int | None = None
    max_bytes: int | None = None
    selection: Selection = field(default_factory=Selection)
    """Which objects of the folder are files of the source."""


@dataclass(frozen=True)
class SourceFolder:
    """The folder whose files a source reads, as the user gave it, and which of its objects are files of the source."""

    path: str
    selection: Selection


class Source(Protocol):
    """Where rows come from. It is sent to the workers by pickle.

    A new source is one file with a class of this shape; it inherits nothing. What only some can do is in `asked`.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    @property
    def place(self) -> str | None:
        """The URI of the place that is read, such as a folder, which commits record; None if there is none."""

    def look(
        self, name: str, since: str | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> list[SourceFile]:
        """Return what can be read now, in the order in which batches read it. `name` is that of the source.

        Usually that is every file that is present: the ledger knows which of them were read. A source that
        `is_positioned` returns what comes after the position `since` instead, each part with the position that the
        source has once it was read. Positions differ from each other, and are not empty. `since` is None before the
        first batch.
        """

    def read(self, split: Split, block_rows: int, context: ReadContext) -> Iterator[Block]:
        """Yield the rows of a split in blocks of `block_rows` rows; of fewer if they are large, and at the end.

        Raises `InvalidInput` if it is not there any more, or is not as it was planned.
        """


class StatelessStep(Protocol):
    """A stateless step over rows. It is sent to the workers by pickle."""

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions, for the code reference in commits."""

    @property
    def needs_metadata(self) -> bool:
        """Whether the step reads `_metadata`."""

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that the step makes of rows with `schema`. Raises `InvalidInput` if it cannot."""

    def carried(self, given: pa.Schema, made: pa.Schema, names: Sequence[str]) -> list[str]:
        """Return the names under which an unchanged column leaves the step.

        `given` are the columns before the step and `made` those after it. The column has `names` in `given`, all of
        which hold the same values. Results for the first name come first; of each, the unchanged name comes first."""

    def apply(self, rows: pa.RecordBatch, time_zone: str) -> pa.RecordBatch:
        """Return the step's result for `rows`. Hidden columns stay last."""

"""The records of the protocol as dataclasses: init, plan, receipt, commit. `codec` turns them into JSON.

No I/O and no decisions here. INVARIANT: a record is never changed once it is written.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

FORMAT_VERSION = 1
"""The format version in every record. A reader rejects records with another format."""

HASH_END = 2**64 - 1
"""The greatest key hash. Ranges are inclusive at both ends, so `0..HASH_END` is the whole hash space."""

Kind = Literal["batch", "sweep", "void"]


@dataclass(frozen=True)
class Init:
    """The first entry of `refs/`, which identifies the repository. `seeds` are the initial state, version -1."""

    pipeline: str
    uuid: str
    created_ms: int
    seeds: dict[str, dict[str, list[Segment]]] = field(default_factory=dict)
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    format: int = FORMAT_VERSION


@dataclass(frozen=True)
class Added:
    """An entry of `refs/` by which a later `init` added or removed operators.

    Operators that are added begin empty, on purpose. The state of removed ones ends with the next commit.
    """

    schemas: dict[str, dict[str, Any]]
    created_ms: int
    removed: list[str] = field(default_factory=list)
    kind: Literal["operators", "operators-with-state"] = "operators"
    format: int = FORMAT_VERSION


@dataclass(frozen=True)
class Seeded(Added):
    """An entry that adds operators with an initial state.

    Its kind differs from that of `Added`, so that a reader that does not know initial states stops instead of starting
    the operators empty.
    """

    kind: Literal["operators", "operators-with-state"] = "operators-with-state"
    seeds: dict[str, dict[str, list[Segment]]] = field(default_factory=dict)


ENTRIES: dict[str, type[Added]] = {"operators": Added, "operators-with-state": Seeded}
"""The entries that `refs/` may have after the init record, by `kind`."""


@dataclass(frozen=True)
class Split:
    """The unit of reading: a file, or the row groups `row_groups` (first and last, inclusive) of a Parquet file."""

    source: str
    path: str
    etag: str
    size: int
    modified_ms: int
    row_groups: tuple[int, int] | None = None
    first_row: int = 0


@dataclass(frozen=True)
class Plan:
    """The immutable input and batch time of one batch. A plan fixes inputs and time, not code."""

    number: int
    kind: Kind
    plan_id: str
    branch: str
    batch_time_ms: int
    splits: tuple[Split, ...]
    block_rows: int
    created_ms: int
    outstanding_files: int = 0
    outstanding_bytes: int = 0
    oldest_waiting_ms: int | None = None
    format: int = FORMAT_VERSION


@dataclass(frozen=True)
class Segment:
    """A sorted run stored as an object. It shows only its rows with a key hash in `lo..hi` (inclusive).

    `version` is the newest batch whose changes it holds. Of two segments that show the same hash, the one with the
    higher version is newer. `min_deadline_ms` is a lower bound of the deadlines of its live rows, those that it shows
    and no newer segment hides. Among rows with that deadline, `min_deadline_hash` is a lower bound of the key hash.
    None: no live row has a deadline.
    """

    name: str
    checksum: str
    size: int
    rows: int
    lo: int
    hi: int
    version: int
    min_deadline_ms: int | None = None
    min_deadline_hash: int = 0


@dataclass(frozen=True)
class OutputFile:
    """A file of a sink that a commit names. `outputs(version)` sorts files by (pass_number, suffix, lo, part)."""

    name: str
    checksum: str
    size: int
    rows: int
    pass_number: int
    lo: int
    part: int
    suffix: str = ""
    extension: str = ".parquet"


@dataclass(frozen=True)
class QuarantineFile:
    """A file of quarantined rows: rows that could not be read, rows of failed keys, and late rows if so declared."""

    name: str
    checksum: str
    size: int
    rows: int


@dataclass(frozen=True)
class OperatorMetrics:
    """What one operator did in one task or batch: numbers of rows and keys, and times in ms."""

    rows: int = 0
    rows_updated: int = 0
    rows_removed: int = 0
    rows_total: int = 0
    timed_out: int = 0
    late_rows: int = 0
    state_bytes: int = 0
    apply_ms: int = 0
    commit_ms: int = 0
    failed: int = 0
    """Keys whose function calls raised under `on_error="quarantine"`, for data or for a timeout."""
    failure: str = ""
    """The reason of one failed key, in one line: the first in sort order. Quarantine files have the reason per row."""

    def plus(self, other: OperatorMetrics) -> OperatorMetrics:
        """Return the sum of both, field by field. `failure` is the one that sorts first."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "failure"]
        values = {name: getattr(self, name) + getattr(other, name) for name in names}
        return OperatorMetrics(**values, failure=min(filter(None, (self.failure, other.failure)), default=""))


@dataclass(frozen=True)
class Receipt:
    """What an apply task returns for its key range of one level: live segments, outputs, counts, next deadlines.

    `splits` maps the number of each split whose header reached the range to the rows that scatter read from it.
    """

    level: int
    lo: int
    hi: int
    splits: dict[str, int]
    state: dict[str, dict[str, list[Segment]]]
    outputs: dict[str, list[OutputFile]]
    quarantine: list[QuarantineFile]
    operators: dict[str, OperatorMetrics]
    watermarks: dict[str, int]
    next_deadline: dict[str, int]
    late_rows: int = 0
    quarantined_rows: int = 0
    event_time: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Counts:
    """Input of one batch. INVARIANT: `applied_rows + late_rows + quarantined_rows == input_rows`."""

    input_rows: int = 0
    applied_rows: int = 0
    late_rows: int = 0
    quarantined_rows: int = 0
    input_files: int = 0
    input_bytes: int = 0


@dataclass(frozen=True)
class Commit:
    """The record that makes a batch real.

    INVARIANT: a commit lists all live segments of its version, so reading a version needs no other commit.
    """

    version: int
    kind: Kind
    attempt: str
    plan_id: str
    branch: str
    pipeline_uuid: str
    batch_time_ms: int
    watermarks: dict[str, int]
    """W(N) of each watermark, in ms of event time. A missing watermark is 0, as in Spark."""
    event_time: dict[str, dict[str, int]]
    """For progress, by watermark: `max` and `min` event time of this batch, and `watermark`, which is W(N-1), in ms."""
    state: dict[str, dict[str, list[Segment]]]
    """Live segments by operator and map, sorted by (lo, version)."""
    ledger: list[Segment]
    outputs: dict[str, list[OutputFile]]
    quarantine: list[QuarantineFile]
    counts: Counts
    operators: dict[str, OperatorMetrics]
    schemas: dict[str, dict[str, Any]]
    """Description of each operator, as `{"kind", "key", "maps": {map: {…}}, "output"}`, with columns as DDL."""
    sinks: dict[str, dict[str, Any]]
    code: dict[str, Any]
    """The code that ran: pipeline reference, names and digests of functions, version of Tidemill."""
    next_deadline: dict[str, int]
    """Earliest deadline in the state by timer, in ms. `batch` follows batch time; `event/<operator>` its watermark."""
    published_through: int
    """All versions up to this one had been published when this commit was made; -1 if none was."""
    committed_ms: int
    durations_ms: dict[str, int] = field(default_factory=dict)
    outstanding_files: int = 0
    outstanding_bytes: int = 0
    oldest_waiting_ms: int | None = None
    airflow: dict[str, str] = field(default_factory=dict)
    engine: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT_VERSION


def digest(data: bytes) -> str:
    """Return the checksum that records have and give for the objects they name: BLAKE2b, 128 bits, in hex."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True)
class StoreVersion:
    """The record that makes a version of a `StateStore`: all its live segments, and the attempt that committed it."""

    version: int
    attempt: str
    key: str
    state: str
    segments: list[Segment]
    rows_total: int
    created_ms: int
    format: int = FORMAT_VERSION


@dataclass(frozen=True)
class StoreFloor:
    """The record of the lowest version of a `StateStore` that can still be read."""

    version: int
    created_ms: int
    format: int = FORMAT_VERSION

"""The records of the protocol as dataclasses: init, plan, receipt, commit. Their JSON is `codec`'s.

No I/O and no decisions here. INVARIANT: a record once written is never changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

FORMAT_VERSION = 1
"""Written into every record; a higher one is refused."""

HASH_END = 2**64 - 1
"""The greatest key hash: ranges are inclusive at both ends, so `0..HASH_END` is the whole hash space."""

Kind = Literal["batch", "sweep", "void"]


@dataclass(frozen=True)
class Init:
    """The first entry of `refs/`: what this repository is. Version −1 of the state is what `init` made: `seeds`."""

    pipeline: str
    uuid: str
    created_ms: int
    seeds: dict[str, dict[str, list[Segment]]] = field(default_factory=dict)
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    format: int = FORMAT_VERSION


@dataclass(frozen=True)
class Added:
    """An entry of `refs/` by which `init` was told of further operators, and of ones that are no more.

    What is added begins empty, on purpose; the state of what is removed ends with the next commit.
    """

    schemas: dict[str, dict[str, Any]]
    created_ms: int
    removed: list[str] = field(default_factory=list)
    kind: Literal["operators", "operators-with-state"] = "operators"
    format: int = FORMAT_VERSION


@dataclass(frozen=True)
class Seeded(Added):
    """The same with an initial state. Of another kind: who does not know of seeds must let no operator begin empty."""

    kind: Literal["operators", "operators-with-state"] = "operators-with-state"
    seeds: dict[str, dict[str, list[Segment]]] = field(default_factory=dict)


ENTRIES: dict[str, type[Added]] = {"operators": Added, "operators-with-state": Seeded}
"""What may stand in `refs/` after `init`, by `kind`."""


@dataclass(frozen=True)
class Split:
    """The unit of reading: a file, or the row groups `first..last` (inclusive) of a Parquet file."""

    source: str
    path: str
    etag: str
    size: int
    modified_ms: int
    row_groups: tuple[int, int] | None = None
    first_row: int = 0


@dataclass(frozen=True)
class Plan:
    """The immutable list of input of one batch, and its time. It fixes inputs and time, not code."""

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
    """A sorted run as an object. Visible are only its rows with a key hash in `lo..hi` (inclusive).

    `version` is the newest batch whose changes it holds; of two segments that show one hash, the higher
    version is the newer. Of the rows that it shows and no newer segment hides none has a deadline (and of equal
    deadlines a key hash) below `min_deadline_ms` (and `min_deadline_hash`); None: none of them has a deadline.
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
    """One file of a sink that a commit names. Order of `outputs(version)`: (pass_number, suffix, lo, part)."""

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
    """One file of rows that could not be read, or that were late where the pipeline says quarantine."""

    name: str
    checksum: str
    size: int
    rows: int


@dataclass(frozen=True)
class OperatorMetrics:
    """What one operator did in one task or batch. Rows and keys; times are milliseconds."""

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
    """Keys whose calls raised under `on_error="quarantine"`, with rows or timing out."""
    failure: str = ""
    """Why one of them did, in one line: the least of the reasons. Those with rows are in the quarantine files, too."""

    def plus(self, other: OperatorMetrics) -> OperatorMetrics:
        """The sum, field by field, and the least reason."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "failure"]
        values = {name: getattr(self, name) + getattr(other, name) for name in names}
        return OperatorMetrics(**values, failure=min(filter(None, (self.failure, other.failure)), default=""))


@dataclass(frozen=True)
class Receipt:
    """What an apply task returns for its range of one level: live segments, outputs, counts, next deadlines.

    `splits` maps the number of each split that reached the range to the rows the scatter read from it.
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
    """Rows of the input of one batch: `applied_rows + late_rows + quarantined_rows == input_rows`."""

    input_rows: int = 0
    applied_rows: int = 0
    late_rows: int = 0
    quarantined_rows: int = 0
    input_files: int = 0
    input_bytes: int = 0


@dataclass(frozen=True)
class Commit:
    """The record that makes a batch real. Lists all live segments, so a version needs no other commit to be read."""

    version: int
    kind: Kind
    attempt: str
    plan_id: str
    branch: str
    pipeline_uuid: str
    batch_time_ms: int
    watermarks: dict[str, int]
    """Event time of each watermark, ms: W(N). A missing name is 0, as in Spark."""
    event_time: dict[str, dict[str, int]]
    """Per watermark: `max`, `min` of this batch's event times and `watermark` = W(N−1), ms. For the progress record."""
    state: dict[str, dict[str, list[Segment]]]
    """Operator → map → live segments, sorted by (lo, version)."""
    ledger: list[Segment]
    outputs: dict[str, list[OutputFile]]
    quarantine: list[QuarantineFile]
    counts: Counts
    operators: dict[str, OperatorMetrics]
    schemas: dict[str, dict[str, Any]]
    """Operator → {"kind", "key", "maps": {map: {...}}, "output"}: names and types as DDL."""
    sinks: dict[str, dict[str, Any]]
    code: dict[str, Any]
    """Where the code that ran came from: pipeline reference, function names and digests, tidemill version."""
    next_deadline: dict[str, int]
    """Timer → earliest deadline in the state, ms: `batch`, the batch clock's; `event/<operator>`, by its watermark."""
    published_through: int
    """Every version up to this one had been published when this commit was made; −1: none."""
    committed_ms: int
    durations_ms: dict[str, int] = field(default_factory=dict)
    outstanding_files: int = 0
    outstanding_bytes: int = 0
    oldest_waiting_ms: int | None = None
    airflow: dict[str, str] = field(default_factory=dict)
    engine: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT_VERSION


def digest(data: bytes) -> str:
    """The checksum of records, and of every object that one names: BLAKE2b, 128 bits, hex."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True)
class StoreVersion:
    """What makes a version of a `StateStore`: all its live segments, and the attempt that committed it."""

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
    """The least version of a `StateStore` that may still be read."""

    version: int
    created_ms: int
    format: int = FORMAT_VERSION

"""The records of a branch as dataclasses: plan, receipt, commit, published version; and those of a `StateStore`.

`entries` has the records of `refs/`, `codec` turns records into JSON. No I/O and no decisions here. INVARIANT: a record
is never changed once it is written.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from dataclasses import field
from typing import Any, Literal

from ..counts import listed_names
from ..notebook import NotebookResult
from ..units import iso
from ..values import dataclass
from .bounds import Count, EventMs, Hash, Ms, Number, Positive, SignedCount, Version

FORMAT_VERSION = 1
"""The format version in every record. A reader rejects records with another format."""

HASH_END = 2**64 - 1
"""The greatest key hash. Ranges are inclusive at both ends, so `0..HASH_END` is the whole hash space."""

PlanKind = Literal["batch", "sweep"]
Kind = Literal[
    "batch", "sweep", "void", "skip", "reset", "migrate", "requeue", "rewind", "forget", "compact", "promote",
    "fill",
]  # fmt: skip
"""The kinds of commits. A commit of another kind was written by a newer Tidemill."""

INSIDE = "rewind-into-promotion"
"""A commit of kind `rewind` that has `promoted`: it takes over an earlier version of a branch that was promoted."""
MOVED = "moved-repository"
"""A commit that fences a place that the repository has left. Nobody reads it, and no release has this feature."""
PERSON = "forget-person"
"""A commit of kind `forget` with keys of some columns, `found_by`, instead of whole keys of an operator."""
REWRITE = "forget-rewrite"
"""A commit of kind `forget` that says which objects of earlier versions it has replaced; or `refs/` after it."""
FEATURES: frozenset[str] = frozenset({INSIDE, PERSON, REWRITE})
"""What `requires` of a record may name: features that a reader must have to read the record correctly."""


@dataclass(frozen=True)
class Parent:
    """The record on which a plan or commit is based: a commit, or for version -1 the init record.

    `branch` is empty for the init record. `checksum` is that of the parent's record.
    """

    branch: str
    version: Version
    checksum: str


@dataclass(frozen=True)
class Requeued:
    """An object of the repository with quarantined rows of `version` that are read again, and where they go.

    `operators` are those that have not taken the rows, `watermark` the one for which their event times were too far
    ahead. Without either, the rows are for the whole pipeline. With `given`, operators had emitted the rows. They
    have the columns of that input of an operator, and reach it without the steps of a source.
    `without` are numbers of rows in the object that do not come back, because a replay did not quarantine them.
    """

    name: str
    checksum: str
    rows: Count
    version: Number
    operators: tuple[str, ...] = ()
    watermark: str = ""
    given: str = ""
    without: tuple[Count, ...] = ()


@dataclass(frozen=True)
class Split:
    """The unit of reading: a file, or the row groups `row_groups` (first and last, inclusive) of a Parquet file.

    With `requeued`, it is an object of the repository instead, and `path` is one that no file of a folder can have.
    """

    source: str
    path: str
    etag: str
    size: Count
    modified_ms: EventMs
    row_groups: tuple[Count, Count] | None = None
    first_row: Count = 0
    requeued: Requeued | None = None


@dataclass(frozen=True)
class Plan:
    """The immutable input and batch time of one batch. A plan fixes inputs and time, not code."""

    number: Number
    kind: PlanKind
    plan_id: str
    branch: str
    pipeline_uuid: str
    parent: Parent
    batch_time_ms: Ms
    splits: tuple[Split, ...]
    block_rows: Positive
    created_ms: Ms
    outstanding_files: Count = 0
    outstanding_bytes: Count = 0
    oldest_waiting_ms: EventMs | None = None
    requires: list[str] = field(default_factory=list)
    replays: VersionOf | None = None
    """The version whose plan this is, on another branch."""
    positions: dict[str, str] = field(default_factory=dict)
    """The positions of sources once the plan was carried out, of those that it reads and no ledger remembers."""
    format: int = FORMAT_VERSION
    checksum: str = field(default="", compare=False)
    """The checksum of the record, known once it was read or written."""


@dataclass(frozen=True)
class Segment:
    """A sorted run stored as an object. It shows only its rows with a key hash in `lo..hi` (inclusive).

    Of two segments that show the same hash, the one with the higher `sequence` is newer. `version` is the newest batch
    whose changes it holds, for people. `min_deadline_ms` is a lower bound of the deadlines of its live rows, those that
    it shows and no newer segment hides. Among rows with that deadline, `min_deadline_hash` is a lower bound of the key
    hash. None: no live row has a deadline. `etag` is empty if the store has none.
    """

    name: str
    checksum: str
    size: Count
    rows: Count
    lo: Hash
    hi: Hash
    sequence: Count
    version: Version
    min_deadline_ms: EventMs | None = None
    min_deadline_hash: Hash = 0
    etag: str = ""


@dataclass(frozen=True)
class OutputFile:
    """A file of a sink that a commit names. `outputs(version)` sorts files by (pass_number, suffix, lo, part)."""

    name: str
    checksum: str
    size: Count
    rows: Count
    pass_number: Count
    lo: Hash
    part: Count
    suffix: str = ""
    extension: str = ".parquet"
    etag: str = ""


@dataclass(frozen=True)
class QuarantineFile:
    """A file of quarantined rows: rows that could not be read, rows of failed keys, and late rows if so declared."""

    name: str
    checksum: str
    size: Count
    rows: Count


@dataclass(frozen=True)
class OperatorMetrics:
    """What one operator did in one task or batch: numbers of rows and keys, and times in ms."""

    rows: Count = 0
    rows_updated: Count = 0
    rows_removed: Count = 0
    rows_total: SignedCount = 0
    """Live rows of the first map; in a receipt, by how many they changed."""
    timed_out: Count = 0
    late_rows: Count = 0
    state_bytes: Count = 0
    apply_ms: Count = 0
    commit_ms: Count = 0
    failed: Count = 0
    """Keys whose function calls raised under `on_error="quarantine"`, for data or for a timeout."""
    kept_late_rows: Count = 0
    """Late rows that the function was given, with `late="keep"`."""
    failure: str = ""
    """The reason of one failed key, in one line: the first in sort order. Quarantine files have the reason per row."""
    late_inputs: dict[str, Count] = field(default_factory=dict)
    """Late rows by input, if the operator has several."""
    reached_rows: Count = 0
    """Rows that reached the operator, from files or other operators. 0 in records that do not have it."""
    failed_rows: Count = 0
    """Rows of keys whose calls raised under `on_error="quarantine"`, and rows too far ahead of the batch time."""
    behind: list[str] = field(default_factory=list)
    """The operators whose rows it is given."""
    late_behind: Count = 0
    """Late rows that these operators emitted. The counts of the batch do not have them."""
    failed_behind: Count = 0
    """The same of rows that failed or were too far ahead."""

    @property
    def applied_rows(self) -> int:
        """Rows that the operator applied; a duplicate that it drops is applied, too."""
        return max(self.reached_rows - self.late_rows - self.failed_rows, 0)

    @property
    def quarantined_rows(self) -> int:
        """Rows that failed in the operator, or were too far ahead for it. They are in quarantine."""
        return self.failed_rows

    @property
    def has_counts(self) -> bool:
        """Whether the record says what reached the operator. Those of earlier releases do not."""
        return self.reached_rows > 0 or not (self.rows or self.late_rows)

    def plus(self, other: OperatorMetrics) -> OperatorMetrics:
        """Return the sum of both, field by field. `failure` is the one that sorts first."""
        names = [one.name for one in dataclasses.fields(self) if one.type in ("Count", "SignedCount")]
        values = {name: getattr(self, name) + getattr(other, name) for name in names}
        return OperatorMetrics(
            **values,
            failure=min(filter(None, (self.failure, other.failure)), default=""),
            late_inputs=dict(Counter(self.late_inputs) + Counter(other.late_inputs)),
            behind=self.behind or other.behind,
        )


@dataclass(frozen=True)
class Furthest:
    """The row with the greatest event time of a batch, for messages.

    Of what an operator emitted, `file` and `row` are those of the row for which it was emitted, or None if that is not
    known.
    """

    time_ms: EventMs
    file: str | None = None
    row: Count | None = None


@dataclass(frozen=True)
class LateRow:
    """A late row, for messages: its event time, and the watermark that it was compared with.

    `operator` is the label of the input: `pairs.right` if the operator has several.
    Of what an operator emitted, `file` and `row` are those of the row for which it was emitted, or None if that is not
    known. `row` is also None if a step does not keep the numbers of rows.
    """

    operator: str
    watermark_ms: EventMs
    time_ms: EventMs | None = None
    file: str | None = None
    row: Count | None = None


@dataclass(frozen=True)
class Receipt:
    """What an apply task returns for its key range of one level: live segments, outputs, counts, next deadlines.

    `splits` maps the number of each split whose header reached the range to the rows that scatter read from it.
    `rows` says by how many live rows each map of the range changed. `fingerprints` are those of files, by the number of
    their first split; only the first range of level 0 has them.
    """

    level: Count
    lo: Hash
    hi: Hash
    splits: dict[str, Count]
    state: dict[str, dict[str, list[Segment]]]
    rows: dict[str, dict[str, SignedCount]]
    outputs: dict[str, list[OutputFile]]
    quarantine: list[QuarantineFile]
    operators: dict[str, OperatorMetrics]
    watermarks: dict[str, EventMs]
    next_deadline: dict[str, EventMs]
    late_rows: Count = 0
    quarantined_rows: Count = 0
    event_time: dict[str, dict[str, EventMs]] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    bad_files: dict[str, Count] = field(default_factory=dict)
    """Rows of files that go to quarantine as a whole, by the number of their first split."""
    furthest: dict[str, Furthest] = field(default_factory=dict)
    kept_late_rows: Count = 0
    late_examples: list[LateRow] = field(default_factory=list)
    peak_memory_bytes: Count = 0
    format: int = FORMAT_VERSION


@dataclass(frozen=True)
class Counts:
    """Input of one batch. INVARIANT: `applied_rows + late_rows + quarantined_rows == input_rows`."""

    input_rows: Count = 0
    applied_rows: Count = 0
    late_rows: Count = 0
    quarantined_rows: Count = 0
    input_files: Count = 0
    input_bytes: Count = 0
    kept_late_rows: Count = 0
    """Applied rows that were late for an operator with `late="keep"`, and not late for any other."""
    quarantined_files: Count = 0
    """Files that went to quarantine as a whole. Their rows are in `quarantined_rows` as far as they can be counted."""


@dataclass(frozen=True, order=True)
class VersionOf:
    """A version of a branch, by the branch's id."""

    branch: str
    version: Number


@dataclass(frozen=True)
class AddedOutput:
    """The output files of a version of another branch, or of an earlier version, that a commit publishes."""

    branch: str
    version: Number
    files: list[OutputFile]


@dataclass(frozen=True)
class Shown:
    """Versions `first..last` (inclusive) whose published files are those of the record of version `by`.

    With `sink`, only there; such an entry takes precedence over one for all sinks.
    """

    first: Number
    last: Number
    by: Number
    sink: str = ""


@dataclass(frozen=True)
class SkippedFile:
    """A file that a `skip` or `rewind` commit took out of the input."""

    source: str
    path: str
    etag: str
    size: Count


@dataclass(frozen=True, order=True)
class SinkRead:
    """A sink of another pipeline under the root, from which a source reads files.

    `uuid` is the beginning of the uuid of its repository, as in the names of the files. What versions of that
    repository up to `through` have withdrawn was looked for among the files that were read.
    """

    source: str
    pipeline: str
    sink: str
    uuid: str
    through: Version


@dataclass(frozen=True)
class Forgotten:
    """Keys of an operator that version `version` forgot, as salted hashes, so that their absence can be verified.

    A hash is BLAKE2b, 128 bits, of the salt and the key's 64-bit hash (8 bytes, little-endian). The columns of the key
    are in that version's `schemas`. `columns` says which columns of sinks hold the key. `drop_refs`: tags and branches
    that hold earlier versions are removed.

    With `found_by`, DDL, the hashes are those of these columns alone, whatever else the key of the operator has. Such
    an entry without an operator is about the sinks in `columns`. `left` are operators, sinks and folders that were not
    searched, as the caller agreed. `again` are earlier versions whose keys of the same operator are all among these.
    """

    version: Number
    operator: str
    salt: str
    hashes: list[str]
    columns: dict[str, list[str]] = field(default_factory=dict)
    drop_refs: bool = False
    found_by: str = ""
    left: list[str] = field(default_factory=list)
    again: list[Number] = field(default_factory=list)


@dataclass(frozen=True)
class ReplacedObject:
    """An object that earlier versions name as `old`, and the one in its place. `name` is empty if no row is left.

    Segments and output files have `rows`. Of requeued rows, `without` are the numbers of those that are gone.
    """

    old: str
    name: str = ""
    checksum: str = ""
    size: Count = 0
    rows: Count = 0
    etag: str = ""
    without: tuple[Count, ...] = ()


@dataclass(frozen=True)
class RemovedRows:
    """How many live rows of a map a version of `main` has fewer than its record says."""

    version: Number
    operator: str
    map: str
    rows: Count


@dataclass(frozen=True)
class Renamed:
    """An operator that `refs/` knows as `old`, and that migrations gave the name `new`."""

    old: str
    new: str


@dataclass(frozen=True)
class Commit(NotebookResult):
    """The record that makes a batch real.

    INVARIANT: a commit lists all live segments of its version, so reading a version needs no other commit.
    """

    version: Number
    kind: Kind
    attempt: str
    plan_id: str
    """The plan whose number the commit takes; empty if there is none, as for a correction without an open plan."""
    branch: str
    pipeline_uuid: str
    parent: Parent
    refs_through: Number
    """The newest entry of `refs/` that the commit takes into account."""
    refs_checksum: str
    """The checksum of that entry."""
    batch_time_ms: Ms
    watermarks: dict[str, EventMs]
    """W(N) of each watermark, in ms of event time. A missing watermark is 0, as in Spark."""
    event_time: dict[str, dict[str, EventMs]]
    """For progress, by watermark: `max` and `min` event time of this batch, and `watermark`, which is W(N-1), in ms."""
    state: dict[str, dict[str, list[Segment]]]
    """Live segments by operator and map, sorted by (lo, sequence)."""
    rows: dict[str, dict[str, Count]]
    """Live rows by operator and map; those of the ledger are under `_ledger`. A full read must find as many."""
    ledger: list[Segment]
    outputs: dict[str, list[OutputFile]]
    quarantine: list[QuarantineFile]
    counts: Counts
    operators: dict[str, OperatorMetrics]
    schemas: dict[str, dict[str, Any]]
    """Description of each operator, as `{"kind", "key", "maps": {map: {…}}, "output"}`, with columns as DDL."""
    sinks: dict[str, dict[str, Any]]
    sources: dict[str, dict[str, Any]]
    """Description of each source: `uri` is its folder, or None if it has none."""
    code: dict[str, Any]
    """The code that ran: pipeline reference, names and digests of functions, version of Tidemill."""
    next_deadline: dict[str, EventMs]
    """Earliest deadline in the state by timer, in ms. `batch` follows batch time; `event/<operator>` its watermark."""
    published_through: Version
    """All versions up to this one had been published when this commit was made; -1 if none was."""
    committed_ms: Ms
    reason: str | None = None
    """Why a correction was made; None for batches and sweeps."""
    withdraws: dict[str, list[VersionOf]] = field(default_factory=dict)
    """By sink: versions whose published files this commit withdraws."""
    adds: dict[str, list[AddedOutput]] = field(default_factory=dict)
    """By sink: outputs of other versions that this commit publishes."""
    skipped: list[SkippedFile] = field(default_factory=list)
    renamed: list[Renamed] = field(default_factory=list)
    """The operators that have another name than in `refs/`, by their present names."""
    state_changes: dict[str, list[str]] = field(default_factory=dict)
    """By operator, in words: how the columns of its state differ from those of the version before."""
    requeued: list[Split] = field(default_factory=list)
    """What a `requeue` commit adds to `waiting`."""
    released: list[SkippedFile] = field(default_factory=list)
    """Files in quarantine as a whole that a `requeue` commit lets be read again, as they were when they went there."""
    waiting: list[Split] = field(default_factory=list)
    """Requeued rows that no batch has read up to this version."""
    restores: Parent | None = None
    """The version whose state a `rewind` takes."""
    replaced: list[tuple[Number, Number]] = field(default_factory=list)
    """Versions that are not in the effective history of this one, as ranges (first, last), inclusive and sorted."""
    shown_by: list[Shown] = field(default_factory=list)
    """Versions of the effective history that were published again, by a later version."""
    forgotten: list[Forgotten] = field(default_factory=list)
    """The keys that this version forgot. In commits of earlier releases: all keys forgotten up to this version."""
    forgotten_at: Number | None = None
    """The last `forget` before this version. None: there is none, or `forgotten` has the keys of all of them."""
    replaced_objects: list[ReplacedObject] = field(default_factory=list)
    """Of a `forget` that keeps earlier versions: the objects that these name and that it has replaced."""
    removed_rows: list[RemovedRows] = field(default_factory=list)
    """Of such a `forget`: the live rows that these versions lack since."""
    rewrote_at: Number | None = None
    """The last such `forget` before this version."""
    replays: VersionOf | None = None
    """The version of another branch that this one repeats, with other code perhaps."""
    computed: list[str] = field(default_factory=list)
    """With `replays`: the operators that were computed, while the others are as recorded. Empty: all were."""
    promoted: Parent | None = None
    """The version of another branch whose state a promotion takes over."""
    promotions: list[Number] = field(default_factory=list)
    """The promotions up to this version. Their rows have the numbers of the versions of the branch."""
    furthest: dict[str, Furthest] = field(default_factory=dict)
    """By watermark: the row with the greatest event time of the batch, if that is after the batch time."""
    late_examples: list[LateRow] = field(default_factory=list)
    """A few of the late rows, whatever becomes of them."""
    durations_ms: dict[str, Count] = field(default_factory=dict)
    peak_memory_bytes: Count = 0
    """The greatest amount of private memory of a task's process; mapped files do not count. 0 if that is unknown."""
    outstanding_files: Count = 0
    outstanding_bytes: Count = 0
    oldest_waiting_ms: EventMs | None = None
    positions: dict[str, str] = field(default_factory=dict)
    """How far sources were read that no ledger remembers, each by a text that only the source understands."""
    sinks_read: list[SinkRead] = field(default_factory=list)
    """The sinks of other pipelines under the root from which the sources read files."""
    airflow: dict[str, str] = field(default_factory=dict)
    engine: dict[str, str] = field(default_factory=dict)
    asked: str = ""
    """Of a correction that an Airflow task made: a digest of what was asked for, so that a retry finds it."""
    requires: list[str] = field(default_factory=list)
    format: int = FORMAT_VERSION
    checksum: str = field(default="", compare=False)
    """The checksum of the record, known once it was read or written."""

    def in_notebook(self) -> dict[str, Any]:
        """Return version, kind, counts and reason, and what was lost behind operators, if anything was."""
        counts, lost = self.counts, self.lost_behind
        shown = {
            "version": self.version, "kind": self.kind, "batch time": iso(self.batch_time_ms),
            "rows": counts.input_rows, "files": counts.input_files, "late": counts.late_rows,
            "quarantined": counts.quarantined_rows, "reason": self.reason,
        }  # fmt: skip
        return shown | ({"lost behind": lost} if lost else {})

    def __repr__(self) -> str:
        """Return what a notebook shows, because all segments and files would fill pages."""
        return self._as_text()

    @property
    def lost_behind(self) -> list[str]:
        """Which rows were late for, or failed in, operators behind others, in words. Counts of input rows lack them."""
        found = []
        for name, metrics in sorted(self.operators.items()):
            counts = [(metrics.late_behind, "late for"), (metrics.failed_behind, "quarantined by")]
            words = [f"{rows:,} {what}" for rows, what in counts if rows]
            if words:
                found.append(f"{' and '.join(words)} `{name}`, behind {listed_names(metrics.behind)}")
        return found

    @property
    def as_parent(self) -> Parent:
        """What a plan or commit that follows this one records as its parent."""
        return Parent(self.branch, self.version, self.checksum)


@dataclass(frozen=True)
class PublishedFile:
    """A file in a sink's place. `name` is relative to it; `etag` is empty if the place has none."""

    name: str
    checksum: str
    size: Count
    rows: Count
    etag: str = ""


@dataclass(frozen=True)
class Published:
    """The files of one version that a sink shows. The record is written after publishing, and only if there were files.

    `kind`, `path` and `uri` describe the sink's place, `commit_checksum` is that of the commit's record. `withdrawn`
    names files of earlier versions that the commit withdrew.
    """

    branch: str
    version: Number
    sink: str
    pipeline_uuid: str
    commit_checksum: str
    kind: str
    path: str
    uri: str
    files: list[PublishedFile]
    published_ms: Ms
    withdrawn: list[str] = field(default_factory=list)
    position: str = ""
    """What the place itself calls the change, such as the version of a table; empty for a folder."""
    requires: list[str] = field(default_factory=list)
    format: int = FORMAT_VERSION
    checksum: str = field(default="", compare=False)


def digest(data: bytes) -> str:
    """Return the checksum that records have and give for the objects they name: BLAKE2b, 128 bits, in hex."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True)
class StoreVersion:
    """The record that makes a version of a `StateStore`: all its live segments, and the attempt that committed it."""

    version: Number
    attempt: str
    key: str
    state: str
    segments: list[Segment]
    rows_total: Count
    created_ms: Ms
    format: int = FORMAT_VERSION
    checksum: str = field(default="", compare=False)


@dataclass(frozen=True)
class StoreFloor:
    """The record of the lowest version of a `StateStore` that can still be read. Of all floors the newest counts."""

    number: Number
    version: Number
    created_ms: Ms
    format: int = FORMAT_VERSION
    checksum: str = field(default="", compare=False)

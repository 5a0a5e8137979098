"""The ledger after a batch: the files of its plan are recorded as read, in a segment of the ledger's own map.

CRASH: the segment counts once the commit names it, so a file is recorded as read exactly if its batch is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from .. import _native, names
from ..batch.batch import Batch
from ..protocol.records import HASH_END, Commit, Segment, SkippedFile, Split
from ..sources.asked import fingerprint, intake_of, look_at_source
from ..sources.contract import SourceFile
from ..sources.ledger import (
    LEDGER_SCHEMA,
    look_up_files,
    record,
    record_earlier,
    record_requeued,
    record_skipped,
    record_touched,
    release,
)
from ..state.versions import OpenedMap, open_map, persist
from ..values import dataclass
from .opened import Opened


def store_ledger(
    repo: Opened,
    head: Commit | None,
    batch: Batch,
    fingerprints: Mapping[str, str],
    bad_files: Collection[str] = (),
) -> tuple[list[Segment], int]:
    """Store the ledger with the files of the batch; return its live segments and rows. A sweep leaves it as it was."""
    before = repo.ledger(head)
    known = rows_before(repo, head)
    if not batch.plan.splits:
        return before.segments, known
    after = before.map.copy()
    record_touched(after, list(repo.session.touched.values()), batch.plan.batch_time_ms)
    record(after, batch.plan, fingerprints, bad_files)
    stem = names.stem(batch.plan.number, batch.attempt, 0, names.BY_BATCH)
    segments = _persist(repo, before, after, batch.plan.number, stem)
    return segments, known + after.live_change()


def rows_before(repo: Opened, head: Commit | None) -> int:
    """Return how many files the ledger of a version has."""
    if head is None or names.LEDGER not in head.rows:
        return sum(segment.rows for segment in repo.initialised().ledger)
    return head.rows[names.LEDGER]["files"]


def store_earlier(repo: Opened, stem: str) -> list[Segment]:
    """Store a ledger with the files that sources with `start="latest"` have now; return its segments.

    CRASH: the segment counts once the init record names it.
    """
    options = dict(repo.storage_options.get("source") or {})
    empty = open_map(repo.store, repo.cache, LEDGER_SCHEMA, [], 0, HASH_END)
    after = empty.map.copy()
    for name, source in repo.job.sources.items():
        if intake_of(source).start == "latest":
            record_earlier(after, look_at_source(source, name, None, options))
    return _persist(repo, empty, after, -1, stem)


@dataclass(frozen=True)
class _Stored:
    """A ledger that was stored: its live segments, and how many files it has."""

    segments: list[Segment]
    rows: int


def store_skipped(
    repo: Opened, head: Commit | None, files: Sequence[SourceFile], version: int, attempt: str
) -> _Stored:
    """Store the ledger of `head` with files that a correction takes out of the input at `version`.

    A file that is gone has no fingerprint.
    """
    before = repo.ledger(head)
    after = before.map.copy()
    options = dict(repo.storage_options.get("source") or {})
    time_ms = 0 if head is None else head.batch_time_ms
    for file in files:
        known_bytes = fingerprint(repo.job.sources[file.source], file, options)
        record_skipped(after, file, known_bytes, version, time_ms)
    segments = _persist(repo, before, after, version, names.stem(version, attempt, 0, names.BY_SKIP))
    return _Stored(segments, rows_before(repo, head) + after.live_change())


def store_left_out(repo: Opened, made: Commit, files: Sequence[SourceFile], recorded: _native.StateMap) -> _Stored:
    """Store the ledger of `made`, which is not committed yet, with files that its batch leaves out: they are gone.

    `recorded` is a ledger that knows them as they were.
    """
    before = repo.ledger(made)
    after = before.map.copy()
    for file, known in zip(files, look_up_files(recorded, files), strict=True):
        fingerprint = None if known is None else known.fingerprint
        record_skipped(after, file, fingerprint, made.version, made.batch_time_ms)
    stem = names.stem(made.version, made.attempt, 0, names.BY_SKIP)
    return _Stored(
        _persist(repo, before, after, made.version, stem), made.rows[names.LEDGER]["files"] + after.live_change()
    )


def store_requeued(
    repo: Opened,
    head: Commit | None,
    splits: Sequence[Split],
    files: Sequence[SkippedFile],
    version: int,
    attempt: str,
) -> _Stored:
    """Store the ledger with rows that `version` requeues, and without `files` that it has in quarantine as a whole."""
    before = repo.ledger(head)
    after = before.map.copy()
    record_requeued(after, splits, version, 0 if head is None else head.batch_time_ms)
    release(after, [SourceFile.skipped(one) for one in files])
    segments = _persist(repo, before, after, version, names.stem(version, attempt, 0, names.BY_REQUEUE))
    return _Stored(segments, rows_before(repo, head) + after.live_change())


def _persist(repo: Opened, before: OpenedMap, after: _native.StateMap, version: int, stem: str) -> list[Segment]:
    name = names.segment(names.LEDGER, "files", repo.branch, stem)
    return persist(repo.store, repo.cache, before, after, version, name)

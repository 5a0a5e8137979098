"""What a run or sweep changed, for machines: by sink the versions and rows, and where the head now stands.

INVARIANT: all of it comes from commit records, so a later run can report what an earlier one left unpublished.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..units import iso

if TYPE_CHECKING:
    from ..protocol.records import Commit
    from ..repository import Repository
    from ..run.drain import Drained


def figures(repository: Repository, done: Drained, earlier: Iterable[int]) -> dict[str, Any]:
    """Return the pipeline's name, its branch and graph, what changed in each sink, and times of the head.

    `earlier` are the versions that earlier tries of the same task committed. `sinks` has the sinks that got rows, or
    whose published rows changed, in these versions, those of this run and those that it published.
    """
    from ..reading.explain import explain
    from ..repo.identity import folders

    repo, head = repository.opened, repository.head
    idle = [rule.idle_ms for rule in repo.job.watermarks.values() if rule.idle_ms is not None]
    return {
        "pipeline": repo.job.pipeline,
        "repository": repo.place,
        "branch": repo.branch,
        "sources": folders(repo, head),
        **_rows(done),
        **_standing(head),
        "sinks": _sinks(repository, {*done.already, *done.published, *earlier}, done),
        "watermarks": {} if head is None else {name: iso(time) for name, time in head.watermarks.items()},
        "next_deadline": {} if head is None else {timer: iso(time) for timer, time in head.next_deadline.items()},
        "idle_ms": min(idle, default=None),
        "graph": explain(repo, None, None, False),
    }


def _rows(done: Drained) -> dict[str, Any]:
    """Return how many rows this run read, and how long its batches took."""
    return {
        "files": sum(one.input_files for one in done.progress),
        "bytes": sum(one.input_bytes for one in done.progress),
        "rows": sum(one.numInputRows for one in done.progress),
        "late_rows": sum(one.late_rows for one in done.progress),
        "quarantined_rows": sum(one.quarantined_rows for one in done.progress),
        "quarantined_files": sum(one.quarantined_files for one in done.progress),
        "batches_ms": sum(one.batchDuration for one in done.progress),
    }


def _standing(head: Commit | None) -> dict[str, Any]:
    """Return what the head says of the input that waited when its batch was planned, and of the state."""
    if head is None:
        return {}
    waited = head.oldest_waiting_ms
    return {
        "committed": iso(head.committed_ms),
        "batch_time": iso(head.batch_time_ms),
        "files_waiting": head.outstanding_files,
        "bytes_waiting": head.outstanding_bytes,
        "oldest_waiting_seconds": None if waited is None else max(head.batch_time_ms - waited, 0) / 1000,
        "state_rows": sum(one.rows_total for one in head.operators.values()),
        "state_bytes": sum(one.state_bytes for one in head.operators.values()),
    }


def _sinks(repository: Repository, others: set[int], done: Drained) -> dict[str, dict[str, Any]]:
    """Return by sink the first and last version that changed it, the number of rows, and the sink's path."""
    changes: dict[int, Mapping[str, int | None]] = {one.version: one.outputs for one in done.progress}
    for version in others - changes.keys():
        changes[version] = _changes(repository.commit(version))
    head = repository.head
    paths = {} if head is None else {name: one.get("path") or None for name, one in head.sinks.items()}
    found: dict[str, dict[str, Any]] = {}
    for version, rows_by_sink in sorted(changes.items()):
        for sink, rows in rows_by_sink.items():
            if rows is None or rows > 0:
                one = found.setdefault(sink, {"first_version": version, "rows": 0, "path": paths.get(sink)})
                one |= {"last_version": version, "rows": one["rows"] + (rows or 0)}
    return found


def _changes(commit: Commit) -> dict[str, int | None]:
    """Return the number of rows that a commit has for each sink; None where it only withdraws rows."""
    found: dict[str, int | None] = dict.fromkeys(commit.withdraws)
    added = {sink: [file for one in outputs for file in one.files] for sink, outputs in commit.adds.items()}
    for files_by_sink in (commit.outputs, added):
        for sink, files in files_by_sink.items():
            found[sink] = (found.get(sink) or 0) + sum(file.rows for file in files)
    return found

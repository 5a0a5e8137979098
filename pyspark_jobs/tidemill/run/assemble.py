"""The commit record of a batch, assembled from its receipts. Values only: nothing is read or stored here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ..batch.batch import Batch
from ..batch.lateness import first_late
from ..clock import now_ms
from ..names import LEDGER
from ..operators.contract import describe
from ..pipeline.job import Job
from ..protocol import decide
from ..protocol.compatible import accepted_changes
from ..protocol.kinds import Changes
from ..protocol.records import (
    Commit,
    Counts,
    Furthest,
    OperatorMetrics,
    OutputFile,
    Plan,
    Receipt,
    Segment,
    SinkRead,
    Split,
)
from ..protocol.successor import successor
from ..publishing.owners import NOT_SHARED, Shared, described
from ..repo.code import this_code
from ..repo.identity import folders_read
from ..repo.opened import Opened, airflow
from ..values import dataclass


@dataclass(frozen=True)
class Publishing:
    """What a run knows of sinks: the last version up to which all are published, and which places it shares.

    `sinks_read` are those of other pipelines that its sources read.
    """

    through: int
    shared: Shared = NOT_SHARED
    sinks_read: Sequence[SinkRead] = ()


@dataclass(frozen=True)
class Executed:
    """A batch that an engine has run, with its checked receipts."""

    batch: Batch
    receipts: list[Receipt]
    engine: str
    publishing: Publishing


def assemble(repo: Opened, head: Commit | None, executed: Executed) -> Commit:
    """Return the commit record of a batch, with an empty ledger and no durations."""
    batch, receipts = executed.batch, executed.receipts
    plan, job = batch.plan, repo.job
    last = receipts[-1]  # of the last level, which knows all watermarks
    state, outputs = decide.merge_state(receipts), _outputs(receipts)
    schemas = {name: describe(placed.operator) for name, placed in job.operators.items()}
    before = {} if head is None else {name: head.schemas[name] for name in head.state if name in head.schemas}
    changes: Changes = {
        "attempt": batch.attempt,
        "plan_id": plan.plan_id,
        "replays": plan.replays,
        "batch_time_ms": plan.batch_time_ms,
        "watermarks": last.watermarks,
        "event_time": {
            name: {**seen, "watermark": batch.watermarks.get(name, 0), "active": _active(batch, name, seen)}
            for name in job.watermarks
            for seen in [last.event_time.get(name, {})]
        },
        "furthest": _furthest(receipts),
        "late_examples": first_late([row for receipt in receipts for row in receipt.late_examples]),
        "state": state,
        "rows": _live_rows(repo.job, head, batch, receipts),
        "outputs": outputs,
        "quarantine": [file for receipt in receipts for file in receipt.quarantine],
        "counts": _counts(plan, receipts),
        "operators": _metrics(receipts, state, _rows_before(head, batch)),
        "schemas": schemas,
        "state_changes": accepted_changes(before, schemas),
        "renamed": [] if head is None else [one for one in head.renamed if one.new in schemas],
        "sinks": {
            name: described(repo, head, output, executed.publishing.shared) for name, output in job.outputs.items()
        },
        "sources": folders_read(repo, head),
        "positions": {**({} if head is None else head.positions), **plan.positions},
        "sinks_read": list(executed.publishing.sinks_read),
        "code": this_code(repo),
        "next_deadline": _deadlines(receipts),
        "published_through": executed.publishing.through,
        "committed_ms": now_ms(),
        "peak_memory_bytes": max(receipt.peak_memory_bytes for receipt in receipts),
        "outstanding_files": plan.outstanding_files,
        "outstanding_bytes": plan.outstanding_bytes,
        "oldest_waiting_ms": plan.oldest_waiting_ms,
        "airflow": airflow(),
        "engine": {"name": executed.engine, "tasks": str(batch.tasks)},
        "waiting": _still_waiting(head, plan),
    }
    return successor(repo.origin(head), plan.kind, changes)


def _live_rows(job: Job, head: Commit | None, batch: Batch, receipts: list[Receipt]) -> dict[str, dict[str, int]]:
    """Return the live rows of each map after the batch; those of the ledger stay as they are."""
    before = head.rows if head is not None else {}
    found = {name: dict(maps) for name, maps in before.items() if name in job.operators or name == LEDGER}
    for name in batch.begins:
        found[name] = {one: sum(segment.rows for segment in of_map) for one, of_map in batch.state[name].items()}
    for receipt in receipts:
        for name, maps in receipt.rows.items():
            known = found.setdefault(name, {})
            for one, change in maps.items():
                known[one] = known.get(one, 0) + change
    return found


def active_ms(head: Commit | None) -> dict[str, int]:
    """Return the batch time of the last batch with event times, by watermark."""
    seen = head.event_time if head is not None else {}
    return {name: times["active"] for name, times in seen.items() if "active" in times}


def _active(batch: Batch, name: str, seen: Mapping[str, int]) -> int:
    now_ms = batch.plan.batch_time_ms
    return now_ms if seen else batch.active.get(name, now_ms)


def _outputs(receipts: list[Receipt]) -> dict[str, list[OutputFile]]:
    found: dict[str, list[OutputFile]] = {}
    for receipt in receipts:
        for name, files in receipt.outputs.items():
            found.setdefault(name, []).extend(files)
    return {
        name: sorted(files, key=lambda f: (f.pass_number, f.suffix, f.lo, f.part))
        for name, files in sorted(found.items())
    }


def _counts(plan: Plan, receipts: list[Receipt]) -> Counts:
    """Return the counts of input rows. Functions of later levels may fail on them, too."""
    rows = sum(receipts[0].splits.values())
    late = sum(receipt.late_rows for receipt in receipts)
    # A row that the functions of two operators fail on is quarantined twice, and ranges do not know of each other.
    quarantined = min(sum(receipt.quarantined_rows for receipt in receipts), rows - late)
    files = {(split.source, split.path): split.size for split in plan.splits}
    kept = min(sum(receipt.kept_late_rows for receipt in receipts), rows - late - quarantined)
    bad = len(receipts[0].bad_files)
    return Counts(rows, rows - late - quarantined, late, quarantined, len(files), sum(files.values()), kept, bad)


def _still_waiting(head: Commit | None, plan: Plan) -> list[Split]:
    """Return the requeued rows that this batch does not read."""
    read = {split.path for split in plan.splits}
    return [] if head is None else [split for split in head.waiting if split.path not in read]


def _rows_before(head: Commit | None, batch: Batch) -> dict[str, int]:
    """Return the live rows of each operator before the batch. An operator in its first batch has its initial state."""
    known = head.operators if head is not None else {}
    totals = {
        name: known[name].rows_total for name, maps in batch.state.items() if name in known and any(maps.values())
    }
    seeded = {name: next(iter(batch.state[name].values())) for name in batch.begins if name in batch.state}
    return totals | {name: sum(segment.rows for segment in segments) for name, segments in seeded.items()}


def _metrics(
    receipts: list[Receipt], state: Mapping[str, Mapping[str, list[Segment]]], rows_before: Mapping[str, int]
) -> dict[str, OperatorMetrics]:
    """Return the sums over all ranges. Receipts count by how many rows the state has grown.

    A segment that several ranges share counts once in `state_bytes`.
    """
    found: dict[str, OperatorMetrics] = {}
    for receipt in receipts:
        for name, metrics in receipt.operators.items():
            found[name] = found[name].plus(metrics) if name in found else metrics
    for name, metrics in found.items():
        sizes = {segment.name: segment.size for segments in state[name].values() for segment in segments}
        total = rows_before.get(name, 0) + metrics.rows_total
        found[name] = dataclasses.replace(metrics, rows_total=total, state_bytes=sum(sizes.values()))
    return found


def _furthest(receipts: list[Receipt]) -> dict[str, Furthest]:
    """Return the row with the greatest event time after the batch time, by watermark."""
    found: dict[str, Furthest] = {}
    for receipt in receipts:
        for name, row in receipt.furthest.items():
            if name not in found or row.time_ms > found[name].time_ms:
                found[name] = row
    return found


def _deadlines(receipts: list[Receipt]) -> dict[str, int]:
    found: dict[str, int] = {}
    for receipt in receipts:
        for clock, deadline in receipt.next_deadline.items():
            found[clock] = min(deadline, found.get(clock, deadline))
    return found

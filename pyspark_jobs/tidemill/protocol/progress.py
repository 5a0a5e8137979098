"""`BatchProgress`: what one committed batch did, as Spark's `StreamingQueryProgress` with more fields.

INVARIANT: progress is a pure function of the commit record, so any past batch can be reported again.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import field
from typing import Any

from ..notebook import NotebookResult
from ..units import iso
from ..values import dataclass
from .records import Commit


@dataclass(frozen=True)
class BatchProgress(NotebookResult):
    """What one committed batch did. Names in camelCase have Spark's meaning; the others are Tidemill's.

    `applied_rows`, `late_rows` and `quarantined_rows` add up to `numInputRows`. A row that is late for any operator
    counts as late, once. `quarantined_files` is the number of files that went to quarantine as a whole; their rows are
    in `quarantined_rows` as far as they can be counted. `version` is the version that the batch made, and `kind` the
    kind of its commit. `batchDuration` and `durationMs` are ms. `numFilesOutstanding` is the number of files that still
    waited when the batch was planned, and `oldestWaitingSeconds` the age of the oldest of them at batch time; None if
    none waited. `watermarkLagSeconds` is how far the least watermark is behind the batch time; None without a
    watermark. `outputs` maps each sink to its number of rows. `stateChanges` says by operator, in words, how the
    columns of its state changed because the code changed. `engine` is the one that ran the batch: `local`, `spark` or
    `connect`. `peakMemoryBytes` is the greatest amount of private memory of a task's process; mapped files do not
    count. `operators` has the same three counts for each operator: they add up to the rows that reached it, from files
    or from other operators. `lost_behind` says in words which rows were late for, or failed in, operators behind
    others; the counts of input rows lack them.
    """

    id: str
    runId: str
    name: str
    timestamp: str
    batchId: int
    batchDuration: int
    numInputRows: int
    inputRowsPerSecond: float
    processedRowsPerSecond: float
    durationMs: dict[str, int]
    eventTime: dict[str, str]
    stateOperators: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    sink: dict[str, Any]
    numRowsDroppedByWatermark: int
    version: int
    kind: str
    applied_rows: int
    late_rows: int
    quarantined_rows: int
    input_files: int
    input_bytes: int
    numFilesOutstanding: int
    oldestWaitingSeconds: float | None
    watermarkLagSeconds: float | None
    outputs: dict[str, int] = field(default_factory=dict)
    stateChanges: dict[str, list[str]] = field(default_factory=dict)
    engine: str = ""
    peakMemoryBytes: int = 0
    quarantined_files: int = 0
    operators: dict[str, dict[str, int]] = field(default_factory=dict)
    lost_behind: list[str] = field(default_factory=list)

    def in_notebook(self) -> dict[str, Any]:
        """Return version, counts and durations."""
        return {
            "version": self.version, "kind": self.kind, "batch time": self.timestamp, "rows": self.numInputRows,
            "files": self.input_files, "late": self.late_rows, "quarantined": self.quarantined_rows,
            "waiting": self.numFilesOutstanding, "ms": self.batchDuration, "outputs": self.outputs,
            "lost behind": self.lost_behind,
        }  # fmt: skip

    def json(self) -> str:
        """Return the progress as one line of JSON."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"), ensure_ascii=False)


def progress_of(pipeline: str, commit: Commit, elapsed_ms: int | None = None) -> BatchProgress:
    """Return the progress of a commit. `elapsed_ms`: time from planning to publishing, if it was measured."""
    counts = commit.counts
    took = elapsed_ms if elapsed_ms is not None else sum(commit.durations_ms.values())
    rate = counts.input_rows / (took / 1000) if took else 0.0
    watermark = min(commit.watermarks.values(), default=None)
    oldest = commit.oldest_waiting_ms
    rows_out = {name: sum(file.rows for file in files) for name, files in commit.outputs.items()}
    return BatchProgress(
        id=commit.pipeline_uuid,
        runId=commit.attempt,
        name=pipeline,
        timestamp=iso(commit.batch_time_ms),
        batchId=commit.version,
        batchDuration=took,
        numInputRows=counts.input_rows,
        inputRowsPerSecond=rate,
        processedRowsPerSecond=rate,
        durationMs={**commit.durations_ms, "triggerExecution": took},
        eventTime=_event_time(commit),
        stateOperators=[_operator(name, commit) for name in sorted(commit.operators)],
        sources=[{"description": "files", "numInputRows": counts.input_rows, "processedRowsPerSecond": rate}],
        sink={"description": ", ".join(sorted(commit.sinks)), "numOutputRows": sum(rows_out.values())},
        numRowsDroppedByWatermark=counts.late_rows,
        version=commit.version,
        kind=commit.kind,
        applied_rows=counts.applied_rows,
        late_rows=counts.late_rows,
        quarantined_rows=counts.quarantined_rows,
        input_files=counts.input_files,
        input_bytes=counts.input_bytes,
        numFilesOutstanding=commit.outstanding_files,
        oldestWaitingSeconds=None if oldest is None else max(0, commit.batch_time_ms - oldest) / 1000,
        watermarkLagSeconds=None if watermark is None else (commit.batch_time_ms - watermark) / 1000,
        outputs=rows_out,
        stateChanges=commit.state_changes,
        engine=commit.engine.get("name", ""),
        peakMemoryBytes=commit.peak_memory_bytes,
        quarantined_files=counts.quarantined_files,
        operators={
            name: {count: getattr(metrics, count) for count in ("applied_rows", "late_rows", "quarantined_rows")}
            for name, metrics in sorted(commit.operators.items())
            if metrics.has_counts
        },
        lost_behind=commit.lost_behind,
    )


def _event_time(commit: Commit) -> dict[str, str]:
    """Return Spark's keys `max`, `min` and `watermark` for the pipeline's least watermark."""
    if not commit.event_time:
        return {}
    name = min(commit.event_time, key=lambda one: commit.watermarks.get(one, 0))
    return {key: iso(value) for key, value in commit.event_time[name].items() if key != "active"}


def _operator(name: str, commit: Commit) -> dict[str, Any]:
    metrics = commit.operators[name]
    return {
        "operatorName": name,
        "numRowsTotal": metrics.rows_total,
        "numRowsUpdated": metrics.rows_updated,
        "numRowsRemoved": metrics.rows_removed,
        "numRowsDroppedByWatermark": metrics.late_rows,
        "allUpdatesTimeMs": metrics.apply_ms,
        "commitTimeMs": metrics.commit_ms,
        "memoryUsedBytes": metrics.state_bytes,
        "numShufflePartitions": int(commit.engine.get("tasks", "1")),
        "customMetrics": {"rows": metrics.rows, "timedOut": metrics.timed_out, "failed": metrics.failed},
        **({"failure": metrics.failure} if metrics.failure else {}),
    }

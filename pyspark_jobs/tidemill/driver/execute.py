"""From a plan to a commit record: the engine does the work, the receipts are checked and put together.

CRASH: nothing here is visible until `Log.create_commit`; a file that an attempt wrote and no commit names is garbage.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import names
from ..batch import wire
from ..batch.batch import Batch
from ..batch.task import BatchWork
from ..batch.work import Engine
from ..clock import now_ms
from ..errors import InvalidInput, TidemillError
from ..operators.contract import describe
from ..protocol import codec, decide
from ..protocol.records import Commit, Counts, OperatorMetrics, OutputFile, Plan, Receipt, Segment
from ..protocol.time import START_MS
from ..schema import to_ddl
from ..sources.contract import ABANDON_PLAN
from ..sources.ledger import record as record_in_ledger
from ..state.versions import persist
from .context import Context, version_of_tidemill

_AIRFLOW = ("DAG_ID", "TASK_ID", "DAG_RUN_ID", "TRY_NUMBER", "LOGICAL_DATE")


def execute(
    context: Context, head: Commit | None, plan: Plan, engine: Engine, tasks: str | int, published: int
) -> Commit:
    """The commit record of a plan's batch, with everything that it names stored. Not yet committed."""
    started = time.perf_counter()
    _check_sources(context, plan)
    batch = Batch(
        job=context.job,
        plan=plan,
        attempt=uuid.uuid4().hex[:12],
        root=context.root,
        storage_options=context.storage_options,
        settings=context.settings,
        state={name: maps for name, maps in context.state(head).items() if name in context.job.operators},
        watermarks=_watermarks(context, head),
        active=active_ms(head),
        begins=frozenset(context.begins_with(head)),
        tasks=task_count(plan, engine, tasks, _task_bytes(context), context.job.ranges),
    )
    batch = assigned(batch)
    receipts = receipts_of(engine.execute(BatchWork(batch, context.modules, context.paths)))
    decide.check_receipts(receipts, plan, batch.levels)
    executed = time.perf_counter()
    commit = _commit(context, batch, receipts, published, engine, _rows_before(head, batch))
    ledger = _ledger(context, head, batch)
    durations = {
        "addBatch": int((executed - started) * 1000),
        "walCommit": int((time.perf_counter() - executed) * 1000),
    }
    return dataclasses.replace(commit, ledger=ledger, durations_ms=durations)


def _check_sources(context: Context, plan: Plan) -> None:
    """`InvalidInput` where the plan, which earlier code made, reads a source that this code does not have."""
    for split in plan.splits:
        if split.source not in context.job.sources:
            raise InvalidInput(
                f"plan {plan.number} reads the source `{split.source}`, this code has "
                + ", ".join(f"`{name}`" for name in context.job.sources),
                hint=f"give the source its name back, or {ABANDON_PLAN}",
            )


def active_ms(head: Commit | None) -> dict[str, int]:
    """The batch time of the last batch with event times, by watermark."""
    seen = head.event_time if head is not None else {}
    return {name: times["active"] for name, times in seen.items() if "active" in times}


def _active(batch: Batch, name: str, seen: Mapping[str, int]) -> int:
    now_ms = batch.plan.batch_time_ms
    return now_ms if seen else batch.active.get(name, now_ms)


def _watermarks(context: Context, head: Commit | None) -> dict[str, int]:
    """W(N−1) of each watermark of the job; one that is new, or renamed, begins where the pipeline's stood."""
    known = head.watermarks if head is not None else {}
    least = min(known.values(), default=START_MS)
    return {name: known.get(name, least) for name in context.job.watermarks}


def _task_bytes(context: Context) -> int:
    """How much input one task takes by itself: more where no row costs a call of Python, little where a key costs
    pandas frames, since those of some hundred keys take as long as an exchange."""
    if context.job.makes_frames:
        return context.settings.task_bytes // 512
    return context.settings.task_bytes * (1 if context.job.functions else 4)


def task_count(plan: Plan, engine: Engine, tasks: str | int, task_bytes: int, ranges: int | None = None) -> int:
    """How many tasks a batch is cut into. "auto": `ranges`, which operators ask for, else one for a small batch, else
    what the engine runs at once."""
    if tasks == "auto":
        if ranges is not None:
            return ranges
        small = sum(split.size for split in plan.splits) <= task_bytes
        return 1 if small else engine.parallelism
    if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
        raise InvalidInput(f"tasks={tasks!r}, expected 'auto' or a number from 1 on")
    return tasks


def assigned(batch: Batch) -> Batch:
    """The batch with its splits dealt to scatter tasks: largest first, each to the task with the least bytes."""
    splits = batch.plan.splits
    count = min(batch.tasks, len(splits))
    dealt: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for number in sorted(range(len(splits)), key=lambda n: -splits[n].size):
        task = loads.index(min(loads))
        dealt[task].append(number)
        loads[task] += splits[number].size
    return dataclasses.replace(batch, assignment=tuple(tuple(sorted(numbers)) for numbers in dealt))


def receipts_of(results: Sequence[bytes]) -> list[Receipt]:
    """The receipts among what an engine returned, by level and range; the first failure is raised instead."""
    messages = [wire.decode(data) for data in results]
    errors: list[TidemillError] = [wire.raised(m) for m in messages if m.head.kind == wire.FAILURE]
    if errors:
        raise errors[0]
    receipts = [codec.decode(Receipt, m.body.to_pybytes(), "a receipt") for m in messages]
    return sorted(receipts, key=lambda receipt: (receipt.level, receipt.lo))


def _commit(
    context: Context,
    batch: Batch,
    receipts: list[Receipt],
    published: int,
    engine: Engine,
    rows_before: Mapping[str, int],
) -> Commit:
    plan, job = batch.plan, context.job
    base = [receipt for receipt in receipts if receipt.level == 0]
    last = receipts[-1]  # of the last level, which knows all watermarks
    state = decide.merge_state(receipts)
    return Commit(
        version=plan.number,
        kind=plan.kind,
        attempt=batch.attempt,
        plan_id=plan.plan_id,
        branch=context.branch,
        pipeline_uuid=context.initialised().uuid,
        batch_time_ms=plan.batch_time_ms,
        watermarks=last.watermarks,
        event_time={
            name: {**seen, "watermark": batch.watermarks.get(name, 0), "active": _active(batch, name, seen)}
            for name in job.watermarks
            for seen in [last.event_time.get(name, {})]
        },
        state=state,
        ledger=[],
        outputs=_outputs(receipts),
        quarantine=[file for receipt in receipts for file in receipt.quarantine],
        counts=_counts(plan, base),
        operators=_metrics(receipts, state, rows_before),
        schemas={name: describe(placed.operator) for name, placed in job.operators.items()},
        sinks={
            output.name: {
                "kind": None if output.sink is None else output.sink.kind,
                "path": None if output.sink is None else output.sink.path,
                "schema": to_ddl(output.schema),
            }
            for output in job.outputs.values()
        },
        code=_code(context),
        next_deadline=_deadlines(receipts),
        published_through=published,
        committed_ms=now_ms(),
        outstanding_files=plan.outstanding_files,
        outstanding_bytes=plan.outstanding_bytes,
        oldest_waiting_ms=plan.oldest_waiting_ms,
        airflow={k.lower(): v for k in _AIRFLOW if (v := os.environ.get(f"AIRFLOW_CTX_{k}"))},
        engine={"name": engine.name, "tasks": str(batch.tasks)},
    )


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
    rows = sum(receipts[0].splits.values())
    late = sum(receipt.late_rows for receipt in receipts)
    # A row that two operators' functions fail on is put aside twice, and ranges do not know of each other.
    quarantined = min(sum(receipt.quarantined_rows for receipt in receipts), rows - late)
    files = {(split.source, split.path): split.size for split in plan.splits}
    return Counts(rows, rows - late - quarantined, late, quarantined, len(files), sum(files.values()))


def _rows_before(head: Commit | None, batch: Batch) -> dict[str, int]:
    """Live rows of the operators in the version below; none of one that begins."""
    known = head.operators if head is not None else {}
    totals = {
        name: known[name].rows_total for name, maps in batch.state.items() if name in known and any(maps.values())
    }
    seeded = {name: next(iter(batch.state[name].values())) for name in batch.begins if name in batch.state}
    return totals | {name: sum(segment.rows for segment in segments) for name, segments in seeded.items()}


def _metrics(
    receipts: list[Receipt], state: Mapping[str, Mapping[str, list[Segment]]], rows_before: Mapping[str, int]
) -> dict[str, OperatorMetrics]:
    """The sums of all ranges: they tell by how many rows the state has grown. A segment that several see is one."""
    found: dict[str, OperatorMetrics] = {}
    for receipt in receipts:
        for name, metrics in receipt.operators.items():
            found[name] = found[name].plus(metrics) if name in found else metrics
    for name, metrics in found.items():
        sizes = {segment.name: segment.size for segments in state[name].values() for segment in segments}
        total = rows_before.get(name, 0) + metrics.rows_total
        found[name] = dataclasses.replace(metrics, rows_total=total, state_bytes=sum(sizes.values()))
    return found


def _deadlines(receipts: list[Receipt]) -> dict[str, int]:
    found: dict[str, int] = {}
    for receipt in receipts:
        for clock, deadline in receipt.next_deadline.items():
            found[clock] = min(deadline, found.get(clock, deadline))
    return found


def _ledger(context: Context, head: Commit | None, batch: Batch) -> list[Segment]:
    before = context.ledger(head)
    if not batch.plan.splits:
        return before.segments
    after = before.map.copy()
    record_in_ledger(after, batch.plan)
    stem = names.stem(batch.plan.number, batch.attempt, 0, "driver")
    name = names.segment(names.LEDGER, "files", context.branch, stem)
    return persist(context.store, context.cache, before, after, batch.plan.number, name)


def _code(context: Context) -> dict[str, Any]:
    functions: Mapping[str, tuple[Callable[..., Any], ...]] = context.job.functions
    return {
        "reference": context.reference,
        "tidemill": version_of_tidemill(),
        "functions": {name: [_function(f) for f in found] for name, found in functions.items()},
    }


def _function(function: Callable[..., Any]) -> dict[str, str]:
    """A function's name and a digest of its source, or of its byte code where there is no source."""
    try:
        text = inspect.getsource(function).encode()
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        text = code.co_code if code is not None else repr(type(function)).encode()
    name = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__name__)}"
    return {"name": name, "digest": hashlib.blake2b(text, digest_size=16).hexdigest()}

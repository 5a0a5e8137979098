"""From a plan to a commit record: describe the batch, let the engine run it, check the receipts.

CRASH: nothing here counts until `Log.create_commit`. A file that an attempt wrote and no commit names is garbage.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial

from .. import names
from ..batch import wire
from ..batch.batch import Batch
from ..batch.task import BatchWork
from ..batch.work import Engine
from ..errors import InternalError, InvalidInput, TidemillError
from ..pipeline.job import Job
from ..protocol import codec, decide
from ..protocol.records import Commit, Plan, Receipt, Segment
from ..protocol.time import before_batch
from ..quarantine.rows import ABANDON_PLAN
from ..repo.discard import discarded_if_full
from ..repo.ledger import store_ledger
from ..repo.opened import Opened
from ..repo.operators import initial_state, live_state
from ..sources.asked import intake_of
from ..sources.contract import BeingRead, EarlyFiles
from ..store import run_both
from ..values import dataclass
from .assemble import Executed, Publishing, active_ms, assemble
from .tasks import TaskCount, assigned, cut_of, scatter_count, task_count


@dataclass(frozen=True)
class Way:
    """How a batch is carried out. None of it changes a row.

    `publishing`: what the versions up to the batch leave to publish. `early`: files that this process has read already.
    `being_read`: splits that a thread of this process reads.
    """

    engine: Engine
    tasks: TaskCount
    publishing: Publishing
    early: EarlyFiles
    being_read: Mapping[tuple[str, str], BeingRead] = field(default_factory=dict)


def execute(repo: Opened, head: Commit | None, plan: Plan, way: Way) -> Commit:
    """Run the batch of a plan and return its commit record. All files that the record names are stored.

    The record is not committed yet.
    """
    started = time.perf_counter()
    _check_sources(repo.job, plan)
    batch = _batch(repo, head, plan, way)
    with discarded_if_full(repo.store, batch.attempt):
        commit, executed = _executed(repo, head, batch, way)
    durations = {
        "addBatch": int((executed - started) * 1000),
        "walCommit": int((time.perf_counter() - executed) * 1000),
    }
    return dataclasses.replace(commit, durations_ms=durations)


def _executed(repo: Opened, head: Commit | None, batch: Batch, way: Way) -> tuple[Commit, float]:
    """Return the commit record without durations, and when the engine had run the batch."""
    run = partial(way.engine.execute, BatchWork(batch, repo.modules, repo.paths))
    read, stored, results = _read_early(batch), None, None
    if read is not None:  # all that the ledger needs is known, so it is stored while the batch runs
        stored, results = run_both(partial(_stored_ledger, repo, head, batch, read), run)
    receipts = receipts_of(run() if results is None else results)
    if isinstance(stored, TidemillError):  # an error of the batch says more, so it comes first
        raise stored
    decide.check_receipts(receipts, batch.plan, batch.levels)
    executed = time.perf_counter()
    commit = assemble(repo, head, Executed(batch, receipts, way.engine.name, way.publishing))
    first = receipts[0]
    ledger, files = stored or store_ledger(repo, head, batch, first.fingerprints, first.bad_files)
    rows = commit.rows | {names.LEDGER: {"files": files}}
    return dataclasses.replace(commit, ledger=ledger, rows=rows), executed


def _stored_ledger(
    repo: Opened, head: Commit | None, batch: Batch, read: Mapping[str, str]
) -> tuple[list[Segment], int] | TidemillError:
    """Store the ledger, and return it or the error."""
    try:
        return store_ledger(repo, head, batch, read)
    except TidemillError as error:
        return error


def _read_early(batch: Batch) -> dict[str, str] | None:
    """Return the fingerprints of the files by split, if the driver has read all of them; otherwise None.

    Also None if a file may turn out to be one that goes to quarantine as a whole, because the ledger says so.
    """
    if any(intake_of(batch.job.sources[split.source]).bad_files == "quarantine" for split in batch.plan.splits):
        return None
    found = [batch.early.get((split.source, split.path)) for split in batch.plan.splits]
    known = [one for one in found if one is not None]
    if not found or len(known) < len(found):
        return None
    return {str(number): one.fingerprint for number, one in enumerate(known) if one.fingerprint is not None}


def receipts_of(results: Sequence[bytes]) -> list[Receipt]:
    """Return the receipts that an engine returned, by level and range. If a task failed, raise its error instead."""
    receipts = []
    for message in map(wire.decode_message, results):
        if isinstance(message, wire.Failure):
            raise message.error()
        if not isinstance(message, wire.ReceiptMessage):
            raise InternalError(f"the engine returned a {type(message).__name__}, expected a receipt")
        receipts.append(codec.decode(Receipt, message.record, "a receipt"))
    return sorted(receipts, key=lambda receipt: (receipt.level, receipt.lo))


def _batch(repo: Opened, head: Commit | None, plan: Plan, way: Way) -> Batch:
    cut = cut_of(repo.job, repo.settings, head, plan)
    count = task_count(plan, way.engine, way.tasks, cut)
    batch = dataclasses.replace(
        batch_after(repo, head, plan, repo.job),
        attempt=uuid.uuid4().hex[:12],
        tasks=count,
        early=way.early,
        being_read=way.being_read if way.engine.name == "local" else {},
    )
    return assigned(batch, scatter_count(way.engine, count, cut))


def batch_after(repo: Opened, head: Commit | None, plan: Plan, job: Job, made: type[Batch] = Batch) -> Batch:
    """Return the batch of a plan after a version, as one task, still without an attempt and an assignment of splits."""
    return made(
        job=job,
        plan=plan,
        attempt="",
        root=repo.task_root,
        storage_options=repo.storage_options,
        settings=repo.settings,
        state={name: maps for name, maps in live_state(repo, head).items() if name in job.operators},
        watermarks=before_batch(job.watermarks, {} if head is None else head.watermarks),
        active=active_ms(head),
        begins=frozenset(initial_state(repo, head)),
        tasks=1,
    )


def _check_sources(job: Job, plan: Plan) -> None:
    """Raise `InvalidInput` if the plan, which earlier code made, reads a source that this code does not have."""
    for split in plan.splits:
        if split.source not in job.sources:
            raise InvalidInput(
                f"plan {plan.number} reads the source `{split.source}`, this code has "
                + ", ".join(f"`{name}`" for name in job.sources),
                hint=f"give the source its name back, or {ABANDON_PLAN}",
            )

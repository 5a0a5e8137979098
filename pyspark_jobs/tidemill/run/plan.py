"""Planning: which files are waiting, which of them the next batch reads, and its batch time. No Spark, no rows.

INVARIANT: the clock is read before the sources are listed, so a sweep is never later than a file that it did not see.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import traceback
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field

from ..clock import now_ms
from ..counts import count_of
from ..errors import InvalidInput
from ..names import operator_of
from ..pipeline.graph import TimePolicy
from ..pipeline.job import Job
from ..protocol import decide
from ..protocol.records import Commit, Plan, Split
from ..protocol.time import after_batch, before_batch
from ..repo.bounds import check_batch_time
from ..repo.identity import check_folders, check_latest, check_positions
from ..repo.opened import Opened
from ..sources import asked
from ..sources.contract import SourceFile
from ..sources.ledger import check_source_names, compare_with_ledger
from ..store import side_by_side
from ..units import time_ms
from ..values import dataclass
from .assemble import active_ms

LOG = logging.getLogger("tidemill")


@dataclass(frozen=True)
class Waiting:
    """The waiting files by source, and the time just before they were listed."""

    listed_ms: int
    files: Mapping[str, list[SourceFile]] = field(default_factory=dict)
    since: Mapping[str, str] = field(default_factory=dict)
    """The positions after which the files of sources come that no ledger remembers."""
    requeued: Sequence[Split] = ()
    """Requeued rows, which are read before any file."""

    @property
    def all(self) -> list[SourceFile]:
        """The waiting files of all sources."""
        return [file for files in self.files.values() for file in files]

    @property
    def oldest_ms(self) -> int | None:
        """Arrival of the oldest file, or of requeued rows; None if nothing waits."""
        arrived = [file.modified_ms for file in self.all] + [split.modified_ms for split in self.requeued]
        return min(arrived, default=None)


@dataclass(frozen=True)
class ListedSources:
    """The files of all sources, by source, and the time just before they were listed.

    `since` are the positions after which sources were looked at.
    """

    listed_ms: int
    files: Mapping[str, list[SourceFile]]
    since: Mapping[str, str]


def listing(repo: Opened, head: Commit | None) -> ListedSources:
    """List the files of all sources, or what comes after their positions at `head`."""
    listed_ms, since = now_ms(), positions(head)
    options = dict(repo.storage_options.get("source") or {})
    sources = repo.job.sources
    calls = [
        functools.partial(asked.look_at_source, source, name, since.get(name), options)
        for name, source in sources.items()
    ]
    return ListedSources(listed_ms, dict(zip(sources, side_by_side(repo.store, calls), strict=True)), since)


def positions(head: Commit | None) -> Mapping[str, str]:
    """Return how far sources were read that no ledger remembers."""
    return {} if head is None else head.positions


def waiting(repo: Opened, head: Commit | None, listed_before: ListedSources | None = None) -> Waiting:
    """Return the files of all sources that the pipeline has not read yet. They are listed now, unless they were before.

    INVARIANT: no version after `head` was read when they were listed.
    """
    found_now = listed_before or listing(repo, head)
    listed = found_now.files
    ledger = repo.ledger(head).map
    found = _unread(repo, found_now, head)
    if found is None:  # another branch of the history was listed
        return waiting(repo, head)
    check_positions(repo, head, ledger)
    by_ledger = {name: files for name, files in listed.items() if not asked.is_positioned(repo.job.sources[name])}
    check_source_names(
        by_ledger, [name for name, files in by_ledger.items() if 0 < len(found[name]) == len(files)], ledger
    )
    check_folders(repo, head, found, ledger)
    check_latest(repo, head, found)
    return Waiting(found_now.listed_ms, found, found_now.since, _requeued(repo.job, head))


def still_waiting(repo: Opened, head: Commit | None, seen: Waiting) -> Waiting:
    """Return the files of an earlier listing that are still unread at `head`. Nothing is listed, if it need not be.

    One listing serves many batches, so that its cost does not grow with their number; see `backlog`. The time of the
    listing stays, because nothing that arrived later may be passed.
    """
    found = _unread(repo, ListedSources(seen.listed_ms, seen.files, seen.since), head)
    if found is None:  # a rewind went back to before the listing
        return waiting(repo, head)
    return Waiting(seen.listed_ms, found, {**seen.since, **positions(head)}, _requeued(repo.job, head))


def _requeued(job: Job, head: Commit | None) -> list[Split]:
    """Return the requeued rows that wait. `InvalidInput` if this code lacks their source."""
    found = [] if head is None else head.waiting
    for split in found:
        if split.source not in job.sources:
            raise InvalidInput(
                f"rows of source `{split.source}` were requeued, which this code does not have",
                hint=f"restore the source: p.read(…, name={split.source!r})",
            )
    return found


def _warn_of_lost(job: Job, requeued: Sequence[Split]) -> None:
    """Warn of rows that were requeued for an operator that was removed since: they are read, and go nowhere."""
    for split in requeued:
        held = split.requeued
        for name in () if held is None else held.operators:
            if held is not None and operator_of(name) not in job.operators:
                LOG.warning(
                    "%s of source `%s` were requeued for the operator `%s`, which was removed; they are discarded",
                    count_of(held.rows, "row"), split.source, name,
                )  # fmt: skip


def _unread(repo: Opened, listed: ListedSources, head: Commit | None) -> dict[str, list[SourceFile]] | None:
    """Return the listed files that are unread at `head`, by source. None: the positions of `head` were not listed."""
    options = dict(repo.storage_options.get("source") or {})
    found = {}
    ledger = repo.ledger(head).map
    repo.session.fingerprints.begin()
    for name, files in listed.files.items():
        source = repo.job.sources[name]
        if asked.is_positioned(source):
            left = asked.after(files, listed.since.get(name), positions(head).get(name))
            if left is None:
                return None
            found[name] = list(left)
            continue
        compute = functools.partial(asked.fingerprint, source, options=options)
        fingerprint = functools.partial(repo.session.fingerprints.fingerprint, compute=compute)
        compared = compare_with_ledger(files, ledger, asked.intake_of(source).overwritten, fingerprint)
        found[name] = compared.fresh
        repo.session.touched.update({(file.source, file.path): file for file in compared.touched})
    return found


def next_batch(repo: Opened, head: Commit | None, seen: Waiting, given: int | str | None) -> Plan | None:
    """Return a plan over waiting files, within the caps of the sources, or None if no files are waiting.

    Requeued rows come first, all of them, in a batch of their own.
    """
    if seen.requeued:
        _warn_of_lost(repo.job, seen.requeued)
        draft = _draft(repo, head, seen, seen.requeued, seen.all)
        newest_ms = max(split.modified_ms for split in seen.requeued)
        if draft.oldest_waiting_ms is not None:  # a batch of requeued rows must not pass a file that waits
            newest_ms = min(newest_ms, draft.oldest_waiting_ms)
        return _timed(repo, draft, newest_ms, given, head)
    options = dict(repo.storage_options.get("source") or {})
    chosen: list[SourceFile] = []
    splits: list[Split] = []
    reached: dict[str, str] = {}
    for name, picked in _picked(repo, head, seen).items():
        source = repo.job.sources[name]
        chosen.extend(picked)
        splits.extend(asked.splits(source, picked, options, repo.settings.split_bytes))
        if picked and asked.is_positioned(source):
            reached[name] = picked[-1].position
    if not chosen:
        return None
    chosen_files = set(chosen)
    left = [file for file in seen.all if file not in chosen_files]
    draft = dataclasses.replace(_draft(repo, head, seen, splits, left), positions=reached)
    return _timed(repo, draft, max(file.modified_ms for file in chosen), given, head)


def _picked(repo: Opened, head: Commit | None, seen: Waiting) -> Mapping[str, Sequence[SourceFile]]:
    """Return the files of the next batch, by source, within the caps of the sources."""
    found: dict[str, Sequence[SourceFile]] = {}
    for name, files in seen.files.items():
        intake = asked.intake_of(repo.job.sources[name])
        found[name] = decide.choose_files(files, intake.max_files, intake.max_bytes)
    if repo.log.rewrites.at is None:
        return found
    from ..forgetting.left_again import read_alike  # few repositories need it

    return read_alike(repo, head, found)


def _draft(
    repo: Opened, head: Commit | None, seen: Waiting, splits: Sequence[Split], left: Sequence[SourceFile]
) -> Plan:
    """Return a plan without its batch time. `left` are the files that it leaves for later batches."""
    return Plan(
        number=repo.origin(head).number,
        kind="batch",
        plan_id=uuid.uuid4().hex,
        branch=repo.branch,
        pipeline_uuid=repo.initialised().uuid,
        parent=repo.origin(head).parent,
        batch_time_ms=0,
        splits=tuple(splits),
        block_rows=repo.settings.block_rows,
        created_ms=seen.listed_ms,
        outstanding_files=len(left),
        outstanding_bytes=sum(file.size for file in left),
        oldest_waiting_ms=min((file.modified_ms for file in left), default=None),
    )


def with_backlog(plan: Plan, seen: Waiting) -> Plan:
    """Return the plan of a batch as if all that is `seen` waited behind it, but for what it reads itself."""
    planned = {(split.source, split.path) for split in plan.splits}
    behind = sum(file.size for file in seen.all if (file.source, file.path) not in planned)
    return dataclasses.replace(plan, outstanding_bytes=behind)


def _timed(repo: Opened, draft: Plan, newest_ms: int, given: int | str | None, head: Commit | None) -> Plan:
    """Return the plan with its batch time."""
    return dataclasses.replace(draft, batch_time_ms=_batch_time(repo, draft, newest_ms, given, head).ms)


def _batch_time(
    repo: Opened, draft: Plan, newest_ms: int, given: int | str | None, head: Commit | None
) -> decide.BatchTime:
    """Return the batch time by the pipeline's rule, raised to that of the last commit if it is earlier."""
    observed = decide.ObservedTimes(
        planned_ms=draft.created_ms,
        newest_ms=newest_ms,
        oldest_waiting_ms=draft.oldest_waiting_ms,
        previous_ms=None if head is None else head.batch_time_ms,
    )
    rule = repo.pipeline.time_policy
    chosen_rule = _rule(repo, draft, rule, head) if given is None else given_time(repo, given)
    found = decide.batch_time(chosen_rule, observed)
    if found.note is not None:
        # A clock that moved backwards is worth a warning, and so is a given time that is ignored. If only files
        # arrived in another order than they are read, nothing is wrong.
        is_order = given is None and not callable(rule) and observed.planned_ms >= found.ms
        LOG.log(
            logging.INFO if is_order else logging.WARNING,
            "pipeline `%s`, batch %d: %s",
            repo.job.pipeline,
            draft.number,
            found.note,
        )
    return found


def _rule(repo: Opened, draft: Plan, policy: TimePolicy, head: Commit | None) -> decide.TimeRule | int:
    """Return the pipeline's rule. A function is not asked about requeued rows, which keep the last batch's time."""
    if not callable(policy):
        return policy
    if head is not None and all(split.requeued is not None for split in draft.splits):
        return head.batch_time_ms
    try:
        value = policy(draft)
    except Exception as error:
        raise InvalidInput(
            f"the function of p.batch_time raised `{type(error).__name__}: {error}` for batch {draft.number}\n"
            + traceback.format_exc()
        ) from error
    what = f"the result of the function of p.batch_time for batch {draft.number}"
    return check_batch_time(value, what, repo.settings.batch_time_tolerance)


def given_time(repo: Opened, given: int | str) -> int:
    """Return a batch time that the caller gave. `InvalidInput` if it is out of bounds."""
    what = f"batch_time={given!r}"
    return check_batch_time(time_ms(given, repo.job.time_zone), what, repo.settings.batch_time_tolerance)


def planned_sweep_time(repo: Opened, head: Commit | None, seen: Waiting, given: int | str | None) -> int:
    """Return the batch time of a sweep: the given time, or now, but never later than the oldest waiting file.

    If the pipeline's rule is a function, it is the time of the last batch.
    """
    previous = head.batch_time_ms if head is not None else None
    observed = decide.ObservedTimes(
        planned_ms=seen.listed_ms,
        oldest_waiting_ms=seen.oldest_ms,
        previous_ms=previous,
    )
    if given is not None:
        return decide.sweep_time(given_time(repo, given), observed).ms
    if callable(repo.pipeline.time_policy):
        return previous or 0
    return decide.sweep_time("plan", observed).ms


def is_due_now(repo: Opened, head: Commit | None, given: int | str | None) -> bool:
    """Whether a sweep would fire a timeout if no file waited. Lists nothing."""
    return is_due(head, planned_sweep_time(repo, head, Waiting(now_ms()), given), repo.job)


def sweep_plan(repo: Opened, head: Commit | None, at_ms: int) -> Plan:
    """Return the plan of a sweep, which has a batch time and no input."""
    return Plan(
        number=repo.origin(head).number,
        kind="sweep",
        plan_id=uuid.uuid4().hex,
        branch=repo.branch,
        pipeline_uuid=repo.initialised().uuid,
        parent=repo.origin(head).parent,
        batch_time_ms=at_ms,
        splits=(),
        block_rows=repo.settings.block_rows,
        created_ms=now_ms(),
    )


def is_due(head: Commit | None, at_ms: int, job: Job) -> bool:
    """Whether a sweep at `at_ms` would fire a timeout.

    Deadlines by batch time are compared with `at_ms`, those by event time with the watermark that the sweep would have.
    """
    if head is None:
        return False
    before = before_batch(job.watermarks, head.watermarks)
    watermarks = {**head.watermarks, **after_batch(job.watermarks, before, {}, active_ms(head), at_ms)}
    now = {f"event/{name}": placed.least(watermarks) for name, placed in job.operators.items()}
    now |= {"batch": at_ms, "event": min(watermarks.values(), default=None)}  # older records: of all operators
    return any((by := now.get(timer)) is not None and at <= by for timer, at in head.next_deadline.items())

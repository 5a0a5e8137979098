"""Planning: which files wait, which of them the next batch takes, and what its time is. No Spark, no rows.

INVARIANT: the clock is read before the sources are listed, so a sweep's time never passes a file that it did not see.
"""

from __future__ import annotations

import dataclasses
import logging
import traceback
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..clock import now_ms
from ..errors import InvalidInput
from ..pipeline.graph import TimePolicy
from ..pipeline.job import Job
from ..protocol import decide
from ..protocol.records import Commit, Plan, Split
from ..protocol.time import after_batch
from ..sources.contract import SourceFile
from ..sources.ledger import check_names, unseen
from ..units import time_ms
from .assemble import active_ms
from .context import Context

LOG = logging.getLogger("tidemill")
LAST_MS = 253_402_300_799_999
"""The last ms of the year 9999: a greater time is microseconds by mistake."""


@dataclass(frozen=True)
class Waiting:
    """What a listing found: the files not taken yet, by source, and the time just before it was made."""

    listed_ms: int
    files: Mapping[str, list[SourceFile]] = field(default_factory=dict)

    @property
    def all(self) -> list[SourceFile]:
        """The waiting files of all sources."""
        return [file for files in self.files.values() for file in files]


def waiting(context: Context, head: Commit | None) -> Waiting:
    """The files that no commit has taken yet."""
    listed_ms = now_ms()
    ledger = context.ledger(head).map
    created_ms = context.initialised().created_ms
    options = dict(context.storage_options.get("source") or {})
    listed, found = {}, {}
    for name, source in context.job.sources.items():
        files = source.discover(name, options)
        listed[name] = arrived_since_init(files, created_ms) if source.intake.start == "latest" else files
        found[name] = unseen(listed[name], ledger, source.intake.overwritten)
    check_names(listed, [name for name, files in found.items() if 0 < len(files) == len(listed[name])], ledger)
    return Waiting(listed_ms, found)


def arrived_since_init(files: Sequence[SourceFile], created_ms: int) -> list[SourceFile]:
    """What a source with `start="latest"` takes of `files`: those since `init`, and those of the very second of it.

    S3 tells times by the second: a file that arrived just after `init` seems to be older. It is not lost for that.
    """
    return [file for file in files if file.modified_ms >= created_ms - created_ms % 1000]


def next_batch(context: Context, head: Commit | None, seen: Waiting, told: int | str | None) -> Plan | None:
    """A plan over what waits, within the sources' caps; None where nothing waits."""
    options = dict(context.storage_options.get("source") or {})
    chosen: list[SourceFile] = []
    splits: list[Split] = []
    for name, files in seen.files.items():
        source = context.job.sources[name]
        taken = decide.choose(files, source.intake.max_files, source.intake.max_bytes)
        chosen.extend(taken)
        splits.extend(source.splits(taken, options, context.settings.split_bytes))
    if not chosen:
        return None
    rest = len(seen.all) - len(chosen)
    taken_files = set(chosen)
    left = [file for file in seen.all if file not in taken_files]
    draft = Plan(
        number=0 if head is None else head.version + 1,
        kind="batch",
        plan_id=uuid.uuid4().hex,
        branch=context.branch,
        batch_time_ms=0,
        splits=tuple(splits),
        block_rows=context.settings.block_rows,
        created_ms=seen.listed_ms,
        outstanding_files=rest,
        outstanding_bytes=sum(file.size for file in left),
        oldest_waiting_ms=min((file.modified_ms for file in left), default=None),
    )
    return dataclasses.replace(draft, batch_time_ms=_batch_time(context, draft, chosen, told, head).ms)


def _batch_time(
    context: Context, draft: Plan, chosen: list[SourceFile], told: int | str | None, head: Commit | None
) -> decide.BatchTime:
    """The time that the policy gives, raised to the last commit's where it lies before it."""
    observed = decide.Observed(
        planned_ms=draft.created_ms,
        newest_ms=max(file.modified_ms for file in chosen),
        oldest_waiting_ms=draft.oldest_waiting_ms,
        previous_ms=None if head is None else head.batch_time_ms,
    )
    rule = context.pipeline.time_policy
    found = decide.batch_time(_rule(draft, rule) if told is None else time_ms(told, context.job.time_zone), observed)
    if found.note is not None:
        # A clock that went back is told, and to who has given a time that it was not heeded; that files arrived in
        # another order than they are read in is nobody's mistake.
        is_order = told is None and not callable(rule) and observed.planned_ms >= found.ms
        LOG.log(
            logging.INFO if is_order else logging.WARNING,
            "pipeline `%s`, batch %d: %s",
            context.job.pipeline,
            draft.number,
            found.note,
        )
    return found


def _rule(draft: Plan, policy: TimePolicy) -> decide.TimeRule | int:
    if not callable(policy):
        return policy
    try:
        value = policy(draft)
    except Exception as error:
        raise InvalidInput(
            f"the function given to p.batch_time raised `{type(error).__name__}: {error}` for batch {draft.number}\n"
            + traceback.format_exc()
        ) from error
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LAST_MS:
        raise InvalidInput(
            f"the function given to p.batch_time returned {value!r}, expected ms since the epoch as an int, "
            "up to the year 9999"
        )
    return value


def sweep_time(context: Context, head: Commit | None, seen: Waiting, told: int | str | None) -> int:
    """When a sweep happens: as told, else, with a function for batch time, the last batch's time, else now, but never
    after a file that waits arrived."""
    previous = head.batch_time_ms if head is not None else None
    observed = decide.Observed(
        planned_ms=seen.listed_ms,
        oldest_waiting_ms=min((file.modified_ms for file in seen.all), default=None),
        previous_ms=previous,
    )
    if told is not None:
        return decide.sweep_time(time_ms(told, context.job.time_zone), observed).ms
    if callable(context.pipeline.time_policy):
        return previous or 0
    return decide.sweep_time("plan", observed).ms


def sweep_plan(context: Context, head: Commit | None, at_ms: int) -> Plan:
    """The plan of a sweep: no input, and a time."""
    return Plan(
        number=0 if head is None else head.version + 1,
        kind="sweep",
        plan_id=uuid.uuid4().hex,
        branch=context.branch,
        batch_time_ms=at_ms,
        splits=(),
        block_rows=context.settings.block_rows,
        created_ms=now_ms(),
    )


def is_due(head: Commit | None, at_ms: int, job: Job) -> bool:
    """Whether some deadline has come, where a sweep would leave the clocks: the batch clock at `at_ms`, an operator's
    event time at the watermark of its input."""
    if head is None:
        return False
    watermarks = {**head.watermarks, **after_batch(job.watermarks, head.watermarks, {}, active_ms(head), at_ms)}
    now = {f"event/{name}": placed.least(watermarks) for name, placed in job.operators.items()}
    now |= {"batch": at_ms, "event": min(watermarks.values(), default=None)}  # older records: of all operators
    return any((by := now.get(timer)) is not None and at <= by for timer, at in head.next_deadline.items())

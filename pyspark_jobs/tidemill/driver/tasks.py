"""Into how many tasks a batch is cut, and which of them reads what.

What a batch makes does not depend on it, so it may follow from how long the batch before took.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..batch.batch import Batch
from ..batch.work import Engine
from ..errors import InvalidInput
from ..pipeline.job import Job
from ..protocol.records import Commit, OperatorMetrics, Plan
from ..settings import Settings

MIB = 1024**2
PACE = "ms_per_mib"
"""In a commit's `engine`: the milliseconds of one task that the user's functions took for a MiB of input."""
WORTH_A_TASK_MS = 500
"""What a task more has to spare: it takes an exchange of rows (50 to 100 ms) and, at first, a worker (a second)."""


def task_count(job: Job, settings: Settings, plan: Plan, engine: Engine, tasks: str | int, head: Commit | None) -> int:
    """How many tasks a batch is cut into. A number is kept to; "auto" are the key ranges that operators ask for, else
    what the engine runs at once, of a small batch only as many as its functions keep busy."""
    if tasks != "auto":
        if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
            raise InvalidInput(f"tasks={tasks!r}, expected 'auto' or a number from 1 on")
        return tasks
    if job.ranges is not None:
        return job.ranges
    size = _size(plan)
    if size > _task_bytes(job, settings):
        return engine.parallelism
    wanted = int(size * _last_pace(job, head) / MIB / WORTH_A_TASK_MS)
    return min(wanted, engine.interpreters) if wanted > 1 else 1


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


def pace(job: Job, plan: Plan, metrics: Mapping[str, OperatorMetrics], head: Commit | None) -> dict[str, str]:
    """What a commit's `engine` says of the user's functions: the pace of this batch, or, where it had no input, the
    one before it; nothing where no operator has a function."""
    took = [metrics[name].apply_ms for name in job.functions if name in metrics]
    if not took:
        return {}
    size = _size(plan)
    if size:
        return {PACE: str(round(sum(took) * MIB / size))}
    return {PACE: head.engine[PACE]} if head is not None and PACE in head.engine else {}


def _last_pace(job: Job, head: Commit | None) -> int:
    """The pace that the batch before says; 0 where it says none, or nothing of the user's is called any more."""
    said = head.engine.get(PACE, "") if head is not None and job.functions else ""
    return int(said) if said.isascii() and said.isdecimal() else 0


def _size(plan: Plan) -> int:
    return sum(split.size for split in plan.splits)


def _task_bytes(job: Job, settings: Settings) -> int:
    """How much input one task takes by itself: more where no row costs a call of Python, little where a key costs
    pandas frames, since those of some hundred keys take as long as an exchange."""
    if job.makes_frames:
        return settings.task_bytes // 512
    return settings.task_bytes * (1 if job.functions else 4)

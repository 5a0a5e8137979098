"""Cuts a batch into tasks: how many key ranges it has, and which scatter task reads which splits."""

from __future__ import annotations

import dataclasses
from typing import Literal

from ..batch.batch import Batch
from ..batch.work import Engine
from ..pipeline.job import Job
from ..protocol.records import Plan
from ..settings import Settings

TaskCount = int | Literal["auto"]

_NATIVE_FACTOR = 4
"""A task takes more input if no row costs a call of a Python function."""
_FRAMES_DIVISOR = 512
"""A task takes little input if each key costs pandas frames: those of some hundred keys take as long as an exchange."""


def task_count(plan: Plan, engine: Engine, tasks: TaskCount, task_bytes: int, ranges: int | None = None) -> int:
    """Return how many tasks a batch is cut into.

    "auto" means `ranges` if operators ask for a number of key ranges. Otherwise a batch of at most `task_bytes` is one
    task, and a larger one is cut into as many tasks as the engine runs at once.
    """
    if tasks != "auto":
        return tasks
    if ranges is not None:
        return ranges
    is_small = sum(split.size for split in plan.splits) <= task_bytes
    return 1 if is_small else engine.parallelism


def task_bytes(job: Job, settings: Settings) -> int:
    """Return how much input one task takes by itself, given what the rows of this job cost."""
    if job.makes_frames:
        return settings.task_bytes // _FRAMES_DIVISOR
    return settings.task_bytes if job.functions else settings.task_bytes * _NATIVE_FACTOR


def assigned(batch: Batch) -> Batch:
    """Return the batch with its splits dealt to scatter tasks: largest first, to the task with the fewest bytes."""
    splits = batch.plan.splits
    count = min(batch.tasks, len(splits))
    dealt: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for number in sorted(range(len(splits)), key=lambda n: -splits[n].size):
        task = loads.index(min(loads))
        dealt[task].append(number)
        loads[task] += splits[number].size
    return dataclasses.replace(batch, assignment=tuple(tuple(sorted(numbers)) for numbers in dealt))

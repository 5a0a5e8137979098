"""Cuts a batch into tasks: how many key ranges it has, and which scatter task reads which splits."""

from __future__ import annotations

import dataclasses
from typing import Literal

from ..batch.batch import Batch
from ..batch.input import small_groups
from ..batch.work import Engine
from ..pipeline.job import Job
from ..protocol.records import Commit, Plan
from ..settings import Settings
from ..values import dataclass
from .engine import estimated_rows, planned_bytes, read_bytes, state_bytes

TaskCount = int | Literal["auto"]

_NATIVE_FACTOR = 4
"""A task takes more input if no row costs a call of a Python function."""
_FRAMES_DIVISOR = 512
"""A task takes little input if each key costs pandas frames: those of some hundred keys take as long as an exchange."""
# Memory for which a batch is cut into key ranges, from measurements of benchmarks/memory.py.
_STATE_ROW_BYTES = 48
"""A row of state beside its values: hash, key and deadline of a short key."""
_STORED_FACTOR = 3
"""How many bytes of memory a stored byte of state stands for."""
_COPIES = 2
"""A task that merges runs holds its state twice: as it was, and merged."""
_INPUT_ROW_BYTES = 192
"""A row of input with a new key: waiting, grouped, as changed state, and encoded."""
_TEXT_OF_ROW = 16
"""Bytes of text in a row of input, if no earlier batch says how many there are. Few, because short rows need most."""
_MOST_RANGES = 4096
"""More ranges cost more than the memory that they save: each is a task and an object or two."""


@dataclass(frozen=True)
class Cut:
    """What decides how many key ranges a batch has, beside the plan and the engine."""

    task_bytes: int
    """Input up to which the batch is one task."""
    ranges: int | None = None
    """The number of key ranges that operators ask for."""
    least: int = 1
    """The least number of key ranges with which each range fits into a task's memory."""


def task_count(plan: Plan, engine: Engine, tasks: TaskCount, cut: Cut) -> int:
    """Return how many tasks a batch is cut into.

    "auto" means `cut.ranges` if operators ask for a number of key ranges. Otherwise a batch of at most `cut.task_bytes`
    is one task, and a larger one is cut into as many tasks as the engine runs at once. Either is cut into at least
    `cut.least` tasks, of which the engine runs a few at a time.
    """
    if tasks != "auto":
        return tasks
    if cut.ranges is not None:
        return cut.ranges
    is_small = planned_bytes(plan) <= cut.task_bytes
    return max(1 if is_small else engine.parallelism, cut.least)


def scatter_count(engine: Engine, tasks: int, cut: Cut) -> int:
    """Return how many tasks read the input. More key ranges than run at once, for memory, need no more readers."""
    is_cut_for_memory = tasks == cut.least and tasks > engine.parallelism
    return engine.parallelism if is_cut_for_memory else tasks


def cut_of(job: Job, settings: Settings, head: Commit | None, plan: Plan) -> Cut:
    """Return what decides how many key ranges a batch over the version `head` has."""
    return Cut(task_bytes(job, settings), job.ranges, least_ranges(job, settings, head, plan))


def task_bytes(job: Job, settings: Settings) -> int:
    """Return how much input one task takes by itself, given what the rows of this job cost."""
    if job.makes_frames:
        return settings.task_bytes // _FRAMES_DIVISOR
    return settings.task_bytes if job.functions else settings.task_bytes * _NATIVE_FACTOR


def least_ranges(job: Job, settings: Settings, head: Commit | None, plan: Plan) -> int:
    """Return into how many key ranges a batch is cut so that each needs at most `task_memory_bytes`: a power of two.

    Powers of two, because ranges of one cut are then whole parts of those of another, also while a state grows.
    """
    known = {} if head is None else head.rows
    rows = sum(sum(maps.values()) for name, maps in known.items() if name in job.operators)
    state = rows * _STATE_ROW_BYTES + state_bytes(job, head) * _STORED_FACTOR
    needed = _COPIES * (state + read_bytes(plan)) + _rows_of(plan, head) * _INPUT_ROW_BYTES
    ranges = -(-needed // settings.task_memory_bytes)
    return min(_MOST_RANGES, 1 << (ranges - 1).bit_length()) if ranges > 1 else 1


def _rows_of(plan: Plan, head: Commit | None) -> int:
    """Return about how many rows the plan reads. Without an earlier version, its rows count as short."""
    known = estimated_rows(head, planned_bytes(plan))
    return read_bytes(plan) // _TEXT_OF_ROW if known is None else known


def assigned(batch: Batch, scatter_tasks: int) -> Batch:
    """Return the batch with its splits dealt to `scatter_tasks` tasks at most.

    The largest are dealt first, each to the task with the fewest bytes. Small ones that follow each other are dealt
    together, because a task reads and sends them together.
    """
    splits = batch.plan.splits
    count = min(scatter_tasks, len(splits))
    dealt: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    units = small_groups(splits, range(len(splits)), most=max(1, len(splits) // (4 * max(1, count))))
    sizes = [sum(splits[number].size for number in unit) for unit in units]
    for place in sorted(range(len(units)), key=lambda place: -sizes[place]):
        task = loads.index(min(loads))
        dealt[task] += units[place]
        loads[task] += sizes[place]
    return dataclasses.replace(batch, assignment=tuple(tuple(sorted(numbers)) for numbers in dealt))

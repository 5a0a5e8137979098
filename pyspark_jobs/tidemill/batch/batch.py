"""`Batch`: everything that the tasks of one batch know: the job, the plan, and the version below it.

It holds values only and is sent to the workers, which open their own stores and caches.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from .. import _native
from ..pipeline.job import Job, Placed, Port
from ..protocol.records import Plan, Segment
from ..protocol.time import after_batch
from ..settings import Settings
from ..sources.contract import BeingRead, EarlyFiles, ReadContext
from ..store import Store, open_store
from ..values import dataclass
from .ranges import cut


@dataclass(frozen=True)
class Batch:
    """One batch over one version of the state."""

    job: Job
    plan: Plan
    attempt: str
    root: str
    storage_options: Mapping[str, Mapping[str, Any]]
    settings: Settings
    state: Mapping[str, Mapping[str, list[Segment]]]
    """The live segments of the version below."""
    watermarks: Mapping[str, int]
    """W(N−1) of each watermark in ms. A missing one is 0."""
    tasks: int
    """Key ranges of every level."""
    begins: frozenset[str] = frozenset()
    """The operators with an initial state for which this is the first batch."""
    active: Mapping[str, int] = field(default_factory=dict)
    """The batch time of the last batch with event times, by watermark. A missing watermark had none yet."""
    assignment: tuple[tuple[int, ...], ...] = field(default=())
    """The numbers of the plan's splits, by scatter task."""
    early: EarlyFiles = field(default_factory=dict)
    """Files that the driver has read already. Empty unless the tasks run in its process."""
    being_read: Mapping[tuple[str, str], BeingRead] = field(default_factory=dict)
    """Files that are read since the batch before ran. Empty unless the tasks run in the process of the driver."""

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The key ranges."""
        return cut(self.tasks)

    @property
    def levels(self) -> int:
        """How many exchanges deep the batch is."""
        return self.job.levels

    def store(self) -> Store:
        """Open the repository's store in this process."""
        return open_store(self.root, self.storage_options.get("root")).at(self.job.pipeline)

    def read_context(self) -> ReadContext:
        """Return the settings that sources are read with."""
        return replace(reading_of(self.job, self.storage_options), early=self.early, being_read=self.being_read)

    def preparing(self, port: Port) -> Any:
        """Return the pass in which rows of an input are prepared. They are late by W(N−1) of that input."""
        operator = self.job.operators[port.operator.name]
        return _native.Pass(
            "data", self.plan.batch_time_ms, port.least(self.watermarks), operator.least(self.watermarks)
        )

    def data_pass(self, placed: Placed) -> Any:
        """Return the data pass of an operator. It sees W(N−1), the least of its inputs."""
        before = placed.least(self.watermarks)
        return _native.Pass("data", self.plan.batch_time_ms, before, before)

    def due_pass(self, placed: Placed, after: Mapping[str, int]) -> Any:
        """Return the due pass of an operator, after the watermarks moved to `after`."""
        before = placed.least(self.watermarks)
        return _native.Pass("due", self.plan.batch_time_ms, before, placed.least(after))

    def watermarks_after(self, greatest: Mapping[str, int | None]) -> dict[str, int]:
        """Return W(N) of each watermark, given the greatest event time that this batch saw."""
        return after_batch(self.job.watermarks, self.watermarks, greatest, self.active, self.plan.batch_time_ms)


def reading_of(job: Job, storage_options: Mapping[str, Mapping[str, Any]]) -> ReadContext:
    """Return the settings that the sources of a job are read with, with all columns."""
    options = dict(storage_options.get("source") or {})
    return ReadContext(storage_options=options, time_zone=job.time_zone, metadata=job.metadata)


def task_attempt() -> str:
    """Return a random id for this try of a task."""
    return uuid.uuid4().hex[:8]

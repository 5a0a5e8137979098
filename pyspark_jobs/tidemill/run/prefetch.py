"""Reading before it is needed: beside the create of a plan, beside the publishing of a batch, and for the next batch.

INVARIANT: whether another command came first is asked while the plan is created, or after it. If one comes later, the
create of the commit decides. Reading files of the plan early stores nothing, so nothing of a batch is stored before its
plan. Each answer counts once: whoever takes it removes it, so that a later step asks again. What the next batch will
read is a guess, because a plan alone decides that; what is raised there must not end the batch that runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from ..batch.batch import reading_of
from ..batch.input import TOGETHER_BYTES, columns_read
from ..batch.work import Engine
from ..pipeline.job import Job
from ..protocol import decide
from ..protocol.log import Looked
from ..protocol.records import Commit, Plan, Split
from ..repo.opened import Opened
from ..sources import asked
from ..sources.asked import read_early
from ..sources.contract import BeingRead, Early, EarlyFiles, SourceFile
from ..store import side_by_side
from ..values import dataclass
from .engine import planned_bytes

EARLY_BYTES = 8 * 1024**2
"""The most bytes of files that the driver reads beside the plan. More takes longer than a request."""
SHIPPED_BYTES = 512 * 1024
"""The same on Spark, where the files go to the workers with each task. From 1 MiB on, PySpark makes it a broadcast."""


@dataclass(frozen=True)
class Created:
    """A plan as it is stored, and what was read while it was created.

    `is_checked`: this call created it, `head` was the newest commit meanwhile, and entries of `refs/` were read.
    """

    plan: Plan
    is_checked: bool = False
    head: Commit | None = None
    early: EarlyFiles = field(default_factory=dict)


def create_plan(repo: Opened, plan: Plan, engine: Engine) -> Created:
    """Create the plan, or return the one that another run created first."""
    if repo.store.requests_at_once == 1:
        return Created(repo.log.create_plan(plan))
    reads = _early_reads(repo, plan, engine)
    calls: list[Callable[[], Any]] = [partial(repo.log.create_plan, plan), repo.refresh, repo.log.head]
    stored, _, newest, *read = side_by_side(repo.store, [*calls, *reads.values()])
    early = {name: one for name, one in zip(reads, read, strict=True) if one is not None}
    return Created(stored, stored.plan_id == plan.plan_id, repo.ours(newest), early)


def _early_reads(repo: Opened, plan: Plan, engine: Engine) -> dict[tuple[str, str], Callable[[], Early | None]]:
    """Return the calls that read the files of a plan, by source and path. Empty unless they are few and small."""
    store, options = repo.store, dict(repo.storage_options.get("source") or {})
    most = EARLY_BYTES if engine.name == "local" else SHIPPED_BYTES
    if len(plan.splits) > store.requests_at_once or planned_bytes(plan) > most:
        return {}
    sources = repo.job.sources
    return {(one.source, one.path): partial(read_early, sources[one.source], one, options) for one in plan.splits}


class Prefetched:
    """The answers that wait to be taken: a look at the log, and what was read while a plan was created."""

    def __init__(self, repo: Opened) -> None:
        self.repo = repo
        self.looked: Looked | None = None
        self.created: Created | None = None

    def head(self) -> Commit | None:
        """Return the newest commit, from the look at the log if there is one. The look stays, for `take_looked`."""
        return self.repo.head() if self.looked is None else self.repo.ours(self.looked.head)

    def take_looked(self) -> Looked | None:
        """Take the look at the log; None if the log must be asked."""
        looked, self.looked = self.looked, None
        return looked

    def take_created(self, plan: Plan) -> Created | None:
        """Take what was read while this run created the plan; None if `refs/` and the head must be asked for."""
        created, self.created = self.created, None
        return created if created is not None and created.is_checked and created.plan is plan else None


MOST_FILES = 8
_MOST_BYTES = 16 * 1024**2
"""How many files are read ahead at most, and how many bytes they have."""
_KEPT_BYTES = 64 * 1024**2
"""About how many bytes their rows take at most."""


def upcoming(repo: Opened, waiting: Mapping[str, Sequence[SourceFile]], plan: Plan) -> list[Split]:
    """Return the first splits of the batch after a plan, given the files that waited for the plan, by source.

    They are of one source, which can read ahead. Large files are left out, so that none is opened to split it.
    """
    planned = {(split.source, split.path) for split in plan.splits}
    options = dict(repo.storage_options.get("source") or {})
    for name, files in waiting.items():
        source = repo.job.sources[name]
        left = itertools.islice((one for one in files if (name, one.path) not in planned), MOST_FILES + 1)
        intake = asked.intake_of(source)
        picked = decide.choose_files(list(left), intake.max_files, intake.max_bytes)
        if picked and asked.reads_ahead(source) is not None and all(one.size <= _MOST_BYTES for one in picked):
            return asked.splits(source, picked, options, max(_MOST_BYTES, repo.settings.split_bytes))
    return []


def begin_reading(
    job: Job, storage_options: Mapping[str, Mapping[str, Any]], splits: Sequence[Split], block_rows: int
) -> dict[tuple[str, str], BeingRead]:
    """Begin to read the first splits of a batch, as far as their source can. Return them by source and path.

    Small files that are read together are left to the batch.
    """
    chosen: list[Split] = []
    for split in splits[:MOST_FILES]:
        is_part = split.requeued is not None or split.row_groups is not None
        is_together = len(splits) > 1 and split.size <= TOGETHER_BYTES
        size = split.size + sum(one.size for one in chosen)
        if is_part or is_together or size > _MOST_BYTES or split.source != splits[0].source:
            break
        chosen.append(split)
    source = asked.reads_ahead(job.sources[chosen[0].source]) if chosen else None
    if source is None:
        return {}
    reading = columns_read(job, chosen[0].source, reading_of(job, storage_options))
    return {
        (one.split.source, one.split.path): one for one in source.read_ahead(chosen, block_rows, reading, _KEPT_BYTES)
    }

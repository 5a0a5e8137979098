"""Which engine runs each batch of a run. With `auto`, a small one pays for no JVM, a large one gets the whole cluster.

INVARIANT: the choice depends on the plan, the code, the settings, and what the version before says of its state and its
rows, and is made before a JVM starts. Both engines make the same bits, so the choice changes no result. An idle run
starts no engine, and a run that has started Spark or moved to it stays there.
"""

from __future__ import annotations

import logging
from typing import Any, Literal

from ..batch.work import Engine
from ..engines import engine_for, has_spark
from ..names import AUTO, CHOICES
from ..pipeline.job import Job
from ..protocol.records import Commit, Plan
from ..repo.opened import Opened
from ..settings import Settings
from ..spelling import unknown
from .workers import check_shared_folders, check_workers

NATIVE_FACTOR = 8
"""How much more input is small if no row costs a call of a Python function."""
FRAMES_DIVISOR = 16
"""How much less input is small if each key costs pandas frames."""
PARQUET_FACTOR = 4
"""How many bytes of text a byte of Parquet stands for."""


ROW_BYTES = 40
"""How many bytes of text a row costs at least, so that short or compressed rows do not count as little input."""


def is_small(job: Job, settings: Settings, head: Commit | None, plan: Plan) -> bool:
    """Whether a batch runs on engine `local`: what waits and the state that it may touch are small.

    Files that wait behind the batch count, because one drain reads them too.
    """
    return (
        waiting_bytes(head, plan) <= local_bytes(job, settings) and state_bytes(job, head) <= settings.local_state_bytes
    )


def waiting_bytes(head: Commit | None, plan: Plan) -> int:
    """Return the input of a plan and what waits behind it, as bytes of text: of the files, or if more, of their rows.

    How many rows there are is estimated from the version before. Without one, the bytes of the files count.
    """
    stored = planned_bytes(plan)
    whole = stored + plan.outstanding_bytes
    text = whole * read_bytes(plan) // stored if stored else whole
    return max(text, (estimated_rows(head, whole) or 0) * ROW_BYTES)


def estimated_rows(head: Commit | None, stored: int) -> int | None:
    """Return about how many rows stored bytes have, given those of the version before; None if it read no file."""
    if head is None or not head.counts.input_bytes:
        return None
    return stored * head.counts.input_rows // head.counts.input_bytes


def planned_bytes(plan: Plan) -> int:
    """Return the input of a plan, as the bytes that are stored."""
    return sum(split.size for split in plan.splits)


def read_bytes(plan: Plan) -> int:
    """Return the input of a plan, as bytes of text."""
    return sum(split.size * (PARQUET_FACTOR if split.path.endswith(".parquet") else 1) for split in plan.splits)


def local_bytes(job: Job, settings: Settings) -> int:
    """Return how much input is small for a pipeline, given what its rows cost."""
    if job.makes_frames:
        return settings.local_bytes // FRAMES_DIVISOR
    return settings.local_bytes if job.functions else settings.local_bytes * NATIVE_FACTOR


def state_bytes(job: Job, head: Commit | None) -> int:
    """Return the size of the state of the job's operators."""
    metrics = {} if head is None else head.operators
    return sum(one.state_bytes for name, one in metrics.items() if name in job.operators)


LOG = logging.getLogger("tidemill")


def engine_of(repo: Opened, spark: Any, name: str, tasks: int | Literal["auto"] = "auto") -> Engine:
    """Return the engine `local` or `spark` with the settings of a repository. It starts a session if none is given."""
    return engine_for(spark, name, tasks, repo.spark_conf, repo.settings.executor_wait)


class Choice:
    """The engine of each batch of one run. "auto" is Spark if a session is given; otherwise the batch decides."""

    def __init__(self, repo: Opened, spark: Any, engine: str, tasks: int | Literal["auto"]) -> None:
        if engine not in CHOICES:
            raise unknown("engine", str(engine), CHOICES)
        self.repo = repo
        self._spark, self._engine, self._tasks = spark, engine, tasks
        self._started: dict[str, Engine] = {}
        self._has_moved = False

    def engine(self, head: Commit | None, plan: Plan) -> Engine:
        """Return the engine of a batch over the version `head`. It is started, and workers are asked, only once."""
        name = self._name(head, plan)
        if name not in self._started:
            found = engine_of(self.repo, self._spark, name, self._tasks)
            if found.is_remote:
                check_shared_folders(self.repo)
                for warning in check_workers(self.repo, found, plan):
                    LOG.warning("%s", warning)
            self._started[name] = found
        return self._started[name]

    def may_move(self, head: Commit | None, plan: Plan) -> bool:
        """Whether a batch runs in this process only because too little waits for Spark."""
        is_chosen = self._engine == AUTO and self._spark is None
        return is_chosen and has_spark() and self._name(head, plan) == "local"

    def move(self, head: Commit | None, plan: Plan) -> bool:
        """Move to Spark for the rest of the run if a batch with this plan is one for Spark. Return whether it is."""
        self._has_moved = self._name(head, plan) == "spark"
        return self._has_moved

    def _name(self, head: Commit | None, plan: Plan) -> str:
        if self._engine != AUTO:
            return self._engine
        if self._spark is not None or self._has_moved or "spark" in self._started:
            return "spark"
        return "local" if is_small(self.repo.job, self.repo.settings, head, plan) or not has_spark() else "spark"

"""`Choice`: which engine runs each batch of a run, started when it is first needed.

INVARIANT: an idle run starts no engine, and a run that has started Spark or moved to it stays there.
"""

from __future__ import annotations

import logging
from typing import Any, Literal

from ..batch.work import Engine
from ..engines import engine_for, has_spark
from ..names import AUTO, CHOICES
from ..protocol.records import Commit, Plan
from ..repo.opened import Context
from ..spelling import unknown
from .auto import is_small
from .workers import check_folders, check_workers

LOG = logging.getLogger("tidemill")


class Choice:
    """The engine of each batch of one run. "auto" is Spark if a session is given; otherwise the batch decides."""

    def __init__(self, context: Context, spark: Any, engine: str, tasks: int | Literal["auto"]) -> None:
        if engine not in CHOICES:
            raise unknown("engine", str(engine), CHOICES)
        self.context = context
        self._spark, self._engine, self._tasks = spark, engine, tasks
        self._started: dict[str, Engine] = {}
        self._has_moved = False

    def engine(self, head: Commit | None, plan: Plan) -> Engine:
        """Return the engine of a batch over the version `head`. It is started, and workers are asked, only once."""
        name = self._name(head, plan)
        if name not in self._started:
            conf, wait = self.context.spark_conf, self.context.settings.executor_wait
            found = engine_for(self._spark, name, self._tasks, conf, wait)
            if found.is_remote:
                check_folders(self.context)
                for warning in check_workers(self.context, found, plan):
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
        return "local" if is_small(self.context.job, self.context.settings, head, plan) or not has_spark() else "spark"

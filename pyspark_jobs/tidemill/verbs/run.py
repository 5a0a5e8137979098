"""`run` and `sweep`: process waiting files, and fire due timeouts.

INVARIANT: the engine starts only when there is work for it, so an idle run starts no Spark session.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

from ..batch.work import Engine
from ..driver.auto import is_small
from ..driver.context import Context
from ..driver.drain import Drain, Drained, EngineOf, Limits, OnProgress
from ..driver.workers import check_folders, check_workers
from ..engines import engine_for, has_spark
from ..names import AUTO, CHOICES
from ..protocol.records import Commit, Plan
from ..spelling import unknown

LOG = logging.getLogger("tidemill")


def run(context: Context, spark: Any, engine: str, limits: Limits, on_progress: OnProgress | None = None) -> Drained:
    """Publish the outputs that an earlier run left, process waiting files, then fire due timeouts."""
    return Drain(context, engine_on_demand(context, spark, engine, limits), limits, on_progress).run()


def sweep(context: Context, spark: Any, engine: str, limits: Limits, on_progress: OnProgress | None = None) -> Drained:
    """Fire due timeouts without reading input."""
    return Drain(context, engine_on_demand(context, spark, engine, limits), limits, on_progress).sweep()


def engine_on_demand(context: Context, spark: Any, engine: str, limits: Limits) -> EngineOf:
    """Return a function that starts the engine of a batch when it is first needed, and then returns the same one.

    "auto" is Spark if a session is given. Otherwise it chooses for each batch, and stays with Spark once that runs.
    """
    if engine not in CHOICES:
        raise unknown("engine", str(engine), CHOICES)
    started: set[str] = set()

    @cache
    def start(name: str) -> Engine:
        started.add(name)
        return engine_for(spark, name, limits.tasks, context.spark_conf, context.settings.executor_wait)

    def name_of(head: Commit | None, plan: Plan) -> str:
        if engine != AUTO:
            return engine
        if spark is not None or "spark" in started:
            return "spark"
        return "local" if is_small(context.job, context.settings, head, plan) or not has_spark() else "spark"

    def of_batch(head: Commit | None, plan: Plan) -> Engine:
        found = start(name_of(head, plan))
        if found.is_remote and not asked:
            check_folders(context)
            for warning in check_workers(context, found, plan):
                LOG.warning("%s", warning)
            asked.append(found)
        return found

    asked: list[Engine] = []
    return of_batch

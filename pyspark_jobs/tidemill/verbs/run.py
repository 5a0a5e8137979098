"""`run` and `sweep`: process waiting files, and fire due timeouts.

INVARIANT: the engine starts only when there is work for it, so an idle run starts no Spark session.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ..batch.work import Engine
from ..driver.context import Context
from ..driver.drain import Drain, Drained, Limits, OnProgress
from ..engines import engine_for
from ..names import ENGINES
from ..spelling import unknown


def run(context: Context, spark: Any, engine: str, limits: Limits, on_progress: OnProgress | None = None) -> Drained:
    """Publish the outputs that an earlier run left, process waiting files, then fire due timeouts."""
    return Drain(context, engine_on_demand(context, spark, engine, limits), limits, on_progress).run()


def sweep(context: Context, spark: Any, engine: str, limits: Limits, on_progress: OnProgress | None = None) -> Drained:
    """Fire due timeouts without reading input."""
    return Drain(context, engine_on_demand(context, spark, engine, limits), limits, on_progress).sweep()


def engine_on_demand(context: Context, spark: Any, engine: str, limits: Limits) -> Callable[[], Engine]:
    """Return a function that starts the engine when it is first called, and returns the same engine afterwards."""
    if engine not in ENGINES:
        raise unknown("engine", str(engine), ENGINES)

    @cache
    def start() -> Engine:
        return engine_for(spark, engine, limits.tasks, context.spark_conf)

    return start

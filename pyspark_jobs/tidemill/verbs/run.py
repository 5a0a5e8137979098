"""`run` and `sweep`: drain what waits, fire what is due. The engine is started only when there is work for it."""

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
    """Publishes what an earlier run left, drains, fires what is due."""
    return Drain(context, _lazily(context, spark, engine, limits), limits, on_progress).run()


def sweep(context: Context, spark: Any, engine: str, limits: Limits, on_progress: OnProgress | None = None) -> Drained:
    """Fires what is due, without input."""
    return Drain(context, _lazily(context, spark, engine, limits), limits, on_progress).sweep()


def _lazily(context: Context, spark: Any, engine: str, limits: Limits) -> Callable[[], Engine]:
    if engine not in ENGINES:
        raise unknown("engine", str(engine), ENGINES)

    @cache
    def start() -> Engine:
        return engine_for(spark, engine, limits.tasks, context.spark_conf)

    return start

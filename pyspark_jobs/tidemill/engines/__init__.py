"""Engines only move chunks: `local` in this process, `spark` by RDDs, `connect` by `mapInArrow`. The only pyspark.

`engine_for` picks one; nothing of pyspark is imported before an engine needs it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from ..batch.work import Engine
from ..errors import InvalidInput
from ..names import ENGINES
from ..spelling import unknown

__all__ = ["engine_for"]

_MOST_LOCAL_TASKS = 4
_CONNECT = "pyspark.sql.connect"


def engine_for(
    spark: Any = None,
    name: str = "spark",
    tasks: int | Literal["auto"] = "auto",
    conf: Mapping[str, str] | None = None,
) -> Engine:
    """The engine that `name` (`local` or `spark`) means: on the session `spark`, else on one started with `conf`.

    A session of Spark Connect gives the Connect engine. `tasks="auto"` is as many as there are cores; a number fixes
    it. `InvalidInput`: another name, `local` with a session, a session that has been stopped, no Java or no pyspark.
    """
    count = _task_count(tasks)
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    if name == "local":
        if spark is not None:
            raise InvalidInput("engine `local` runs without Spark, but a Spark session was given: pass one of them")
        from .local import LocalEngine

        return LocalEngine(count or min(_cores(), _MOST_LOCAL_TASKS))
    if spark is None:
        from .session import start, start_context, wants_connect

        if not wants_connect(conf or {}):
            return _on_spark(start_context(conf or {}), count)
        spark = start(conf or {})
    if is_connect(spark):
        from .connect import ConnectEngine

        return ConnectEngine(spark, count)
    context = spark.sparkContext
    if context._jsc is None:
        raise InvalidInput(
            "run a batch on engine `spark`: the session that was given has been stopped",
            hint="start one, or give none: then one is started",
        )
    return _on_spark(context, count)


def is_connect(spark: Any) -> bool:
    """Whether `spark` is a session of Spark Connect; told by its class, without importing anything."""
    return any(kind.__module__.startswith(_CONNECT) for kind in type(spark).__mro__)


def _on_spark(context: Any, tasks: int | None) -> Engine:
    from .spark import SparkEngine

    return SparkEngine(context, tasks)


def _task_count(tasks: int | str) -> int | None:
    if tasks == "auto":
        return None
    if isinstance(tasks, int) and not isinstance(tasks, bool) and tasks >= 1:
        return tasks
    raise InvalidInput(f"tasks is {tasks!r}: expected `auto` or a number from 1")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

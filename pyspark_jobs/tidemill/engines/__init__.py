"""Engines move chunks between tasks: `local` in this process, `spark` by RDDs, `connect` by `mapInArrow`.

`engine_for` chooses one. This is the only package that imports pyspark, and it does so only when an engine needs it.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Any, Literal

from ..batch.work import Engine
from ..errors import InvalidInput
from ..names import ENGINES
from ..settings import Settings
from ..spelling import unknown

__all__ = ["engine_for", "has_spark"]

_MOST_LOCAL_TASKS = 4
_CONNECT = "pyspark.sql.connect"


def engine_for(
    spark: Any = None,
    name: str = "spark",
    tasks: int | Literal["auto"] = "auto",
    conf: Mapping[str, str] | None = None,
    executor_wait_ms: int = Settings.executor_wait,
) -> Engine:
    """Return the engine called `name`: `local` or `spark`.

    Spark runs on the session `spark`, or on a new session with the settings `conf`. A session of Spark Connect gives
    the Connect engine. `tasks="auto"` runs as many tasks at once as there are cores. `local` never runs more at once;
    further tasks only cut the state into smaller parts. On a cluster, a job fails if it has no executor for
    `executor_wait_ms`. `InvalidInput` is raised for another name, for `local` with a session, for a stopped session,
    and if Java or pyspark is missing.
    """
    count = None if tasks == "auto" else tasks
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    if name == "local":
        if spark is not None:
            raise InvalidInput(
                "engine `local` runs without Spark, but a Spark session was given",
                hint='pass the session with engine="spark", or omit it',
            )
        from .local import LocalEngine

        return LocalEngine(min(count or _MOST_LOCAL_TASKS, _cores()))
    if spark is None:
        from .session import start, start_context, wants_connect

        if not wants_connect(conf or {}):
            return _on_spark(start_context(conf or {}), count, executor_wait_ms)
        spark = start(conf or {})
    if is_connect(spark):
        from .connect import ConnectEngine

        return ConnectEngine(spark, count)
    context = spark.sparkContext
    if context._jsc is None:
        raise InvalidInput(
            "run a batch on engine `spark`: the given session has been stopped",
            hint="pass a running session, or none: Tidemill then starts one",
        )
    return _on_spark(context, count, executor_wait_ms)


def has_spark() -> bool:
    """Whether PySpark is installed. Nothing is imported."""
    return importlib.util.find_spec("pyspark") is not None


def is_connect(spark: Any) -> bool:
    """Whether `spark` is a session of Spark Connect, judged by its class without importing anything."""
    return any(kind.__module__.startswith(_CONNECT) for kind in type(spark).__mro__)


def _on_spark(context: Any, tasks: int | None, executor_wait_ms: int) -> Engine:
    from .spark import SparkEngine

    return SparkEngine(context, tasks, executor_wait_ms)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Tidemill: stateful stream processing as a series of ordinary batch runs.

This module lists the public names. INVARIANT: a name is loaded when it is first used, so `import tidemill` is fast and
imports neither pyspark nor airflow nor pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import testing
    from ._native import GroupState
    from .errors import (
        CallRefused,
        CorruptState,
        Fenced,
        InternalError,
        InvalidInput,
        StateNotSet,
        StoreUnavailable,
        TidemillError,
    )
    from .inference.schema_of import schema_of
    from .operators.functions import (
        approx_count_distinct,
        collect_set,
        count,
        first,
        last,
        max,
        max_by,
        mean,
        min,
        min_by,
        stddev,
        sum,
        var,
    )
    from .operators.map_with_state import StateSpec
    from .operators.session_window import session_window
    from .operators.stateful_processor import StatefulProcessor, StatefulProcessorHandle
    from .operators.window import window
    from .pipeline.grouped import GroupedStream
    from .pipeline.load import load
    from .pipeline.pipeline import Pipeline
    from .pipeline.stream import Stream
    from .protocol.progress import BatchProgress
    from .reader import Reader, read
    from .repository import Repository, open
    from .rows import Row
    from .sinks.files import Json, Parquet
    from .sources.files import Files
    from .sources.rows import Rows
    from .standalone.state_map import StateMap
    from .standalone.state_store import StateStore
    from .submit import SparkJob, submit_args

_HOME = {
    "BatchProgress": "protocol.progress",
    "CallRefused": "errors",
    "CorruptState": "errors",
    "Fenced": "errors",
    "Files": "sources.files",
    "GroupState": "_native",
    "GroupedStream": "pipeline.grouped",
    "InternalError": "errors",
    "InvalidInput": "errors",
    "Json": "sinks.files",
    "Parquet": "sinks.files",
    "Pipeline": "pipeline.pipeline",
    "Reader": "reader",
    "Repository": "repository",
    "Row": "rows",
    "Rows": "sources.rows",
    "SparkJob": "submit",
    "StateMap": "standalone.state_map",
    "StateNotSet": "errors",
    "StateSpec": "operators.map_with_state",
    "StateStore": "standalone.state_store",
    "StatefulProcessor": "operators.stateful_processor",
    "StatefulProcessorHandle": "operators.stateful_processor",
    "StoreUnavailable": "errors",
    "Stream": "pipeline.stream",
    "TidemillError": "errors",
    "approx_count_distinct": "operators.functions",
    "collect_set": "operators.functions",
    "count": "operators.functions",
    "first": "operators.functions",
    "last": "operators.functions",
    "load": "pipeline.load",
    "max": "operators.functions",
    "max_by": "operators.functions",
    "mean": "operators.functions",
    "min": "operators.functions",
    "min_by": "operators.functions",
    "open": "repository",
    "read": "reader",
    "schema_of": "inference.schema_of",
    "session_window": "operators.session_window",
    "stddev": "operators.functions",
    "submit_args": "submit",
    "sum": "operators.functions",
    "var": "operators.functions",
    "window": "operators.window",
}

__all__ = [
    "BatchProgress",
    "CallRefused",
    "CorruptState",
    "Fenced",
    "Files",
    "GroupState",
    "GroupedStream",
    "InternalError",
    "InvalidInput",
    "Json",
    "Parquet",
    "Pipeline",
    "Reader",
    "Repository",
    "Row",
    "Rows",
    "SparkJob",
    "StateMap",
    "StateNotSet",
    "StateSpec",
    "StateStore",
    "StatefulProcessor",
    "StatefulProcessorHandle",
    "StoreUnavailable",
    "Stream",
    "TidemillError",
    "approx_count_distinct",
    "collect_set",
    "count",
    "first",
    "last",
    "load",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "open",
    "read",
    "schema_of",
    "session_window",
    "stddev",
    "submit_args",
    "sum",
    "testing",
    "var",
    "window",
]


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module(".testing", __name__)
    if name == "__version__":
        return importlib.import_module(".installed", __name__).version_of_tidemill()
    if name not in _HOME:
        answers = importlib.import_module(".pipeline.pyspark_names", __name__)
        raise answers.missing_name(f"module `{__name__}`", name, answers.OF_THE_MODULE)
    found = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)

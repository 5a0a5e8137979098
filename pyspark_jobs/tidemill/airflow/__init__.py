"""Tidemill in Airflow: DAGs and operators that start the command line as a child process.

Importing this package does not import Airflow until you use one of its names. INVARIANT: nothing here imports pyspark,
boto3, pandas or the pipeline's code, because Airflow parses a DAG file every 30 seconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..actions.registry import ACTIONS, airflow_operator_of

if TYPE_CHECKING:
    from .calls.options import Correct, Freshness, Launch, Maintain, Replay, Run, Sweep, Watch
    from .dags.pipeline import tidemill_dags
    from .dags.streams import tidemill_dags_from
    from .new_files import NewFilesTrigger
    from .tasks.action_operators import *  # noqa: F403
    from .tasks.assets import sink_asset
    from .tasks.branching import (
        TidemillBranchOperator,
        TidemillCheckOperator,
        TidemillDiffOperator,
        TidemillReplayOperator,
    )
    from .tasks.freshness import TidemillFreshnessOperator
    from .tasks.operators import TidemillRunOperator
    from .tasks.outcome import TidemillOutcomeOperator
    from .tasks.remote import note_results, spark_job
    from .tasks.sensors import TidemillVersionSensor, TidemillWatermarkSensor
    from .tasks.sweeps import TidemillSweepOperator
    from .tasks.verifying import TidemillVerifyOperator
    from .triggers import DueTrigger

_OF_ACTIONS = [airflow_operator_of(verb) for verb, action in ACTIONS.items() if action.operator_base]
"""The operators of `action_operators.py`."""
__all__ = [  # noqa: PLE0604
    *_OF_ACTIONS,
    "Correct",
    "DueTrigger",
    "Freshness",
    "Launch",
    "Maintain",
    "NewFilesTrigger",
    "Replay",
    "Run",
    "Sweep",
    "TidemillBranchOperator",
    "TidemillCheckOperator",
    "TidemillDiffOperator",
    "TidemillFreshnessOperator",
    "TidemillOutcomeOperator",
    "TidemillReplayOperator",
    "TidemillRunOperator",
    "TidemillSweepOperator",
    "TidemillVerifyOperator",
    "TidemillVersionSensor",
    "TidemillWatermarkSensor",
    "Watch",
    "note_results",
    "sink_asset",
    "spark_job",
    "tidemill_dags",
    "tidemill_dags_from",
]

_HOMES = {
    "Correct": ".calls.options",
    "DueTrigger": ".triggers",
    "Freshness": ".calls.options",
    "Launch": ".calls.options",
    "Maintain": ".calls.options",
    "NewFilesTrigger": ".new_files",
    "Replay": ".calls.options",
    "Run": ".calls.options",
    "Sweep": ".calls.options",
    "TidemillBranchOperator": ".tasks.branching",
    "TidemillCheckOperator": ".tasks.branching",
    "TidemillDiffOperator": ".tasks.branching",
    "TidemillFreshnessOperator": ".tasks.freshness",
    "TidemillReplayOperator": ".tasks.branching",
    "TidemillOutcomeOperator": ".tasks.outcome",
    "TidemillRunOperator": ".tasks.operators",
    "TidemillSweepOperator": ".tasks.sweeps",
    "TidemillVerifyOperator": ".tasks.verifying",
    "TidemillVersionSensor": ".tasks.sensors",
    "TidemillWatermarkSensor": ".tasks.sensors",
    "Watch": ".calls.options",
    "note_results": ".tasks.remote",
    "sink_asset": ".tasks.assets",
    "spark_job": ".tasks.remote",
    "tidemill_dags": ".dags.pipeline",
    "tidemill_dags_from": ".dags.streams",
    **dict.fromkeys(_OF_ACTIONS, ".tasks.action_operators"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Tidemill in Airflow: DAGs and operators that start the command line as a child process.

Importing this package does not import Airflow until you use one of its names. INVARIANT: nothing here imports pyspark,
boto3, pandas or the pipeline's code, because Airflow parses a DAG file every 30 seconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..actions.registry import ACTIONS, airflow_operator_of

if TYPE_CHECKING:
    from .action_operators import *  # noqa: F403
    from .assets import sink_asset
    from .branching import (
        TidemillBranchOperator,
        TidemillCheckOperator,
        TidemillDiffOperator,
        TidemillPromoteOperator,
        TidemillReplayOperator,
    )
    from .corrections import TidemillVerifyOperator
    from .dags import tidemill_dags
    from .freshness import TidemillFreshnessOperator
    from .new_files import NewFilesTrigger
    from .operators import TidemillMaintainOperator, TidemillRunOperator
    from .options import Correct, Freshness, Launch, Maintain, Replay, Run, Sweep, Watch
    from .outcome import TidemillOutcomeOperator
    from .remote import note_results, spark_job
    from .sensors import TidemillVersionSensor, TidemillWatermarkSensor
    from .streams import tidemill_dags_from
    from .sweeps import TidemillSweepOperator
    from .triggers import DueTrigger

_OF_ACTIONS = [airflow_operator_of(verb) for verb, action in ACTIONS.items() if action.has_operator]
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
    "TidemillMaintainOperator",
    "TidemillOutcomeOperator",
    "TidemillPromoteOperator",
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
    "Correct": ".options",
    "DueTrigger": ".triggers",
    "Freshness": ".options",
    "Launch": ".options",
    "Maintain": ".options",
    "NewFilesTrigger": ".new_files",
    "Replay": ".options",
    "Run": ".options",
    "Sweep": ".options",
    "TidemillBranchOperator": ".branching",
    "TidemillCheckOperator": ".branching",
    "TidemillDiffOperator": ".branching",
    "TidemillFreshnessOperator": ".freshness",
    "TidemillPromoteOperator": ".branching",
    "TidemillReplayOperator": ".branching",
    "TidemillMaintainOperator": ".operators",
    "TidemillOutcomeOperator": ".outcome",
    "TidemillRunOperator": ".operators",
    "TidemillSweepOperator": ".sweeps",
    "TidemillVerifyOperator": ".corrections",
    "TidemillVersionSensor": ".sensors",
    "TidemillWatermarkSensor": ".sensors",
    "Watch": ".options",
    "note_results": ".remote",
    "sink_asset": ".assets",
    "spark_job": ".remote",
    "tidemill_dags": ".dags",
    "tidemill_dags_from": ".streams",
    **dict.fromkeys(_OF_ACTIONS, ".action_operators"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)

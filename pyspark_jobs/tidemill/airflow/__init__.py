"""Tidemill in Airflow: DAGs and operators that start the command line as a child process.

Importing this package does not import Airflow until you use one of its names. INVARIANT: nothing here imports pyspark,
boto3, pandas or the pipeline's code, because Airflow parses a DAG file every 30 seconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .assets import sink_asset
    from .branching import (
        TidemillBranchOperator,
        TidemillCheckOperator,
        TidemillDiffOperator,
        TidemillPromoteOperator,
        TidemillReplayOperator,
    )
    from .dags import tidemill_dags
    from .freshness import TidemillFreshnessOperator
    from .operators import TidemillMaintainOperator, TidemillRunOperator
    from .options import Freshness, Launch, Maintain, Replay, Run, Sweep
    from .sensors import TidemillVersionSensor, TidemillWatermarkSensor
    from .streams import tidemill_dags_from
    from .sweeps import TidemillSweepOperator
    from .triggers import DueTrigger

__all__ = [
    "DueTrigger",
    "Freshness",
    "Launch",
    "Maintain",
    "Replay",
    "Run",
    "Sweep",
    "TidemillBranchOperator",
    "TidemillCheckOperator",
    "TidemillDiffOperator",
    "TidemillFreshnessOperator",
    "TidemillMaintainOperator",
    "TidemillPromoteOperator",
    "TidemillReplayOperator",
    "TidemillRunOperator",
    "TidemillSweepOperator",
    "TidemillVersionSensor",
    "TidemillWatermarkSensor",
    "sink_asset",
    "tidemill_dags",
    "tidemill_dags_from",
]

_HOMES = {
    "DueTrigger": ".triggers",
    "Freshness": ".options",
    "Launch": ".options",
    "Maintain": ".options",
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
    "TidemillRunOperator": ".operators",
    "TidemillSweepOperator": ".sweeps",
    "TidemillVersionSensor": ".sensors",
    "TidemillWatermarkSensor": ".sensors",
    "sink_asset": ".assets",
    "tidemill_dags": ".dags",
    "tidemill_dags_from": ".streams",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""What Airflow is told about this package: the entry point `apache_airflow_provider`.

Plain data; imports nothing, because every Airflow process calls it.
"""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Name, description and operators, in the shape of Airflow's provider schema."""
    return {
        "package-name": "tidemill",
        "name": "Tidemill",
        "description": "Stateful stream processing as ordinary batch runs.",
        "operators": [{"integration-name": "Tidemill", "python-modules": ["tidemill.airflow.operators"]}],
    }

"""The description of this package for Airflow: the entry point `apache_airflow_provider`.

It imports nothing, because every Airflow process calls it.
"""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return name, description, operators, sensors and triggers, in the form of Airflow's provider schema."""
    return {
        "package-name": "tidemill",
        "name": "Tidemill",
        "description": "Stateful stream processing as ordinary batch runs.",
        "sensors": [{"integration-name": "Tidemill", "python-modules": ["tidemill.airflow.tasks.sensors"]}],
        "triggers": [
            {
                "integration-name": "Tidemill",
                "python-modules": ["tidemill.airflow.triggers", "tidemill.airflow.new_files"],
            }
        ],
        "operators": [
            {
                "integration-name": "Tidemill",
                "python-modules": [
                    "tidemill.airflow.tasks.operators",
                    "tidemill.airflow.tasks.outcome",
                    "tidemill.airflow.tasks.branching",
                    "tidemill.airflow.tasks.action_operators",
                    "tidemill.airflow.tasks.verifying",
                    "tidemill.airflow.tasks.sweeps",
                    "tidemill.airflow.tasks.freshness",
                ],
            }
        ],
    }

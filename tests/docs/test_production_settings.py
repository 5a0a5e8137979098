"""The settings that the page on Airflow in production recommends are those with which tests and benchmarks run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.servers.airflow_servers import KILLS, SETTINGS

PAGE = Path(__file__).parents[2] / "docs/guides/airflow-production.md"
ROW = re.compile(r"^\| `\[(\w+)\] (\w+)` \| ([\d.]+) \|", re.MULTILINE)


def test_recommended_settings_are_those_of_the_tests() -> None:
    recommended = {
        f"AIRFLOW__{section}__{name}".upper(): value for section, name, value in ROW.findall(PAGE.read_text())
    }
    sleep = "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME"
    assert recommended == {**KILLS, sleep: SETTINGS[sleep]}

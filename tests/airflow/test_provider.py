"""Airflow finds the provider and the operators of the installed package."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tidemill.airflow.provider import get_provider_info


@pytest.mark.servers("run Airflow tasks")
def test_airflow_lists_the_provider_with_its_version(airflow_home: Path) -> None:
    from airflow.providers_manager import ProvidersManager

    provider = ProvidersManager().providers["tidemill"]
    assert provider.data.items() >= get_provider_info().items()
    assert provider.version[0].isdigit()


def test_provider_info_follows_airflows_schema(airflow_home: Path) -> None:
    import airflow
    import jsonschema

    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_named_modules_hold_the_operators(airflow_home: Path) -> None:
    (modules,) = [entry["python-modules"] for entry in get_provider_info()["operators"]]
    found = {name for module in modules for name in vars(import_module(module))}
    assert {"TidemillRunOperator", "TidemillSweepOperator"} <= found


def test_entry_point_is_registered_once() -> None:
    found = [point.value for point in entry_points(group="apache_airflow_provider") if "tidemill" in point.value]
    assert set(found) == {"tidemill.airflow.provider:get_provider_info"}

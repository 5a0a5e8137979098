"""Sinks as assets: names, schedules on them, and the events that tasks make, by `dag.test()` on a fake command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidemill.errors import InvalidInput

Parse = Callable[..., Any]
Events = Callable[[], list[tuple[str, Any]]]

DAG = """
from tidemill.airflow import Launch, tidemill_dags
tidemill_dags("pipelines/shop.py:p", root="s3://lake/tidemill", schedule=None, launch=Launch(env={env!r}))
"""
AFTER = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAlias
from tidemill.airflow import sink_asset
for name, schedule in (
    ("by_address", [Asset("tidemill://shop/orders")]), ("by_name", [sink_asset("shop", "orders")]),
    ("by_alias", [AssetAlias("tidemill:shop")]),
):
    with DAG(name, schedule=schedule):
        EmptyOperator(task_id="after")
"""


@pytest.fixture
def events(airflow_home: object) -> Events:
    """Return the address and the extra of every event in Airflow's database, oldest first, and delete them."""

    def read() -> list[tuple[str, Any]]:
        from airflow.models.asset import AssetEvent, AssetModel
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            found = session.execute(
                select(AssetModel.uri, AssetEvent)
                .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
                .order_by(AssetEvent.id)
            ).all()
            seen = [(uri, event.extra) for uri, event in found]
            for _, event in found:
                session.delete(event)
        return seen

    return read


@pytest.mark.servers("run Airflow tasks")
@pytest.mark.parametrize("dag_id", ["shop", "shop__sweep"])
def test_task_makes_an_event_of_each_sink_that_it_changed(
    parse: Parse, fake_env: Callable[[str], dict[str, str]], events: Events, dag_id: str
) -> None:
    dag = parse(DAG.format(env=fake_env("changed"))).dags[dag_id]
    events()
    assert dag.test().state == "success"
    change = {"first_version": 5, "last_version": 5, "rows": 7, "path": "/data/orders"}
    watermarks = {"source": "2026-01-05T00:00:00.000Z"}
    assert events() == [
        ("tidemill://shop/orders", {**change, "pipeline": "shop", "branch": "main", "watermarks": watermarks})
    ]


@pytest.mark.parametrize("behaviour", ["nothing", "done", "invalid"])
def test_task_that_changed_no_sink_makes_no_event(
    parse: Parse, fake_env: Callable[[str], dict[str, str]], events: Events, behaviour: str
) -> None:
    dag = parse(DAG.format(env=fake_env(behaviour))).dags["shop"]
    events()
    dag.test()
    assert events() == []


def test_asset_has_one_name_however_it_is_written(parse: Parse) -> None:
    bag = parse(AFTER, "after_dag.py")
    assert bag.import_errors == {}
    conditions = [bag.dags[name].timetable.asset_condition.objects for name in ("by_address", "by_name")]
    assert conditions[0] == conditions[1]


@pytest.mark.parametrize(("name", "sink"), [("", "orders"), ("shop", "a/b"), ("shop", "orders?x"), (None, "orders")])
def test_names_that_are_no_address_are_refused(airflow_home: object, name: Any, sink: str) -> None:
    from tidemill.airflow import sink_asset

    with pytest.raises(InvalidInput, match="the asset of a sink got the (name|sink) "):
        sink_asset(name, sink)


def test_operator_of_ones_own_dag_makes_events_only_if_asked(airflow_home: object) -> None:
    from airflow.sdk import Asset, AssetAlias

    from tidemill.airflow import TidemillRunOperator

    given: dict[str, Any] = {"pipeline": "a:p", "root": "/root", "outlets": [Asset("x")]}
    assert TidemillRunOperator(task_id="a", **given).outlets == [Asset("x")]
    asked = TidemillRunOperator(task_id="b", assets="shop", **given)
    with pytest.raises(InvalidInput, match="got the name 'a/b'"):
        TidemillRunOperator(task_id="c", assets="a/b", **given)
    assert asked.outlets == [Asset("x"), AssetAlias("tidemill:shop")]

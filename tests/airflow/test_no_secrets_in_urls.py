"""URLs with secrets in the arguments and connections of Airflow: refused, or hidden where they may be needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.journeys.test_no_secrets_in_urls import ENDPOINTS, SECRET, URLS
from tidemill.errors import InvalidInput


def of_connection(url: str) -> object:
    from airflow.sdk import Connection

    from tidemill.airflow.calls.connections import variables_of

    return variables_of(Connection(conn_id="lake", conn_type="aws", extra=json.dumps({"endpoint_url": url})))


def of_root(url: str) -> object:
    from tidemill.airflow.calls.checks import check_root_argument

    return check_root_argument(url)


def of_operator(url: str) -> object:
    from tidemill.airflow import TidemillRunOperator

    return TidemillRunOperator(
        task_id="run", pipeline="shop.py:p", root="/lake", storage_options={"sink": {"endpoint_url": url}}
    )


def of_launch(url: str) -> object:
    from tidemill.airflow import Launch

    return Launch(storage_options={"source": {"endpoint_url": url}})


def of_trigger(url: str) -> object:
    from tidemill.airflow.new_files import NewFilesTrigger

    return NewFilesTrigger(root="/lake", pipeline="shop", source_options={"endpoint_url": url})


def of_job(**given: Any) -> object:
    from tidemill.airflow import spark_job

    return spark_job("shop:p", **{"root": "s3://lake", **given})


DOORS: dict[str, Callable[[str], object]] = {
    "connection": of_connection,
    "root": of_root,
    "operator": of_operator,
    "launch": of_launch,
    "trigger": of_trigger,
    "root of a job": lambda url: of_job(root=url),
    "results of a job": lambda url: of_job(results=url),
    "options of a job": lambda url: of_job(storage_options={"root": {"endpoint_url": url}}),
    "settings of a job": lambda url: of_job(conf={"spark.hadoop.fs.s3a.endpoint": url}),
    "variables of a job": lambda url: of_job(env={"DATABASE": url}),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_url_with_a_secret_is_refused(door: str, airflow_home: object) -> None:
    for url in (*(one for one in URLS if "://" in one), *ENDPOINTS[:2]):
        with pytest.raises(InvalidInput) as refused:
            DOORS[door](url)
        assert SECRET not in f"{refused.value} {refused.value.hint}"


def test_urls_that_a_command_may_need_are_hidden(airflow_home: object) -> None:
    from tidemill.airflow import TidemillRunOperator

    given = {"DATABASE": f"postgres://me:{SECRET}@db/shop", "PLACE": "s3://lake/a"}
    operator = TidemillRunOperator(
        task_id="run", pipeline="shop.py:p", root="/lake", env=given,
        conf={"spark.remote": f"sc://spark/;token={SECRET}"},
    )  # fmt: skip
    shown = {name: str(value) for name, value in operator.env.items()}
    assert shown == {"DATABASE": "***", "PLACE": "s3://lake/a"}
    assert SECRET not in f"{operator.env} {operator.conf}"
    assert operator._variables() == given

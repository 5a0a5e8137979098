"""Connections of Airflow: what they become, what is refused, and that a task hands them to its command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tidemill.errors import InvalidInput

DAG = """
from datetime import timedelta
from tidemill.airflow import Launch, tidemill_dags
launch = Launch(
    env={env!r}, conf={{"spark.executor.memory": "1g"}}, aws_conn_id="lake", spark_conn_id="{{{{ 'cluster' }}}}"
)
tidemill_dags(
    "pipelines/retail.py:p", root="s3://lake/tidemill", schedule=None, launch=launch,
    dag_args={{"default_args": {{"retries": 0}}}},
)
"""
LAKE = {
    "conn_type": "aws", "login": "AKIA", "password": "hush-hush",
    "extra": {"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:9", "aws_session_token": "brief"},
}  # fmt: skip
CLUSTER = {
    "conn_type": "spark", "host": "spark://master", "port": 7077,
    "extra": {"queue": "night", "spark.executor.memory": "8g", "spark.executor.cores": "2"},
}  # fmt: skip


def connection(**fields: Any) -> Any:
    from airflow.sdk import Connection

    extra = fields.pop("extra", None)
    return Connection(conn_id="one", extra=json.dumps(extra) if extra else None, **fields)


def test_an_aws_connection_becomes_variables(airflow_home: object) -> None:
    from tidemill.airflow.calls.connections import variables_of

    assert variables_of(connection(**LAKE)) == {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "hush-hush",
        "AWS_SESSION_TOKEN": "brief",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    }
    assert variables_of(connection(conn_type="aws", extra={"profile_name": "lake"})) == {"AWS_PROFILE": "lake"}
    with pytest.raises(InvalidInput, match="has `role_arn`: Tidemill assumes no role of a connection"):
        variables_of(connection(conn_type="aws", extra={"role_arn": "arn:aws:iam::1:role/lake"}))


def test_a_spark_connection_becomes_settings(airflow_home: object) -> None:
    from tidemill.airflow.calls.connections import conf_of

    assert conf_of(connection(**CLUSTER)) == {
        "spark.master": "spark://master:7077",
        "spark.yarn.queue": "night",
        "spark.executor.memory": "8g",
        "spark.executor.cores": "2",
    }
    assert conf_of(connection(conn_type="spark", host="yarn")) == {"spark.master": "yarn"}
    assert conf_of(connection(conn_type="spark_connect", host="sc://spark", port=15002)) == {
        "spark.remote": "sc://spark:15002"
    }
    safe = connection(conn_type="spark_connect", host="spark", login="ann", password="pw", extra={"use_ssl": True})
    assert conf_of(safe) == {"spark.remote": "sc://spark/;use_ssl=true;token=pw;user_id=ann"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "aws", "host": "x"}, "has the type `aws`: expected `spark` or `spark_connect`"),
        ({"conn_type": "spark"}, "has no host"),
        ({"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}, "has the deploy mode `cluster`"),
    ],
)
def test_a_connection_that_cannot_be_followed_is_refused(
    airflow_home: object, fields: dict[str, Any], said: str
) -> None:
    from tidemill.airflow.calls.connections import conf_of

    with pytest.raises(InvalidInput, match=said):
        conf_of(connection(**fields))


@pytest.fixture
def ended(
    parse: Callable[..., Any],
    fake_env: Callable[[str], dict[str, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[str, str]]:
    """Run a DAG with two connections. Return its task's state, and all that was printed."""

    def run(lake: dict[str, Any] = LAKE, cluster: dict[str, Any] = CLUSTER, **env: str) -> tuple[str, str]:
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))
        monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(cluster))
        bag = parse(DAG.format(env={**fake_env("says"), **env}))
        assert bag.import_errors == {}
        (task,) = bag.dags["retail"].test().get_task_instances()
        return str(task.state), capsys.readouterr().out

    return run


def test_a_task_hands_its_connections_to_the_command(ended: Callable[..., tuple[str, str]]) -> None:
    from airflow.sdk._shared.secrets_masker import redact

    says = "key $AWS_ACCESS_KEY_ID of $AWS_DEFAULT_REGION, conf $TIDEMILL_CONF"
    state, output = ended(FAKE_SAYS=says, AWS_DEFAULT_REGION="us-east-1")
    assert state == "success"
    assert "key AKIA of us-east-1" in output, "`env` wins over the connection"
    assert "hush-hush" not in output
    assert redact("a line with hush-hush and brief") == "a line with *** and ***", "Airflow masks them in every log"
    assert '"spark.master": "spark://master:7077"' in output
    assert '"spark.executor.memory": "1g"' in output, "`conf` wins over the connection"


def test_a_task_fails_for_good_if_a_connection_cannot_be_followed(ended: Callable[..., tuple[str, str]]) -> None:
    state, output = ended(lake={"conn_type": "aws", "extra": {"role_arn": "arn:aws:iam::1:role/lake"}}, FAKE_SAYS="ran")
    assert state == "failed"
    assert "the connection `lake` has `role_arn`" in output
    assert "ran\n" not in output

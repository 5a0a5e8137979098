"""Connections of Airflow as what Tidemill takes: variables and storage options of AWS, and settings of Spark.

Credentials are read when a task or trigger needs them, never when a DAG file is parsed. INVARIANT: what a connection
says that cannot be followed is an error, and no message shows a password or an extra.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.log import amask_secret, mask_secret

from ...errors import InvalidInput
from ...secret_names import check_no_secrets
from .checks import is_absent

if TYPE_CHECKING:
    from airflow.sdk import Connection

_OF_AWS = {
    "aws_session_token": "AWS_SESSION_TOKEN",
    "profile_name": "AWS_PROFILE",
    "region_name": "AWS_DEFAULT_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
}
"""Extras of an AWS connection, and the variables that say the same."""
_SECRET = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_ASSUMED = ("role_arn", "assume_role_method", "assume_role_kwargs")
_OF_SPARK = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}
"""Extras of a Spark connection, and the settings that say the same."""


def aws_variables(conn_id: str | None) -> dict[str, str]:
    """Return the environment variables that an AWS connection stands for; none without a connection."""
    if conn_id is None or is_absent(conn_id):
        return {}
    found = variables_of(BaseHook.get_connection(conn_id))
    for name in _SECRET:
        mask_secret(found.get(name))
    return found


async def aws_variables_aside(conn_id: str | None) -> dict[str, str]:
    """Do the same in the event loop of the triggerer."""
    if not conn_id:
        return {}
    found = variables_of(await BaseHook.aget_connection(conn_id))
    for name in _SECRET:
        await amask_secret(found.get(name))
    return found


def spark_conf(conn_id: str | None) -> dict[str, str]:
    """Return the settings that a Spark connection stands for; none without a connection."""
    if conn_id is None or is_absent(conn_id):
        return {}
    connection = BaseHook.get_connection(conn_id)
    mask_secret(connection.password)
    return conf_of(connection)


def variables_of(connection: Connection) -> dict[str, str]:
    """Return the environment variables that an AWS connection stands for. `InvalidInput` if it assumes a role."""
    extra = _extra(connection)
    if assumed := [name for name in _ASSUMED if extra.get(name)]:
        raise InvalidInput(
            f"the connection `{connection.conn_id}` has `{assumed[0]}`: Tidemill assumes no role of a connection",
            hint="name a profile that assumes it, with the extra `profile_name`, or use the role of the worker",
        )
    found = {variable: extra.get(name) for name, variable in _OF_AWS.items()}
    found |= {"AWS_ACCESS_KEY_ID": connection.login, "AWS_SECRET_ACCESS_KEY": connection.password}
    check_no_secrets(str(extra.get("endpoint_url") or ""), f"`endpoint_url` of the connection `{connection.conn_id}`")
    return {name: str(value) for name, value in found.items() if value}


def conf_of(connection: Connection) -> dict[str, str]:
    """Return the settings that a connection of the types `spark` and `spark_connect` stands for.

    Host and port are `spark.master` or `spark.remote`. Extras that begin with `spark.` are settings. `InvalidInput` for
    other types, without a host, and for the deploy mode `cluster`, because the driver is the task's own process.
    """
    kind, extra = str(connection.conn_type or "").replace("-", "_"), _extra(connection)
    if kind not in ("spark", "spark_connect"):
        raise InvalidInput(
            f"the connection `{connection.conn_id}` has the type `{connection.conn_type}`: expected `spark` or "
            "`spark_connect`"
        )
    if not connection.host:
        raise InvalidInput(f"the connection `{connection.conn_id}` has no host: expected that of a Spark master")
    if str(extra.get("deploy-mode") or "client") != "client":
        raise InvalidInput(
            f"the connection `{connection.conn_id}` has the deploy mode `{extra['deploy-mode']}`: the driver is a "
            "process of the task, which is the mode `client`",
            hint="to run the driver elsewhere, submit the job: see `spark_job`",
        )
    found = {name: str(value) for name, value in extra.items() if name.startswith("spark.")}
    found |= {key: str(extra[name]) for name, key in _OF_SPARK.items() if extra.get(name)}
    return {**_address(kind, connection, extra), **found}


def _address(kind: str, connection: Connection, extra: Mapping[str, Any]) -> dict[str, str]:
    place = f"{connection.host}:{connection.port}" if connection.port else str(connection.host)
    if kind == "spark":
        return {"spark.master": place}
    parts = ["use_ssl=true"] if extra.get("use_ssl") else []
    parts += [f"token={connection.password}"] if connection.password else []
    parts += [f"user_id={connection.login}"] if connection.login else []
    remote = place if place.startswith("sc://") else f"sc://{place}"
    return {"spark.remote": "/;".join([remote, ";".join(parts)]) if parts else remote}


def _extra(connection: Connection) -> dict[str, Any]:
    return dict(connection.extra_dejson)

"""Checks that a master of a standalone cluster, or a Connect server, answers before Spark starts.

Spark itself tries a master for a minute, then stops its context, and the error of the next call does not name the
master. PySpark repeats requests to a Connect server that is away for ten minutes.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Sequence

from ..errors import InvalidInput
from ..secret_names import check_no_secrets

_SCHEME = "spark://"
_CONNECT_SCHEME = "sc://"
_CONNECT_PORT = 15002
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_TRIES = 3
_PAUSE_S = 1.0
_CONNECT_S = 5.0


def check_master(url: str) -> None:
    """Raise `InvalidInput` if `url` is `spark://HOST:PORT[,HOST:PORT…]` and nothing accepts connections there.

    It takes some seconds if connections are refused, and up to 18 s a master if there is no answer at all.
    """
    if not url.startswith(_SCHEME):
        return
    check_no_secrets(url, "start Spark: `spark.master`")
    if problem := _no_answer(url.removeprefix(_SCHEME).split(",")):
        raise InvalidInput(
            f"start Spark: no master answers at `{url}` ({problem})",
            hint="start the cluster, or set `spark.master` to the address that the master shows on its page",
        )


def check_connect(url: str) -> None:
    """Raise `InvalidInput` if `url` is `sc://HOST[:PORT]` and nothing accepts connections there, as `check_master`.

    Parameters of the URL may have a token, so the error leaves them out. With a proxy for gRPC nothing is checked,
    because only the proxy has to reach the server.
    """
    if not url.startswith(_CONNECT_SCHEME) or any(os.environ.get(name) for name in _PROXIES):
        return
    address = re.split("[/;?#]", url.removeprefix(_CONNECT_SCHEME), maxsplit=1)[0].rpartition("@")[2]
    has_port = re.search(r":[^:\]]*$", address) is not None
    if problem := _no_answer([address if has_port else f"{address}:{_CONNECT_PORT}"]):
        raise InvalidInput(
            f"start Spark: no Connect server answers at `{_CONNECT_SCHEME}{address}` ({problem})",
            hint="start the server, or correct `spark.remote` or the variable `SPARK_REMOTE`",
        )


def _no_answer(addresses: Sequence[str]) -> str:
    """Return why none of the addresses accepts connections, or an empty text if one does."""
    problem = ""
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE_S)
        for address in addresses:
            try:
                host, _, port = address.rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
            except (OSError, ValueError, OverflowError) as error:
                problem = f"{address}: {error}"
            else:
                return ""
    return problem

"""Checks that a master of a standalone cluster answers, before Spark starts.

Spark itself tries for a minute, then stops its context, and the error of the next call does not name the master.
"""

from __future__ import annotations

import socket
import time

from ..errors import InvalidInput

_SCHEME = "spark://"
_TRIES = 3
_PAUSE_S = 1.0
_CONNECT_S = 5.0


def check_master(url: str) -> None:
    """Raise `InvalidInput` if `url` is `spark://HOST:PORT[,HOST:PORT…]` and nothing accepts connections there.

    It takes some seconds if connections are refused, and up to 18 s a master if there is no answer at all.
    """
    if not url.startswith(_SCHEME):
        return
    problem = ""
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE_S)
        for address in url.removeprefix(_SCHEME).split(","):
            try:
                host, _, port = address.rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
            except (OSError, ValueError) as error:
                problem = f"{address}: {error}"
            else:
                return
    raise InvalidInput(
        f"start Spark: no master answers at `{url}` ({problem})",
        hint="start the cluster, or set `spark.master` to the address that the master shows on its page",
    )

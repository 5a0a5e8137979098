"""One classic session and one Connect session for all tests of this folder, as users start them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.spark_connect import SparkConnectServer
from tidemill.engines.session import start


@pytest.fixture(scope="module")
def spark_session() -> Iterator[Any]:
    session = start({"spark.master": "local[2]"})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def connect_session() -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    with SparkConnectServer() as server:
        session = SparkSession.builder.remote(server.url).create()
        yield session
        session.stop()

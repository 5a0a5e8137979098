"""A small batch on Spark asks S3 for the same as one in this process, and waits as rarely."""

from __future__ import annotations

from typing import Any

import pytest

import tidemill as tm
from tests.model.at_once import Place, waits_seven_times
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import S3Proxy

pytestmark = pytest.mark.servers("start Spark")


def test_a_warm_batch_on_spark_waits_seven_times_and_reads_nothing_again(
    spark_session: Any, s3_server: S3Server
) -> None:
    with S3Proxy(s3_server) as proxy:
        waits_seven_times(Place(s3_server, proxy, [tm.Parquet("out")], spark_session))

"""An operator with two inputs on Spark: what the local engine makes, in a run and in a replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.seams.shop import Shop, bits, everything

pytestmark = pytest.mark.servers("start Spark")


def test_engines_agree_on_an_operator_with_two_inputs(spark_session: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    local, spark = shop.but(root="local").open(), shop.but(root="spark").open()
    local.run(engine="local", tasks=3)
    spark.run(engine="spark", spark=spark_session, tasks=3)
    assert {commit.engine["name"] for commit in spark.commits()} == {"spark"}
    assert everything(spark) == everything(local)


def test_a_replay_on_spark_makes_the_bits_of_the_local_engine(spark_session: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, batches=3)
    r = shop.open()
    r.run(engine="local", tasks=2)
    r.replay(0, into="all", engine="spark", spark=spark_session, tasks=2)
    assert bits(shop.open("all")) == bits(r)
    r.replay(0, into="part", operators=["mixed", "per-time"], engine="spark", spark=spark_session, tasks=2)
    assert everything(shop.open("part")) == everything(r)

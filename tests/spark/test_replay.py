"""A replay on Spark makes what the local engine made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.journeys.place import Place, bag, rows
from tests.journeys.test_replay_operators import Code, everything, shop
from tests.world import run

pytestmark = pytest.mark.servers("start Spark")

__all__ = ["shop"]


def test_a_replay_on_spark_makes_the_same_state_outputs_and_quarantine(spark_session: Any, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.arrive("1", "2", "3", "4", "5", "6")
    r = place.open()
    run(r)
    made = r.replay(0, into="same", spark=spark_session, engine="spark", tasks=2)
    b = place.open("same")
    assert made.versions == [0, 1, 2]
    assert {commit.engine["name"] for commit in b.commits()} == {"spark"}
    assert b.state("sums").sort_by("k") == r.state("sums").sort_by("k")
    assert rows(b) == rows(r)
    assert bag(b.quarantine()) == bag(r.quarantine())
    assert b.verify(deep=True).problems == []


def test_operators_replayed_on_spark_are_those_of_the_local_engine(spark_session: Any, shop: Any) -> None:
    changed = shop.open(code=Code(factor=2))
    changed.replay(0, into="local", operators=["last", "tops"], engine="local")
    changed.replay(0, into="spark", operators=["last", "tops"], spark=spark_session, engine="spark", tasks=2)
    local, spark = (shop.open(branch, code=Code(factor=2)) for branch in ("local", "spark"))
    assert everything(spark) == everything(local)

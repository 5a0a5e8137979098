"""A source and a sink from outside of the package on Spark, where workers get them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.seams.test_source import Counts
from tests.world import state


def test_rows_come_from_a_position_and_go_into_a_table(spark_session: Any, tmp_path: Path) -> None:
    world = Counts(tmp_path)
    for rows in ((), (("b", 3), ("c", 4)), (("a", 5),)):
        world.journal.append(*rows)
        world.open().run(spark=spark_session, engine="spark", tasks=2)
    r = world.open()
    assert [commit.engine["name"] for commit in r.commits()] == ["spark"] * 3
    assert r.head.positions == {"journal": "6"} and state(r, "counted") == {"a": 8, "b": 4, "c": 4}
    shown = sorted((row["k"], row["n"]) for row in world.table.rows())
    assert shown == [("a", 3), ("a", 8), ("b", 1), ("b", 4), ("c", 4)]
    r.branch("again", at=0)
    r.replay(1, into="again", spark=spark_session, engine="spark", tasks=2)
    assert state(world.open("again"), "counted") == state(r, "counted")
    assert r.verify(deep=True).problems == []

"""Two branches that differ."""

from __future__ import annotations

from typing import Any

import tidemill as tm
from tests.world import Build, World
from tidemill.reading.diff_state import StateDiff


def state_of(r: tm.Repository, a: Any, b: Any, operator: str = "counts", **options: Any) -> StateDiff:
    found = r.diff(a, b, operator=operator, **options)
    assert isinstance(found, StateDiff)
    return found


def declared(state: str, key: str = "k", late: str = "") -> Build:
    """The last row of a key, in a state of this schema."""

    def last(key: Any, row: Any, state: Any) -> tuple[Any, int]:
        state.update({"v": row.v, **({late: 7} if late else {})})
        return (key if isinstance(key, str) else key[0], row.v)

    def build(p: tm.Pipeline, world: World) -> None:
        grouped = world.read(p).groupBy(*key.split())
        spec = tm.StateSpec.function(last)
        grouped.mapWithState(spec, name="last", stateSchema=state, outputSchema="k string, v int")

    return build

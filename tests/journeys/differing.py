"""Two branches that differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tidemill as tm
from tidemill.reading.diff_state import StateDiff


def state_of(r: tm.Repository, a: Any, b: Any, operator: str = "counts", **options: Any) -> StateDiff:
    found = r.diff(a, b, operator=operator, **options)
    assert isinstance(found, StateDiff)
    return found


def declared(folder: Path, state: str, key: str = "k", late: str = "") -> tm.Pipeline:
    p = tm.Pipeline("shop")
    rows = p.read(tm.Files(str(folder / "in"), format="csv", schema="k string, v int", maxFilesPerTrigger=1))

    def last(key: Any, row: Any, state: Any) -> tuple[Any, int]:
        state.update({"v": row.v, **({late: 7} if late else {})})
        return (key if isinstance(key, str) else key[0], row.v)

    spec = tm.StateSpec.function(last)
    rows.groupBy(*key.split()).mapWithState(spec, name="last", stateSchema=state, outputSchema="k string, v int")
    return p

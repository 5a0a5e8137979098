"""A year of daily batches with a timeout, replayed: the same code gives the same rows, other code what a loop gives.

Of real data it is 50 days, which are more than the timeout, and in an exhaustive run the whole year.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.model import retail
from tests.model.real_days import real_days

DAYS = 50


@pytest.fixture(params=["made-up", pytest.param("real", marks=pytest.mark.slow("days of real data"))])
def folder(request: Any, tmp_path: Path) -> Path:
    if request.param == "made-up":
        (tmp_path / "data").mkdir()
        return retail.make_small(tmp_path / "data")
    return real_days(tmp_path / "days", DAYS)


def doubled(batch_time: Any, customer: Any, row: Any, state: Any) -> Any:
    """The function of the pipeline, with every amount twice."""
    if state.isTimingOut:
        return (customer, *tuple(state.get), True)
    lines, total = tuple(state.get) if state.exists else (0, 0)
    state.update((lines + 1, total + 2 * row.Quantity * row.UnitPrice))
    return (customer, *tuple(state.get), False)


def test_a_year_is_replayed_exactly_and_with_another_function(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(tmp_path / "root")
    r = tm.open(retail.pipeline(folder, timeout=True), root=root)
    r.init()
    r.run(engine="local")
    made = r.replay(0, into="same", engine="local", tasks=2)
    assert made.replayed == list(range(r.head.version + 1)) and made.left == 0
    same = tm.open(retail.pipeline(folder, timeout=True), root=root, branch="same")
    for operator, key in (("spend", "CustomerID"), ("by-country", "Country")):
        assert same.state(operator).sort_by(key) == r.state(operator).sort_by(key)
    for sink in ("spend", "by-country"):
        assert same.outputs(sink=sink) == r.outputs(sink=sink)
    assert same.quarantine() == r.quarantine()
    assert [one.watermarks for one in same.commits()] == [one.watermarks for one in r.commits()]
    for operator in ("spend", "by-country"):
        r.replay(0, into=f"only-{operator}", operators=[operator], engine="local", tasks=2)
        only = tm.open(retail.pipeline(folder, timeout=True), root=root, branch=f"only-{operator}")
        assert r.diff("main", f"only-{operator}").total == 0
        for ours, theirs in zip(only.commits(), r.commits(), strict=True):
            assert (ours.counts, ours.watermarks, ours.rows) == (theirs.counts, theirs.watermarks, theirs.rows)
    monkeypatch.setattr(retail, "spend", doubled)
    r = tm.open(retail.pipeline(folder, timeout=True), root=root)
    r.replay(0, into="twice", engine="local")
    twice = tm.open(retail.pipeline(folder, timeout=True), root=root, branch="twice")
    now, before = twice.state("spend").sort_by("CustomerID"), r.state("spend").sort_by("CustomerID")
    assert now["lines"] == before["lines"]
    totals = before["total"].to_pylist()
    assert now["total"].to_pylist() == [2 * total for total in totals]
    changed = r.diff("main", "twice", operator="spend")
    assert changed.changed == sum(total != 0 for total in totals)
    assert r.diff("main", "twice", operator="by-country").changed == 0

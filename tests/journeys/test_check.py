"""`check` says what a run would do with changed code, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, over

Build = Callable[[tm.Stream], Any]


def keep(row: Any, state: Any) -> None:
    state.update((row.cents,))


def keep_both(row: Any, state: Any) -> None:
    state.update(("x", row.cents))


def one(schema: str = "a int", name: str = "one", key: str = "user", function: Any = keep) -> Build:
    return lambda s: s.groupBy(key).mapWithState(tm.StateSpec.function(function), schema, "string", name=name)


def counts(name: str = "counts", **functions: Any) -> Build:
    return lambda s: s.groupBy("user").agg(name=name, **functions)


class Place(World):
    """A repository for pipelines that differ."""

    def __init__(self, folder: Path, root: str = "root") -> None:
        super().__init__(folder, name="bank", root=root, schema="user string, cents int, other int")

    def opened(self, *builds: Build) -> tm.Repository:
        return self.but(over(*builds)).open(init=False)

    def begun(self, *builds: Build) -> None:
        self.arrive("ann,1,1\n")
        assert self.but(over(*builds)).run() == [0]

    def objects(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in (self.folder / "root").rglob("*") if path.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def found(r: tm.Repository) -> tuple[str, list[tuple[str, str, str, str, str, str]]]:
    report = r.check()
    differences = [(d.operator, d.what, d.field, d.before, d.after, d.status) for d in report.differences]
    return report.status, differences


OK, INIT, MIGRATE, REFUSED = "compatible", "needs init", "needs migration", "refused"
COUNT = counts(n=tm.count())
CHANGES: dict[str, tuple[tuple[Build, ...], tuple[str, list[tuple[str, ...]]]]] = {
    "nothing": ((one(), COUNT), (OK, [])),
    "wider and new fields": (
        (one("b string, a bigint", function=keep_both), COUNT),
        (OK, [("one", "state", "b", "", "string", OK), ("one", "state", "a", "int", "bigint", OK)]),
    ),
    "new aggregates": (
        (one(), counts(n=tm.count(), m=tm.mean("cents"))),
        (OK, [("counts", "aggregate", "m", "", "mean(cents)", OK)]),
    ),
    "a new operator": (
        (one(), COUNT, one(name="two")),
        (INIT, [("two", "operator", "two", "", "map-with-state", INIT)]),
    ),
    "an operator less": ((COUNT,), (INIT, [("one", "operator", "one", "map-with-state", "", INIT)])),
    "a narrower field": (
        (one("a smallint"), COUNT),
        (MIGRATE, [("one", "state", "a", "int", "smallint", MIGRATE)]),
    ),
    "another field": (
        (one("b int"), COUNT),
        (MIGRATE, [("one", "state", "b", "", "int", OK), ("one", "state", "a", "int", "", MIGRATE)]),
    ),
    "another key": (
        (one(key="other"), COUNT),
        (
            MIGRATE,
            [
                ("one", "key", "key", "user", "other", MIGRATE),
                ("one", "key", "other", "", "int", MIGRATE),
                ("one", "key", "user", "string", "", MIGRATE),
            ],
        ),
    ),
    "another function": (
        (one(), counts(n=tm.count("cents"))),
        (MIGRATE, [("counts", "rule", "n", "count(*)", "count(cents)", MIGRATE)]),
    ),
    "an aggregate less": (
        (one(), counts(k=tm.count())),
        (
            MIGRATE,
            [
                ("counts", "rule", "k", "", "count(*)", MIGRATE),
                ("counts", "rule", "n", "count(*)", "", MIGRATE),
                ("counts", "state", "k", "", "bigint", OK),
                ("counts", "state", "n", "bigint", "", MIGRATE),
            ],
        ),
    ),
    "another kind": (
        (counts("one", n=tm.count()), COUNT),
        (REFUSED, [("one", "kind", "kind", "map-with-state", "aggregate", REFUSED)]),
    ),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_every_difference_is_named_and_a_run_agrees(place: Place, change: str) -> None:
    place.begun(one(), COUNT)
    builds, expected = CHANGES[change]
    r, before = place.opened(*builds), place.objects()
    assert found(r) == expected
    assert place.objects() == before
    refusals = [d for d in r.check().differences if d.status != OK]
    place.arrive("bob,2,2\n")
    if not refusals:
        (progress,) = r.run(engine="local")
        assert set(progress.stateChanges) == {operator for operator, *_ in expected[1]}
        assert r.check().differences == []
        return
    with pytest.raises(tm.InvalidInput) as refused:
        r.run(engine="local")
    assert (refused.value.message, refused.value.hint) == (refusals[0].message, refusals[0].hint)


def test_without_a_repository_and_before_the_first_batch_init_is_enough(place: Place) -> None:
    assert found(place.opened(one())) == (
        INIT,
        [("", "repository", place.opened(one()).opened.place, "", "bank", INIT)],
    )
    place.opened(one()).init()
    assert found(place.opened(one("b string"))) == (
        INIT,
        [("one", "state", "b", "", "string", OK), ("one", "state", "a", "int", "", INIT)],
    )
    place.opened(one("b string")).init()
    assert found(place.opened(one("b string"))) == (OK, [])


def test_changed_columns_of_a_sink_and_a_moved_repository_are_refused(place: Place) -> None:
    sink = str(place.folder / "sink")

    def written(schema: str) -> Build:
        return lambda s: one()(s).sql(f"SELECT value::{schema} AS v FROM rows").write(tm.Json(sink))

    place.begun(written("varchar"))
    assert found(place.opened(written("varchar"))) == (OK, [])
    report = place.opened(written("double")).check()
    assert (report.status, report.differences[0].what) == (REFUSED, "sink")
    assert "has columns `v string`, this code writes `v double`" in report.differences[0].outcome
    (place.folder / "root").rename(place.folder / "moved")
    report = Place(place.folder, "moved").opened(written("varchar")).check()
    assert (report.status, report.differences[0].what) == (REFUSED, "repository")
    assert "has moved" in report.differences[0].outcome

"""Counts of each operator, and what a chain loses, beside a naive loop over random rows."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.seams.pairs import Pairs
from tests.world import World
from tidemill.cli.main import main

START, DELAY_S, WINDOW_S, BAD = datetime(2026, 1, 1, tzinfo=UTC), 10, 5, 13
LATE = ["drop", "quarantine"]


def passed(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
    """Emit a row for a row; fail on some."""
    if row.n == BAD:
        raise ValueError("unlucky")
    state.update((state.getOption or 0) + 1)
    return (key, row.at, row.n)


def chained(late: str) -> Any:
    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p)
        first = rows.groupBy("k").mapWithState(
            tm.StateSpec.function(passed), stateSchema="long", outputSchema="k string, at timestamp, n int",
            name="sessions", on_error="quarantine",
        )  # fmt: skip
        behind = first.withWatermark("at", f"{DELAY_S} seconds", late=late)
        behind.groupBy(tm.window("at", f"{WINDOW_S} seconds")).agg(n=tm.count(), name="daily")
        behind.dropDuplicates(["n"], name="once")

    return build


def world_of(folder: Path, late: str, conf: dict[str, Any] | None = None) -> World:
    return World(folder, chained(late), schema="k string, at timestamp, n int", conf=conf)


def batches(seed: int) -> list[list[tuple[str, int, int]]]:
    """Rows (key, second, n) of some batches. Time goes on; some rows are old, and some n are bad."""
    chance = random.Random(seed)
    return [
        [
            (
                chance.choice("abcde"),
                max(0, 20 * batch + chance.randrange(-40, 20)),
                chance.choice([1, 2, 3] * 12 + [BAD]),
            )
            for _ in range(chance.randrange(1, 40))
        ]
        for batch in range(5)
    ]


def expected(rows_of: list[list[tuple[str, int, int]]]) -> list[dict[str, tuple[int, int, int]]]:
    """By batch and operator: rows that it applied, that were late for it, and that failed in it."""
    found, watermark, newest = [], 0, 0
    for rows in rows_of:
        bad = {key for key, _, n in rows if n == BAD}  # of a key that fails, all rows of the batch fail
        emitted = [(second, n) for key, second, n in rows if key not in bad]
        in_ended = sum((second // WINDOW_S + 1) * WINDOW_S <= watermark for second, _ in emitted)
        old = sum(watermark > 0 and second <= watermark for second, _ in emitted)
        failed = len(rows) - len(emitted)
        found.append(
            {
                "sessions": (len(emitted), 0, failed),
                "daily": (len(emitted) - in_ended, in_ended, 0),
                "once": (len(emitted) - old, old, 0),
            }
        )
        newest = max([newest, *(second for second, _ in emitted)])
        watermark = max(watermark, newest - DELAY_S)
    return found


def counts(operator: Any) -> tuple[int, int, int]:
    return operator.applied_rows, operator.late_rows, operator.quarantined_rows


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tasks", [1, 3])
def test_counts_of_each_operator_add_up_to_what_reached_it(tasks: int, seed: int, late: str, tmp_path: Path) -> None:
    world, rows_of = world_of(tmp_path, late), batches(seed)
    for rows in rows_of:
        world.arrive([(key, (START + timedelta(seconds=second)).isoformat(), n) for key, second, n in rows])
    r = world.open()
    done = r.run(engine="local", tasks=tasks)
    wanted = expected(rows_of)
    for progress, by_operator in zip(done, wanted, strict=True):
        commit = r.commit(progress.version)
        assert {name: counts(one) for name, one in commit.operators.items()} == by_operator, progress.version
        assert {name: tuple(one.values()) for name, one in progress.operators.items()} == by_operator
        for operator in commit.operators.values():
            assert sum(counts(operator)) == operator.reached_rows
        rows, (applied, _, failed) = rows_of[progress.version], by_operator["sessions"]
        assert (progress.numInputRows, progress.applied_rows, progress.quarantined_rows) == (len(rows), applied, failed)
        lost = [(name, by_operator[name][1]) for name in ("daily", "once") if by_operator[name][1]]
        assert progress.lost_behind == [f"{rows} late for `{name}`, behind `sessions`" for name, rows in lost]
    in_quarantine = Counter(name for row in r.quarantine().to_pylist() for name in str(row["operator"]).split(","))
    kept = {name: sum(one[name][1] for one in wanted) for name in ("daily", "once") if late == "quarantine"}
    assert in_quarantine == Counter({"sessions": sum(one["sessions"][2] for one in wanted)}) + Counter(kept)
    assert sum(one["daily"][1] for one in wanted), "the seed has late rows"
    assert r.verify(deep=True).problems == []


def at(second: int) -> str:
    return (START + timedelta(seconds=second)).isoformat()


def two_batches(world: World) -> tm.Repository:
    """The second batch has 4 rows: one fails, one is late for `daily` and `once`."""
    world.arrive([("a", at(60), 1), ("b", at(61), 2)])
    world.run()
    world.arrive([("a", at(20), 3), ("b", at(62), 4), ("c", at(63), BAD), ("d", at(64), 5)])
    return world.open()


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (
            {"tidemill.fail_if_late": "30%"},
            "1 late row for operator `daily`, behind `sessions`, of 3, expected at most 30%",
        ),
        (
            {"tidemill.fail_if_late": "0"},
            "1 late row for operator `daily`, behind `sessions`, of 3, expected at most 0",
        ),
        ({"tidemill.fail_if_quarantined": "24%"}, "1 quarantined row of 4, expected at most 24%"),
    ],
)
def test_a_limit_holds_for_every_operator(limit: dict[str, Any], said: str, late: str, tmp_path: Path) -> None:
    r = two_batches(world_of(tmp_path, late, limit))
    with pytest.raises(tm.InvalidInput, match=said) as refused:
        r.run(engine="local")
    if "late" in said:
        assert "file `0001.csv`, row 1: late for operator `daily`" in str(refused.value)
    assert r.head.version == 0
    assert [one.version for one in world_of(tmp_path, late).open().run(engine="local")] == [1]


def test_a_share_that_no_operator_exceeds_is_no_reason_to_refuse(tmp_path: Path) -> None:
    limits = {"tidemill.fail_if_late": "34%", "tidemill.fail_if_quarantined": "25%"}
    assert two_batches(world_of(tmp_path, "drop", limits)).run(engine="local")[0].lost_behind == [
        "1 late for `daily`, behind `sessions`",
        "1 late for `once`, behind `sessions`",
    ]


@pytest.mark.parametrize("late", ["drop", "quarantine"])
def test_log_status_and_progress_say_what_was_lost_behind_an_operator(
    late: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    two_batches(world_of(tmp_path, late))
    (tmp_path / "code.py").write_text(
        "from pathlib import Path\nfrom tests.model.test_counts_of_operators import world_of\n"
        f"p = world_of(Path({str(tmp_path)!r}), {late!r}).pipeline()\n"
    )
    code, lost = [f"{tmp_path}/code.py:p", f"--root={tmp_path}/root"], "1 late for `daily`, behind `sessions`"
    for words in (["run", *code, "--engine=local"], ["log", *code], ["status", *code]):
        assert main(words) == 0
        out = capfd.readouterr().out
        assert lost in " ".join(out.split()), words
        if words[0] == "run":
            last = out.splitlines()[-1]
            assert last.startswith("version 1: 1 late for `once`, behind `sessions`")
            assert last.endswith("; see `tidemill quarantine`") is (late == "quarantine")
    for words in (["log", *code, "--json"], ["status", *code, "--json"]):
        assert main(words) == 0
        assert lost in capfd.readouterr().out, words


def test_a_share_is_exact(tmp_path: Path) -> None:
    """As a product of floats, 29% of 100 is less than 29."""

    def fails(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        if row.n < 29:
            raise ValueError("unlucky")
        return (key,)

    def build(p: tm.Pipeline, world: World) -> None:
        world.read(p).groupBy("k").mapWithState(
            tm.StateSpec.function(fails), stateSchema="long", outputSchema="k string", name="m", on_error="quarantine"
        )

    rows = [(f"k{n}", n) for n in range(100)]
    for limit, is_refused in (("28%", True), ("29%", False)):
        world = World(tmp_path / limit, build, schema="k string, n int", conf={"tidemill.fail_if_quarantined": limit})
        world.arrive(rows)
        if is_refused:
            with pytest.raises(tm.InvalidInput, match="29 quarantined rows of 100, expected at most 28%"):
                world.run()
        else:
            assert world.run() == [0]


def far_ahead(p: tm.Pipeline, world: World) -> None:
    rows = world.read(p)
    first = rows.groupBy("k").mapWithState(
        tm.StateSpec.function(passed), stateSchema="long", outputSchema="k string, at timestamp, n int", name="sessions"
    )
    behind = first.withWatermark("at", "0 seconds", maxAhead="1 day")
    behind.groupBy("k").agg(n=tm.count(), name="daily")


def test_rows_too_far_ahead_behind_an_operator_are_counted(tmp_path: Path) -> None:
    world = World(tmp_path, far_ahead, schema="k string, at timestamp, n int")
    world.arrive([("a", at(0), 1), ("a", "2999-01-01T00:00:00Z", 2)])
    with pytest.raises(tm.InvalidInput, match="1 row quarantined by operator `daily`, behind `sessions`, of 2"):
        world.open(conf={"tidemill.fail_if_quarantined": "0"}).run(engine="local")
    (done,) = world.open().run(engine="local")
    assert done.operators["daily"] == {"applied_rows": 1, "late_rows": 0, "quarantined_rows": 1}
    assert done.lost_behind == ["1 quarantined by `daily`, behind `sessions`"]
    assert [row["kind"] for row in world.open().quarantine().to_pylist()] == ["ahead"]


def test_late_rows_of_files_are_not_lost_behind_an_operator(tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        left = world.read(p).withWatermark("at", "1 second", late="drop")
        right = world.read(p, "right", "right").groupBy("k").mapWithState(
            tm.StateSpec.function(passed), stateSchema="long", outputSchema="k string, at timestamp, n int", name="g"
        ).withWatermark("at", "1 second", late="drop")  # fmt: skip
        left.groupBy("k").add(Pairs("pairs", "n", "n", lambda a, b: f"{a}{b}", "fail"), right.groupBy("k"))

    world = World(tmp_path, build, schema="k string, at timestamp, n int")
    for second in (50, 100):
        world.arrive([("a", at(second), 1)])
        world.arrive([("a", at(second), 2)], inbox="right")
    world.arrive([("a", at(1), 1), ("a", at(2), 1), ("a", at(120), 1)])
    world.arrive([("a", at(1), 2), ("a", at(120), 2)], inbox="right")
    *_, done = world.open().run(engine="local")
    assert done.operators["pairs"]["late_rows"] == 3 and done.late_rows == 2
    assert done.lost_behind == ["1 late for `pairs`, behind `g`"]

"""The bounds of time: batch times, clocks, and limits of bad rows, all before anything counts; and `reset`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import Build, World, run
from tidemill.cli.main import main
from tidemill.clock import now_ms

DAY = 24 * 3600 * 1000


def windows(late: str = "drop") -> Build:
    """Count rows by key and minute."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p, "rows").withWatermark("ts", "1 minute", late=late)
        rows.groupBy("k", tm.window("ts", "1 minute")).agg(n=tm.count(), name="n", outputMode="append")

    return build


def set_to(**settings: Any) -> dict[str, Any]:
    return {f"tidemill.{name}": value for name, value in settings.items()}


def row(minute: int, k: str = "a") -> dict[str, Any]:
    return {"k": k, "ts": f"2024-01-01T00:{minute:02d}:00"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    read = {"format": "json", "schema": "k string, ts timestamp", "mode": "PERMISSIVE", "maxFilesPerTrigger": None}
    return World(tmp_path, windows(), root=f"memory://{tmp_path}", **read)


def plans(r: tm.Repository) -> list[str]:
    return [entry.name for entry in r.opened.store.list("branches/main/plans/")]


# batch times


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_microseconds_by_mistake_are_refused_before_the_plan(world: World, verb: str) -> None:
    world.arrive([row(0)])
    r = world.open()
    run(r, max_batches=1)
    world.arrive([row(1)])
    before = plans(r)
    with pytest.raises(tm.InvalidInput, match="looks like microseconds"):
        getattr(r, verb)(engine="local", batch_time=now_ms() * 1000)
    assert plans(r) == before
    assert run(r)[0] == r.head.version


def test_a_tolerance_may_be_set(world: World) -> None:
    world.arrive([row(0)])
    at_ms = now_ms() + 10 * DAY
    with pytest.raises(tm.InvalidInput, match="tidemill.batch_time_tolerance"):
        world.run(batch_time=at_ms)
    r = world.open(conf=set_to(batch_time_tolerance="11 days"))
    run(r, batch_time=at_ms)
    assert r.head.batch_time_ms == at_ms


def test_the_result_of_a_batch_time_function_is_bounded(world: World) -> None:
    world.arrive([row(0)])
    r = world.open()
    r.opened.pipeline.batch_time(lambda plan: now_ms() * 1000)
    with pytest.raises(tm.InvalidInput, match="the function of p.batch_time for batch 0 is .*, which looks like micro"):
        run(r)
    assert plans(r) == []


def test_a_plan_of_a_driver_with_a_wrong_clock_is_not_executed(world: World) -> None:
    world.arrive([row(0)], "not json\n")
    ahead = world.open(conf=set_to(batch_time_tolerance="1000 days", fail_if_quarantined="0"))
    with pytest.raises(tm.InvalidInput, match="fail_if_quarantined"):
        run(ahead, batch_time=now_ms() + 500 * DAY)
    r = world.open(init=False)
    with pytest.raises(tm.InvalidInput, match="plan 0 has the batch time .*, but the clock says"):
        run(r)
    r.replan("a wrong clock")
    run(r)
    assert abs(r.head.batch_time_ms - now_ms()) < DAY


def test_after_a_clock_was_ahead_no_plan_is_written_until_the_batch_time_is_reset(world: World) -> None:
    """The hint is carried out as it is printed, and then the pipeline goes on."""
    world.arrive([row(0)])
    run(world.open(conf=set_to(batch_time_tolerance="1000 days")), batch_time=now_ms() + 500 * DAY)
    r = world.open(init=False)
    at, before = r.head.version, plans(r)
    assert run(r) == [] and r.sweep(engine="local") == []
    world.arrive([row(1)])
    for _ in range(2):
        with pytest.raises(tm.InvalidInput) as refused:
            run(r)
        message = str(refused.value)
        assert f"plan {at + 1} cannot have a batch time before " in message
        assert f", that of version {at}, but the clock says " in message
        assert plans(r) == before, "nothing is written"
    (to,) = re.findall(r"`tidemill reset --batch-time ([^`]*)`, which also ends a plan that is open", message)
    r.reset(batch_time=to, reason="the clock was ahead")
    run(r)
    assert abs(r.head.batch_time_ms - now_ms()) < DAY and r.head.counts.applied_rows == 1


def test_watermarks_that_followed_a_clock_ahead_are_named(world: World) -> None:
    def idle(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p, "rows").withWatermark("ts", "1 minute", idle="1 hour")
        rows.groupBy("k", tm.window("ts", "1 minute")).agg(n=tm.count(), name="n", outputMode="append")

    world = world.but(idle)
    world.arrive([row(0)])
    world.run()
    far = world.open(conf=set_to(batch_time_tolerance="1000 days"))
    far.sweep(engine="local", batch_time=now_ms() + 500 * DAY)
    r = world.open(init=False)
    assert r.head.watermarks["rows.ts"] > now_ms() + 400 * DAY
    world.arrive([row(1)])
    with pytest.raises(tm.InvalidInput, match="--watermark sets back watermark `rows.ts`, which may have followed it"):
        run(r)
    r.reset(batch_time=now_ms(), watermark="2024-01-01T00:00:00Z", reason="the clock was ahead")
    run(r)
    assert (r.head.counts.applied_rows, r.head.counts.late_rows) == (1, 0)


def test_a_plan_that_a_clock_ahead_left_ends_with_the_reset_of_the_hint(world: World) -> None:
    world.arrive([row(0)])
    far = set_to(batch_time_tolerance="1000 days")
    run(world.open(conf=far), batch_time=now_ms() + 500 * DAY)
    world.arrive([row(1)], "not json\n")
    with pytest.raises(tm.InvalidInput, match="fail_if_quarantined"):
        run(world.open(conf=far | set_to(fail_if_quarantined="0")))
    r = world.open(init=False)
    at = r.head.version
    assert r.status().planned == {"version": at + 1, "files": 2}
    with pytest.raises(tm.InvalidInput, match="(?s)cannot have a batch time before .*hint: .* `tidemill reset -"):
        run(r)
    r.reset(batch_time=now_ms(), reason="the clock was ahead")
    assert r.status().planned is None
    run(r)
    assert abs(r.head.batch_time_ms - now_ms()) < DAY


@pytest.mark.parametrize("off_ms", [-61_000, 61_000])
def test_a_driver_whose_clock_is_off_refuses_to_plan(world: World, off_ms: int, monkeypatch) -> None:
    world.arrive([row(0)])
    r = world.open()
    monkeypatch.setattr(type(r.opened.store), "clock_ms", lambda self: now_ms() + off_ms)
    with pytest.raises(tm.StoreUnavailable, match="the clock of this machine says .*, that of `memory://"):
        run(r)
    assert plans(r) == []
    monkeypatch.setattr(type(r.opened.store), "clock_ms", lambda self: now_ms() + off_ms // 2)
    assert len(r.run(engine="local")) == 1


# limits of bad rows


@pytest.mark.parametrize(("limit", "fails"), [("10%", True), ("34%", False), ("0", True), ("1", False), ("", False)])
def test_too_many_unreadable_rows_fail_a_batch_before_its_commit(world: World, limit: str, fails: bool) -> None:
    with world.put("0", [row(0), row(1)]).open("a") as file:
        file.write("not json\n")
    r = world.open(conf=set_to(fail_if_quarantined=limit))
    if not fails:
        run(r)
        assert r.head.counts.quarantined_rows == 1
        return
    with pytest.raises(tm.InvalidInput) as refused:
        run(r)
    message = str(refused.value)
    assert message.startswith("batch 0 is not committed: 1 quarantined row of 3, expected at most ")
    assert "file `0.json`, line 3" in message and "not json" in message and "replan" in message
    assert r.head is None
    assert not list(r.opened.store.list("quarantine/")), "nothing of the attempt remains"
    assert run(world.open(init=False)) == [0]


@pytest.mark.parametrize("late", ["drop", "quarantine"])
def test_too_many_late_rows_fail_a_batch_before_its_commit(world: World, late: str) -> None:
    world = world.but(windows(late))
    r = world.open(conf=set_to(fail_if_late="50%", fail_if_quarantined="0"))
    world.arrive([row(30)])
    run(r)
    world.arrive([row(31), row(2), row(3)])
    version = r.head.version
    with pytest.raises(
        tm.InvalidInput, match="2 late rows .* for operator `n`.* of 3, expected at most 50%"
    ) as refused:
        run(r)
    shown = [line for line in str(refused.value).splitlines() if line.startswith("file `0001.json`")]
    assert [line.partition(": late for operator `n`")[0][-5:] for line in shown] == ["row 2", "row 3"]
    if late == "drop":
        assert shown[0].endswith("event time 2024-01-01T00:02:00.000Z, watermark 2024-01-01T00:29:00.000Z")
    assert r.head.version == version
    run(world.open(conf=set_to(fail_if_late="67%")))
    assert sum(commit.counts.late_rows for commit in r.commits()) == 2


def total(batch_time: Any, k: Any, row: Any, state: Any) -> Any:
    state.update((state.getOption or 0) + 1)
    return (k, state.get)


def kept(*names: str) -> Build:
    """Give late rows to the functions."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p, "rows").withWatermark("ts", "1 minute", late="keep")
        for name in names:
            rows.groupBy("k").mapWithState(
                tm.StateSpec.function(total).timeout("1 day", clock="event"),
                stateSchema="long", outputSchema="k string, n long", name=name,
            )  # fmt: skip

    return build


def test_late_rows_that_a_function_is_given_count_as_late_too(world: World) -> None:
    world = world.but(kept("of-keep"))
    r = world.open(conf=set_to(fail_if_late="50%"))
    world.arrive([row(30)])
    run(r)
    just_late, just_in_time = {"k": "b", "ts": "2024-01-01T00:29:00"}, {"k": "c", "ts": "2024-01-01T00:29:00.0005"}
    world.arrive([just_in_time, row(2), just_late, {"k": "d"}])
    assert [one.applied_rows for one in r.run(engine="local")] == [4], "half of the rows is not more than 50%"
    assert r.head.counts.late_rows == 0 and r.head.counts.kept_late_rows == 2
    assert r.head.operators["of-keep"].kept_late_rows == 2
    assert [(late.file, late.row) for late in r.head.late_examples] == [("0001.json", 2), ("0001.json", 3)]
    world.arrive([row(31), row(3)])
    with pytest.raises(tm.InvalidInput, match=r"1 late row \(1 row for operator `of-keep`\) of 2") as refused:
        run(world.open(conf=set_to(fail_if_late="5%")))
    assert "file `0002.json`, row 2: late for operator `of-keep`: event time 2024-01-01T00:03:00.000Z" in str(
        refused.value
    )
    assert r.head.version == 1


def test_a_row_that_is_late_for_two_functions_is_counted_once(world: World) -> None:
    world = world.but(kept("one", "two"))
    r = world.open(conf=set_to(fail_if_late="1"))
    world.arrive([row(30)])
    run(r)
    world.arrive([row(31), row(2)])
    run(r)
    assert (r.head.counts.late_rows, r.head.counts.kept_late_rows) == (0, 1)
    assert [r.head.operators[name].kept_late_rows for name in ("one", "two")] == [1, 1]


@pytest.mark.parametrize("value", ["many", "101%", "-1", "5 %%"])
def test_an_invalid_limit_is_refused(world: World, value: str) -> None:
    with pytest.raises(tm.InvalidInput, match="setting `tidemill.fail_if_late` is .*: expected a share such as `5%`"):
        world.open(init=False, conf=set_to(fail_if_late=value))


# reset


def test_a_watermark_that_one_row_of_2101_raised_is_reset(world: World) -> None:
    r = world.open()
    world.arrive([row(0), {"k": "z", "ts": "2101-01-01T00:00:00"}])
    run(r)
    world.arrive([row(1)])
    run(r)
    assert r.head.counts.late_rows == 1
    made = r.reset(watermark="2024-01-01T00:00:00Z", reason="one row of 2101")
    expected = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000)
    assert (made.kind, made.reason, made.watermarks) == ("reset", "one row of 2101", {"rows.ts": expected})
    assert r.head == made
    world.arrive([row(2)])
    run(r)
    assert (r.head.counts.late_rows, r.head.counts.applied_rows) == (0, 1)
    assert made.rows == r.commit(made.version - 1).rows


def test_a_batch_time_is_reset_to_an_earlier_one_and_the_next_batch_goes_on_from_there(world: World) -> None:
    world.arrive([row(0)])
    run(world.open(conf=set_to(batch_time_tolerance="1000 days")), batch_time=now_ms() + 500 * DAY)
    r = world.open(init=False)
    made = r.reset(batch_time=1_000, reason="a wrong clock")
    assert (made.batch_time_ms, made.watermarks) == (1_000, r.commit(made.version - 1).watermarks)
    world.arrive([row(1)])
    run(r)
    assert 1_000 < r.head.batch_time_ms < now_ms() + DAY


def test_an_invalid_reset_changes_nothing(world: World) -> None:
    r = world.open()
    for call, message in (
        (lambda: r.reset(reason="x"), "neither a watermark nor a batch time"),
        (lambda: r.reset(watermark=5, reason=""), "the reason is empty"),
        (lambda: r.reset(watermark=0, batch_time=0, reason="x"), "nothing would change"),
        (lambda: r.reset(watermark={"rows.tz": 5}, reason="x"), "unknown watermark `rows.tz`"),
        (lambda: r.reset(batch_time=now_ms() * 1000, reason="x"), "looks like microseconds"),
        (lambda: r.reset(watermark=now_ms() * 1000, reason="x"), "watermark `rows.ts` is .*looks like microseconds"),
        (lambda: r.reset(watermark=2**63, reason="x"), "expected a time in the years 1 to 9999"),
        (lambda: r.reset(watermark=-(2**60), reason="x"), "expected a time in the years 1 to 9999"),
        (lambda: r.reset(watermark="soon", reason="x"), "invalid time 'soon'"),
    ):
        with pytest.raises(tm.InvalidInput, match=message):
            call()
    assert r.head is None


def test_a_watermark_is_refused_where_there_is_none(tmp_path: Path) -> None:
    r = World(tmp_path).open()
    for batch_time in (None, 5):
        with pytest.raises(tm.InvalidInput, match="found a watermark, but this pipeline has none"):
            r.reset(watermark="2024-01-01", batch_time=batch_time, reason="x")


def test_a_run_at_work_on_the_plan_is_fenced_by_a_reset(world: World, monkeypatch) -> None:
    from tidemill.run import drain

    world.arrive([row(0)])
    r, other = world.open(), world.open()
    real = drain.execute

    def execute(*given):
        made = real(*given)
        other.reset(watermark=5, reason="meanwhile")
        return made

    monkeypatch.setattr(drain, "execute", execute)
    with pytest.raises(tm.Fenced):
        run(r)
    monkeypatch.setattr(drain, "execute", real)
    assert not list(r.opened.store.list("state/n/")), "the loser deletes what it stored"
    run(r)
    assert [commit.kind for commit in r.commits()] == ["reset", "batch"]
    assert r.head.counts.applied_rows == 1


def test_reset_says_what_it_will_do(tmp_path: Path, capsys) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "code.py").write_text(
        "import tidemill as tm\np = tm.Pipeline('resets')\n"
        f"rows = p.read(tm.Files({str(tmp_path / 'in')!r}, format='json', schema='k string, ts timestamp'))\n"
        "rows.withWatermark('ts', '1 minute').dropDuplicates(['k', 'ts'])\n"
    )
    target = [f"{tmp_path / 'code.py'}:p", "--root", str(tmp_path / "root")]
    assert main(["init", *target]) == 0
    call = ["reset", *target, "--watermark", "source.ts=2024-01-01T00:00:00Z", "--batch-time", "5", "--reason", "x"]
    capsys.readouterr()
    assert main([*call, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "watermark source.ts: 1970-01-01T00:00:00.000Z -> 2024-01-01T00:00:00.000Z" in shown
    assert "batch time: 1970-01-01T00:00:00.000Z -> 1970-01-01T00:00:00.005Z" in shown
    assert main(call) == 0
    assert "reset in version 0: x" in capsys.readouterr().out
    assert main(["reset", *target, "--watermark", "a=b=c", "--reason", "x"]) == 1

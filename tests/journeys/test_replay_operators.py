"""`replay` of some operators: what is computed is what a full replay computes, and everything else is as recorded."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import Build, World, run
from tidemill.cli.main import main

UTC = datetime.UTC
DAY = datetime.datetime(2026, 1, 1)
OPERATORS = ("last", "per-hour", "sums", "tops")


class Code:
    """The functions of a pipeline; `factor` and `sign` are what a change of code changes."""

    def __init__(self, factor: int = 1, delay: str = "1 hour") -> None:
        self.factor, self.delay = factor, delay

    def last(self, batch_time: int, key: str, row: Any, state: Any) -> Any:
        if state.isTimingOut:
            return (key, state.get, True)
        if row.n == 13:
            raise ValueError("unlucky")
        state.update(row.n * self.factor)
        return (key, state.get, False)


def coded(code: Code | None = None, extra: bool = False) -> Build:
    functions = code or Code()

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p).withWatermark("at", functions.delay, late="quarantine")
        rows.sql("SELECT * FROM rows WHERE n > 30").write(tm.Json(world.sink("out/large")), name="large")
        spec = tm.StateSpec.function(functions.last).timeout("3 hours", clock="event")
        last = rows.groupBy("k").mapWithState(
            spec, stateSchema="int", outputSchema="k string, n int, ended boolean", name="last", on_error="quarantine"
        )
        last.write(tm.Json(world.sink("out/last")))
        sums = rows.groupBy("k").agg(n=tm.sum("n"), name="sums")
        sums.write(tm.Json(world.sink("out/sums")))
        tops = sums.sql("SELECT k, n, n % 3 AS third FROM rows").groupBy("third").agg(n=tm.max("n"), name="tops")
        tops.write(tm.Json(world.sink("out/tops")))
        hours = rows.groupBy(tm.window("at", "1 hour")).agg(n=tm.count(), name="per-hour", outputMode="append")
        hours.write(tm.Json(world.sink("out/hours")))
        if extra:
            sums.sql("SELECT k, n FROM rows").groupBy("k").agg(c=tm.count(), name="changes")
            rows.groupBy("n").agg(c=tm.count(), name="numbers").write(tm.Json(world.sink("out/numbers")))

    return build


class Shop(World):
    """Files of rows with event times, some late, some unreadable, some on which a function fails, and a pipeline."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, coded(), schema="k string, n int, at timestamp", mode="PERMISSIVE")

    def open(
        self, branch: str = "main", *, init: bool = False, conf: Mapping[str, Any] | None = None, **code: Any
    ) -> tm.Repository:
        """Open the repository with what `coded` makes of `code`."""
        return World.open(self.but(coded(**code)), branch, init=init, conf=conf)

    def arrive(self, *numbers: Any, inbox: str = "in") -> list[Path]:
        return [self.put(f"{number:02}", rows_of(number), inbox) for number in numbers]


def rows_of(number: int) -> list[tuple[Any, ...]]:
    def at(hours: int, minutes: int = 0) -> str:
        return f"{DAY + datetime.timedelta(hours=hours, minutes=minutes):%Y-%m-%d %H:%M:%S}"

    rows = [(f"k{j % 4}", number * 7 + j, at(number, 20 * j)) for j in range(6)]
    late = ("k9", number, at(number - 6))  # after a few files
    return [*rows, ("k1", 13, at(number)), late, ("bad", "bad", "bad")]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    r = made.open(init=True)
    made.arrive(*range(1, 10))
    run(r)
    return made


def state(r: tm.Repository, operator: str, version: int | None = None) -> list[str]:
    return sorted(map(str, r.state(operator, version).to_pylist()))


def everything(r: tm.Repository, operators: Any = OPERATORS) -> dict[str, Any]:
    """All that can be read of a branch, version by version."""
    found: dict[str, Any] = {}
    for commit in r.commits():
        for operator in operators:
            found[f"{commit.version} {operator}"] = state(r, operator, commit.version)
        for sink in sorted(commit.sinks):
            found[f"{commit.version} {sink}"] = r.outputs(commit.version, sink).to_pylist()
        found[f"{commit.version} quarantine"] = r.quarantine(commit.version).drop_columns(["requeued"]).to_pylist()
        found[f"{commit.version} counts"] = (commit.counts, commit.watermarks, commit.batch_time_ms, commit.waiting)
        found[f"{commit.version} deadlines"] = commit.next_deadline
    return found


def test_the_pipeline_has_all_that_a_partial_replay_must_keep_apart(shop: Shop) -> None:
    r = shop.open()
    kinds = Counter(r.quarantine()["kind"].to_pylist())
    assert kinds.keys() == {"late", "failed", "unreadable"}
    assert any("," in (operator or "") for operator in r.quarantine()["operator"].to_pylist()), "late for several"
    assert all(r.outputs(sink=name).num_rows for name in ("large", "last", "sums", "tops", "per-hour"))


@pytest.mark.parametrize("operators", [["last"], ["sums", "tops"], ["tops"], ["per-hour"], list(OPERATORS)])
@pytest.mark.parametrize("tasks", [1, 3])
def test_the_same_code_makes_the_same_of_any_operators(shop: Shop, operators: list[str], tasks: int) -> None:
    r = shop.open()
    made = r.replay(0, into="same", operators=operators, engine="local", tasks=tasks)
    assert (made.operators, made.left) == (sorted(operators), 0)
    b = shop.open("same")
    assert everything(b) == everything(r)
    assert {tuple(commit.computed) for commit in b.commits()} == {tuple(sorted(operators))}
    assert b.verify(deep=True).problems == []


def test_only_what_is_computed_is_stored(shop: Shop) -> None:
    r = shop.open()
    r.replay(0, into="same", operators=["tops"], engine="local")
    (branch,) = {commit.branch for commit in shop.open("same").commits()}
    root = shop.folder / "root/shop"
    stored = {path.relative_to(root).parts[1] for path in root.glob(f"state/*/*/{branch}/*")}
    assert stored == {"tops", "_ledger"}, "segments of `sums`, which `tops` reads, are deleted"
    assert {path.parts[-3] for path in root.glob(f"output/*/{branch}/*")} == {"tops"}
    assert not list(root.glob(f"quarantine/{branch}/*"))


def test_a_changed_operator_is_computed_and_the_others_are_as_recorded(shop: Shop) -> None:
    changed = shop.open(code=Code(factor=2))
    changed.replay(0, into="all", engine="local")
    changed.replay(0, into="some", operators=["last"], engine="local")
    every, some = (shop.open(branch, code=Code(factor=2)) for branch in ("all", "some"))
    assert everything(some) == everything(every)
    assert state(some, "last") != state(shop.open(), "last")
    functions = [commit.code["functions"] for commit in (some.head, every.head, shop.open().head)]
    assert functions[0]["last"] == functions[1]["last"]


def test_new_operators_get_their_past_and_are_promoted(shop: Shop) -> None:
    r = shop.open(extra=True)
    with pytest.raises(tm.InvalidInput, match="operator `changes` has no state in this repository"):
        run(r)
    r.replay(0, into="all", engine="local")
    made = r.replay(0, into="some", operators=["changes", "numbers"], engine="local", max_batches=4)
    assert made.left == 5
    shop.arrive(10, 11)
    run(shop.open())
    assert r.replay(0, into="some", engine="local").operators == ["changes", "numbers"], "it goes on as it began"
    r.replay(0, into="all", engine="local")
    every, some = (shop.open(branch, extra=True) for branch in ("all", "some"))
    assert everything(some, (*OPERATORS, "changes", "numbers")) == everything(every, (*OPERATORS, "changes", "numbers"))
    published = sorted(path.read_text() for path in (shop.folder / "out/sums").glob("*.json"))
    shop.arrive(12)
    run(shop.open())
    before = {name: state(shop.open(), name) for name in OPERATORS}
    r.promote("some", catch_up=True, engine="local")
    assert {name: state(r, name) for name in OPERATORS} == before
    r.drop_branch("some")
    r.maintain()
    assert r.verify(deep=True).problems == []
    shop.arrive(13)
    assert len(run(r)) == 1
    naive = Counter(n for file in (shop.folder / "in").glob("*.csv") for n in _numbers(file))
    found = dict(zip(*(r.state("numbers")[name].to_pylist() for name in ("n", "c")), strict=True))
    assert found == dict(naive) and len(found) > 50
    now = sorted(path.read_text() for path in (shop.folder / "out/sums").glob("*.json"))
    assert set(published) <= set(now), "what was not computed is published with the same rows"


def _numbers(file: Path) -> list[int]:
    lines = [line.split(",") for line in file.read_text().splitlines()]
    return [int(n) for _, n, at in lines if n != "bad"]


def test_sweeps_skipped_files_and_requeued_rows_are_repeated(shop: Shop) -> None:
    r = shop.open()
    rows = r.quarantine(0, export=True)
    fixed = rows.filter([text == "bad,bad,bad" for text in rows["_text"].to_pylist()])
    for column, value in (("k", "k0"), ("n", 5), ("at", (DAY + datetime.timedelta(hours=9)).replace(tzinfo=UTC))):
        place = fixed.column_names.index(column)
        values = pa.array([value] * fixed.num_rows, fixed.schema.field(place).type)
        fixed = fixed.set_column(place, fixed.schema.field(place), values)
    assert fixed.num_rows == 1
    r.requeue(0, rows=fixed)
    shop.arrive(10, 11)
    r.skip("11.csv", "a test")
    run(r)
    r.sweep(engine="local")
    r.replay(0, into="same", operators=["last"], engine="local")
    b = shop.open("same")
    assert everything(b) == everything(r)
    assert [(one.kind, one.computed) for one in b.commits()] == [(one.kind, ["last"]) for one in r.commits()]
    assert run(b) == []


def test_what_does_not_fit_is_refused_before_anything_is_written(shop: Shop) -> None:
    r = shop.open()
    for operators, said in (
        (["nope"], "unknown operator `nope`"),
        ([], "operators is empty"),
        ("last", "operators='last', expected a list of names"),
        (["sums"], "`tops` reads the output of `sums`, so what is recorded of `tops` would not fit"),
    ):
        with pytest.raises(tm.InvalidInput, match=said):
            r.replay(0, into="fix", operators=operators, engine="local")
    with pytest.raises(tm.InvalidInput, match="files='current', expected 'recorded'"):
        r.replay(0, into="fix", operators=["last"], files="current", engine="local")
    assert [one.name for one in r.branches()] == ["main"]
    r.replay(0, into="fix", operators=["last"], engine="local", max_batches=1)
    with pytest.raises(tm.InvalidInput, match="the branch began with `last`"):
        r.replay(0, into="fix", operators=["per-hour"], engine="local")
    r.replay(0, into="all", engine="local", max_batches=1)
    with pytest.raises(tm.InvalidInput, match="the branch began with all of them"):
        r.replay(0, into="all", operators=["last"], engine="local")
    other = shop.open(code=Code(delay="2 hours"))
    with pytest.raises(tm.InvalidInput, match="watermark `source.at` is .* and other operators use it"):
        other.replay(0, into="late", operators=["last"], engine="local")


@pytest.mark.parametrize("kind", ["value", "columns"])
def test_code_that_changed_an_operator_upstream_is_refused(tmp_path: Path, kind: str) -> None:
    """Otherwise the operator would read outputs that are made of the recorded state and of the changed code."""

    def made_by(upstream: dict[str, Any], factor: int = 1) -> Build:
        def build(p: tm.Pipeline, world: World) -> None:
            rows = world.read(p).sql(f"SELECT k, n * {factor} AS n FROM rows")
            sums = rows.groupBy("k").agg(**upstream, name="sums")
            sums.sql("SELECT n, 1 AS one FROM rows").groupBy("one").agg(n=tm.max("n"), name="tops")

        return build

    recorded = {"n": tm.sum("n")}
    world = World(tmp_path, made_by(recorded), schema="k string, n int")
    world.arrive(*(f"a,{number}\nb,1\n" for number in range(3)))
    world.run()
    other = made_by(recorded, 10) if kind == "value" else made_by({**recorded, "more": tm.count()})
    changed = world.but(other).open(init=False)
    with pytest.raises(tm.InvalidInput, match="read the output of `sums`, and this code gives `sums` another state"):
        changed.replay(0, into="tops", operators=["tops"], engine="local")
    stored = [path for path in (tmp_path / "root/shop").rglob("*") if path.is_file() and "/tops-" in path.as_posix()]
    assert [path.parent.name for path in stored] == ["plans"], "what the version wrote is deleted"
    assert world.open().replay(0, into="tops", operators=["tops"], engine="local").versions == [0, 1, 2]
    changed.replay(0, into="both", operators=["sums", "tops"], engine="local")


def test_the_command_line(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    (shop.folder / "shop.py").write_text(
        "import pathlib\nfrom tests.journeys.test_replay_operators import Shop\n"
        "p = Shop(pathlib.Path(__file__).parent).pipeline()\n"
    )
    asked = ["replay", f"{shop.folder / 'shop.py'}:p", "--root", str(shop.folder / "root"), "--from", "0"]
    assert main([*asked, "--into", "fix", "--operators", "sums,tops", "--engine", "local"]) == 0
    assert "replayed versions 0–8 into `fix`" in capsys.readouterr().out
    assert shop.open("fix").head.computed == ["sums", "tops"]
    assert main([*asked, "--into", "fix", "--operators", "last", "--engine", "local"]) == 1
    assert "the branch began with `sums`, `tops`" in capsys.readouterr().err

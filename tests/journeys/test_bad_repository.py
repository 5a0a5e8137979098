"""Code and a repository that do not fit give one clear error, and never start empty: operators, plans, lost objects."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import tidemill as tm
from tests.journeys.bad_input import counting, refused
from tests.world import World, over, run, state
from tidemill.cli.main import main
from tidemill.repo import init

X = [{"k": "x", "v": 1}]


def opened(world, *names, **options):
    """Open the repository with code that counts in operators of these names, without `init`."""
    return world.but(counting(*names, **options)).open(init=False)


def ran(world, *names):
    """Make the repository with code that counts in operators of these names, and run."""
    return world.but(counting(*names)).run()


def test_run_before_init_is_refused_and_creates_no_files(world):
    r = opened(world, "n")
    refused(lambda: run(r), "no repository", "init")
    assert not Path(world.root).exists()


def test_a_schema_that_does_not_match_the_state_shows_both(world):
    def keep(batch_time, key, v, state):
        state.update(v)

    def keeping(schema):
        spec, kept = tm.StateSpec.function(keep), {"outputSchema": "int", "value": "v", "name": "keep"}
        return world.but(over(lambda rows: rows.groupBy("k").mapWithState(spec, stateSchema=schema, **kept)))

    keeping("int").run()
    r = keeping("double").open(init=False)
    before = r.opened.log.head()
    refused(lambda: run(r), "`keep`", "int", "double", "rename the operator", "--drop keep")
    assert r.opened.log.head() == before


def test_another_key_or_kind_of_operator_is_refused(world):
    ran(world, "op")
    refused(lambda: run(opened(world, "op", key="v")), "`op`", "key")


def test_a_renamed_operator_does_not_start_empty(world):
    opened(world, "old").init()
    refused(lambda: run(opened(world, "new")), "`new`", "`old`")
    refused(opened(world, "new").init, "`new`", "`old`", "renamed")


def test_init_again_adds_a_new_operator_which_then_starts_empty_on_purpose(world):
    ran(world, "old")
    r = opened(world, "old", "new")
    refused(lambda: run(r), "`new`")
    r.init()
    world.put("b", X)
    run(r)
    assert state(r, "new").keys() == {"x"}
    assert state(r, "old").keys() == {"x", "y"}


def test_two_inits_at_once_record_a_new_operator_once(world, monkeypatch):
    opened(world, "old").init()
    one, two = (opened(world, "old", "new") for _ in range(2))
    write_test = init.probe

    def meanwhile(store):
        monkeypatch.setattr(init, "probe", write_test)
        two.init()
        write_test(store)

    monkeypatch.setattr(init, "probe", meanwhile)  # `one` has seen that the operator is missing
    one.init()
    assert one.init().through == two.init().through == 1


def test_the_state_of_a_removed_operator_is_discarded_only_by_name(world):
    ran(world, "one", "two")
    refused(opened(world, "one").init, "lacks the operator `two`", "--drop two")
    refused(opened(world, "one", "three").init, "lacks the operator `two`", "`three`", "renamed")
    refused(lambda: opened(world, "one", "two").init(drop=["two"]), "`two`", "still has it")
    refused(lambda: opened(world, "one").init(drop="two"), "drop='two'", "drop=['two']")
    world.put("b", X)
    run(opened(world, "one", "two"))
    opened(world, "one", "three").init(drop=["two"])
    r = opened(world, "one", "three")
    assert state(r, "three") == {}
    world.put("c", X)
    run(r)
    assert state(r, "one")["x"] == 3
    assert state(r, "three") == {"x": 1}
    refused(lambda: r.state("two"), "`two`")


def test_an_init_that_is_refused_changes_nothing(world):
    def opened(column, *more):
        def build(p, world):
            grouped = world.read(p).groupBy("k")
            grouped.agg(n=tm.count(), s=tm.sum(column) if column else tm.count(), name="one")
            for name in more:
                grouped.agg(n=tm.count(), name=name)

        return world.but(build).open(init=False)

    def refs():
        return sorted(path.name for path in Path(world.root).rglob("refs/*"))

    opened("v", "two").init()
    run(opened("v", "two"))
    before = refs()
    refused(lambda: opened(None, "two", "three").init(), "`one`", "sum(v)")
    refused(lambda: opened(None).init(drop=["two"]), "`one`", "sum(v)")
    refused(lambda: opened("v", "two").init(drop=["twoo"]), "unknown operator to drop `twoo`")
    assert refs() == before
    for name in ("b", "c"):
        world.put(name, X)
        run(opened("v", "two"))
    assert state(opened("v", "two"), "two")["x"] == 3


def test_a_plan_is_abandoned_only_on_a_store_that_creates_conditionally(world, tmp_path, monkeypatch):
    from tidemill.store.local import LocalStore

    world.put("b", [{"k": "x", "v": "many"}])
    r = world.open()
    refused(lambda: run(r), "`b.json`")
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    tm.open(r.opened.pipeline, root=str(tmp_path / "copy")).adopt(copy=True)
    (tmp_path / "copy").rename(tmp_path / "other")  # a process checks each store once, and this one is new
    for module in ("publishing.correct", "actions.carry_out"):
        monkeypatch.setattr(f"tidemill.{module}.check_root", lambda repo: None)
    other = tm.open(r.opened.pipeline, root=str(tmp_path / "other"))
    monkeypatch.setattr(LocalStore, "create", lambda self, name, data: self.put(name, data) or True)
    refused(lambda: other.replan("x"), "conditional")
    assert not list((tmp_path / "other").rglob("commits/*.json"))


def test_an_unknown_branch_does_not_start_empty(world):
    refused(lambda: world.open("mian"), "has no repository under")
    world.open()
    refused(lambda: world.open("mian"), "unknown branch `mian`; did you mean `main`?")


def test_state_of_one_window_is_not_read_by_another(tmp_path):
    def of(duration):
        windows = tm.window("ts", windowDuration=duration)
        return over(lambda rows: rows.withWatermark("ts", "1 day").groupBy(windows).agg(n=tm.count()))

    hourly = World(tmp_path, of("1 hour"), schema="ts timestamp")
    hourly.arrive("2024-01-01T00:00:00\n")
    hourly.run()
    r = hourly.but(of("2 hours")).open(init=False)
    refused(lambda: run(r), "`window` = 1 hour by 1 hour from 0 seconds over ts")


def test_a_root_that_holds_another_pipeline_or_is_a_repository_itself(tmp_path):
    one, two = (World(tmp_path, counting("n"), name=name) for name in ("one", "two"))
    one.open()
    Path(one.root, "one").rename(Path(one.root, "two"))
    refused(two.open, "`one`", "`two`")
    refused(lambda: run(two.open(init=False)), "`one`", "`two`")
    inside = World(tmp_path, counting("n"), name="two", root="root/two")
    refused(inside.open, "is the repository of a pipeline, expected the folder above it")


def test_a_record_of_a_newer_format_is_refused(world):
    world.run()
    (path,) = Path(world.root).rglob("commits/*.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "format": 99}))
    with pytest.raises(tm.InvalidInput, match="format 99.*newer Tidemill"):
        _ = world.open(init=False).head


def test_missing_or_damaged_state_is_an_error_never_an_empty_start(world):
    world.run()
    (segment,) = Path(world.root, "bad/state/n").rglob("*.parquet")
    whole = segment.read_bytes()
    world.put("c", X)
    from tidemill.state import cache

    for damage in (whole[:-10], whole[:50] + b"\x00" + whole[51:], None):
        cache._CACHE.clear()
        segment.unlink() if damage is None else segment.write_bytes(damage)
        with pytest.raises(tm.CorruptState) as caught:
            run(world.open(init=False))
        assert segment.name in str(caught.value)
    assert world.open(init=False).head.version == 0


def test_two_repositories_of_one_pipeline_publish_side_by_side(tmp_path):
    def build(p, world):
        world.read(p).groupBy("k").agg(n=tm.count(), name="n").write(tm.Parquet(world.out))

    for root in ("one", "two"):
        world = World(tmp_path, build, name="bad", root=root)
        world.put("a", "x,1\ny,2\n")
        world.run(adopt_sink=root == "two")
    assert len(list(Path(world.out).glob("bad.n-0000000000-00000-*.parquet"))) == 2


def test_changed_aggregates_and_clocks_do_not_continue_foreign_state(world):
    ran(world, "op")
    refused(lambda: run(opened(world, "op", n=tm.sum("v"))), "`op`", "count(*)", "sum(v)")


def test_an_operator_that_was_dropped_does_not_miss_batches_silently(world):
    ran(world, "a", "b")
    refused(lambda: run(opened(world, "a")), "`b`", "but this code does not have the operator", "--drop b")
    opened(world, "a").init(drop=["b"])
    world.put("b", X)
    run(opened(world, "a"))
    refused(lambda: run(opened(world, "a", "b")), "`b`", "init")
    opened(world, "a", "b").init()
    world.put("c", X)
    r = opened(world, "a", "b")
    run(r)
    assert list(state(r, "b").values()) == [1]
    assert r.state("b", version=0).num_rows == 2


def test_a_plan_that_cannot_run_is_abandoned_and_its_files_are_planned_again(world):
    world.put("b", [{"k": "x", "v": "many"}])
    r = world.open()
    refused(lambda: r.replan("too early"), "has no plan")
    refused(lambda: run(r), "many")
    world.put("b", [{"k": "x", "v": 3}])
    refused(lambda: run(r), "b.json", "replan")
    void = r.replan("b.json was corrected")
    assert (void.kind, void.version, void.reason) == ("void", 0, "b.json was corrected")
    assert run(r) == [1]
    assert state(r, "n") == {"x": 2, "y": 1}


def test_a_lost_log_is_an_error_never_an_empty_start(world):
    world.run()
    for lost in ("commits", "plans"):
        shutil.rmtree(Path(world.root, "bad/branches/main", lost))
    with pytest.raises(tm.CorruptState, match="the hint `branches/main/head.json` names it"):
        run(world.open(init=False))


def test_outputs_of_two_schemas_are_read_version_by_version(world):
    def emitting(output, value):
        def f(batch_time, key, v, state):
            state.update(v)
            return value

        spec, kept = tm.StateSpec.function(f), {"stateSchema": "int", "value": "v", "name": "op"}
        return world.but(over(lambda rows: rows.groupBy("k").mapWithState(spec, outputSchema=output, **kept)))

    emitting("int", 1).run()
    world.put("b", X)
    r = emitting("string", "one").open(init=False)
    run(r)
    refused(r.outputs, "`op`", "one version at a time")
    assert r.outputs(1).drop_columns(["_seq"]).to_pylist() == [{"value": "one", "_batch_id": 1}]


def test_a_first_plan_with_a_wrong_schema_does_not_lock_it(world):
    world.put("a", [{"k": "x", "v": 1.5}])

    def opened(kind):
        return world.but(counting("total", total=tm.sum("v")), schema=f"k string, v {kind}").open(init=False)

    wrong = opened("int")
    wrong.init()
    refused(lambda: run(wrong), "`a.json`")
    right = opened("double")
    refused(lambda: run(right), "operator `total`", "no batch has run yet, run init again")
    right.replan("the schema was wrong")
    run(right)
    assert state(right, "total") == {"x": 1.5}
    refused(lambda: run(opened("int")), "operator `total`")


def test_init_before_the_first_batch_records_another_schema_and_says_so(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"k": "x", "v": 1.5}\n')
    for name, kind in (("wrong", "int"), ("right", "double")):
        text = f"""
import tidemill as tm
p = tm.Pipeline("bad")
rows = p.read(tm.Files("in", format="json", schema="k string, v {kind}"))
rows.groupBy("k").agg(total=tm.sum("v"), name="total")
"""
        (tmp_path / f"{name}.py").write_text(text)
    assert main(["init", "wrong.py:p", "--root", "root"]) == 0
    assert main(["init", "right.py:p", "--root", "root"]) == 0
    assert "changed: total\n" in capfd.readouterr().out
    assert main(["run", "right.py:p", "--root", "root", "--engine", "local"]) == 0
    assert main(["init", "right.py:p", "--root", "root"]) == 0
    assert "operators: unchanged\n" in capfd.readouterr().out

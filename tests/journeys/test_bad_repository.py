"""Code and a repository that do not fit give one clear error, and never start empty: operators, plans, lost objects."""

from __future__ import annotations

import functools
import json
import shutil

import pytest

import tidemill as tm
from tests.journeys.bad_input import counting, refused
from tidemill.cli.main import main
from tidemill.repo import init


def counting_as(folder, tmp_path, *names):
    """A repository whose code counts rows by key, once for each of these operators."""
    p, grouped = counting(folder)
    for name in names:
        grouped.agg(n=tm.count(), name=name)
    return tm.open(p, root=str(tmp_path / "root"))


def test_run_before_init_is_refused_and_creates_no_files(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    refused(lambda: r.run(engine="local"), "no repository", "init")
    assert not (tmp_path / "root").exists()


def test_a_schema_that_does_not_match_the_state_shows_both(folder, tmp_path):
    def keep(batch_time, key, v, state):
        state.update(v)

    for schema in ("int", "double"):
        p, grouped = counting(folder)
        grouped.mapWithState(
            tm.StateSpec.function(keep), stateSchema=schema, outputSchema="int", value="v", name="keep"
        )
        r = tm.open(p, root=str(tmp_path / "root"))
        if schema == "int":
            r.init()
            r.run(engine="local")
            continue
        before = r.opened.log.head()
        refused(lambda: r.run(engine="local"), "`keep`", "int", "double", "rename the operator", "--drop keep")  # noqa: B023
        assert r.opened.log.head() == before


def test_another_key_or_kind_of_operator_is_refused(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="op")
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    other, grouped = counting(folder, key="v")
    grouped.agg(n=tm.count(), name="op")
    refused(lambda: tm.open(other, root=str(tmp_path / "root")).run(engine="local"), "`op`", "key")


def test_a_renamed_operator_does_not_start_empty(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="old")
    tm.open(p, root=str(tmp_path / "root")).init()
    other, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="new")
    refused(lambda: tm.open(other, root=str(tmp_path / "root")).run(engine="local"), "`new`", "`old`")
    refused(lambda: tm.open(other, root=str(tmp_path / "root")).init(), "`new`", "`old`", "renamed")


def test_init_again_adds_a_new_operator_which_then_starts_empty_on_purpose(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="old")
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    grouped.agg(n=tm.count(), name="new")
    r = tm.open(p, root=str(tmp_path / "root"))
    refused(lambda: r.run(engine="local"), "`new`")
    r.init()
    (folder / "b.json").write_text('{"k": "x", "v": 1}\n')
    r.run(engine="local")
    assert {row["k"]: row for row in r.state("new").to_pylist()}.keys() == {"x"}
    assert {row["k"]: row for row in r.state("old").to_pylist()}.keys() == {"x", "y"}


def test_two_inits_at_once_record_a_new_operator_once(folder, tmp_path, monkeypatch):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="old")
    tm.open(p, root=str(tmp_path / "root")).init()
    grouped.agg(n=tm.count(), name="new")
    one, two = (tm.open(p, root=str(tmp_path / "root")) for _ in range(2))
    write_test = init.probe

    def meanwhile(store):
        monkeypatch.setattr(init, "probe", write_test)
        two.init()
        write_test(store)

    monkeypatch.setattr(init, "probe", meanwhile)  # `one` has seen that the operator is missing
    one.init()
    assert one.init().through == two.init().through == 1


def test_the_state_of_a_removed_operator_is_discarded_only_by_name(folder, tmp_path):
    opened = functools.partial(counting_as, folder, tmp_path)
    opened("one", "two").init()
    opened("one", "two").run(engine="local")
    refused(lambda: opened("one").init(), "lacks the operator `two`", "--drop two")
    refused(lambda: opened("one", "three").init(), "lacks the operator `two`", "`three`", "renamed")
    refused(lambda: opened("one", "two").init(drop=["two"]), "`two`", "still has it")
    refused(lambda: opened("one").init(drop="two"), "drop='two'", "drop=['two']")
    (folder / "b.json").write_text('{"k": "x", "v": 1}\n')
    opened("one", "two").run(engine="local")
    opened("one", "three").init(drop=["two"])
    r = opened("one", "three")
    assert r.state("three").num_rows == 0
    (folder / "c.json").write_text('{"k": "x", "v": 1}\n')
    r.run(engine="local")
    assert {row["k"]: row["n"] for row in r.state("one").to_pylist()}["x"] == 3
    assert r.state("three").column("n").to_pylist() == [1]
    refused(lambda: r.state("two"), "`two`")


def test_an_init_that_is_refused_changes_nothing(folder, tmp_path):
    def opened(column, *more):
        p, grouped = counting(folder)
        grouped.agg(n=tm.count(), s=tm.sum(column) if column else tm.count(), name="one")
        for name in more:
            grouped.agg(n=tm.count(), name=name)
        return tm.open(p, root=str(tmp_path / "root"))

    def refs():
        return sorted(path.name for path in (tmp_path / "root").rglob("refs/*"))

    opened("v", "two").init()
    opened("v", "two").run(engine="local")
    before = refs()
    refused(lambda: opened(None, "two", "three").init(), "`one`", "sum(v)")
    refused(lambda: opened(None).init(drop=["two"]), "`one`", "sum(v)")
    refused(lambda: opened("v", "two").init(drop=["twoo"]), "unknown operator to drop `twoo`")
    assert refs() == before
    (folder / "b.json").write_text('{"k": "x", "v": 1}\n')
    opened("v", "two").run(engine="local")
    (folder / "c.json").write_text('{"k": "x", "v": 1}\n')
    opened("v", "two").run(engine="local")
    assert {row["k"]: row["n"] for row in opened("v", "two").state("two").to_pylist()}["x"] == 3


def test_a_plan_is_abandoned_only_on_a_store_that_creates_conditionally(folder, tmp_path, monkeypatch):
    from tidemill.store.local import LocalStore

    (folder / "b.json").write_text('{"k": "x", "v": "many"}\n')
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    refused(lambda: r.run(engine="local"), "`b.json`")
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    tm.open(p, root=str(tmp_path / "copy")).adopt(copy=True)
    (tmp_path / "copy").rename(tmp_path / "other")  # a process checks each store once, and this one is new
    for module in ("publishing.correct", "actions.carry_out"):
        monkeypatch.setattr(f"tidemill.{module}.check_root", lambda repo: None)
    other = tm.open(p, root=str(tmp_path / "other"))
    monkeypatch.setattr(LocalStore, "create", lambda self, name, data: self.put(name, data) or True)
    refused(lambda: other.replan("x"), "conditional")
    assert not list((tmp_path / "other").rglob("commits/*.json"))


def test_an_unknown_branch_does_not_start_empty(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    refused(lambda: tm.open(p, root=str(tmp_path / "root"), branch="mian"), "has no repository under")
    tm.open(p, root=str(tmp_path / "root")).init()
    refused(
        lambda: tm.open(p, root=str(tmp_path / "root"), branch="mian"), "unknown branch `mian`; did you mean `main`?"
    )


def test_state_of_one_window_is_not_read_by_another(tmp_path):
    def opened(**options):
        p = tm.Pipeline("windows")
        rows = p.read(tm.Files(str(tmp_path / "in"), format="csv", schema="ts timestamp")).withWatermark("ts", "1 day")
        rows.groupBy(tm.window("ts", **options)).agg(n=tm.count())
        return tm.open(p, root=str(tmp_path / "root"))

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("2024-01-01T00:00:00\n")
    opened(windowDuration="1 hour").init()
    opened(windowDuration="1 hour").run(engine="local")
    refused(
        lambda: opened(windowDuration="2 hours").run(engine="local"),
        "`window` = 3600000 ms by 3600000 ms from 0 ms over ts",
    )


def test_a_root_that_holds_another_pipeline_or_is_a_repository_itself(folder, tmp_path):
    p, grouped = counting(folder, name="one")
    grouped.agg(n=tm.count())
    root = tmp_path / "root"
    tm.open(p, root=str(root)).init()
    (root / "one").rename(root / "two")
    other, grouped = counting(folder, name="two")
    grouped.agg(n=tm.count())
    refused(lambda: tm.open(other, root=str(root)).init(), "`one`", "`two`")
    refused(lambda: tm.open(other, root=str(root)).run(engine="local"), "`one`", "`two`")
    refused(
        lambda: tm.open(other, root=str(root / "two")).init(),
        "is the repository of a pipeline, expected the folder above it",
    )


def test_a_record_of_a_newer_format_is_refused(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    (path,) = (tmp_path / "root").rglob("commits/*.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "format": 99}))
    with pytest.raises(tm.InvalidInput, match="format 99.*newer Tidemill"):
        _ = tm.open(p, root=str(tmp_path / "root")).head


def test_missing_or_damaged_state_is_an_error_never_an_empty_start(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="n")
    root = tmp_path / "root"
    r = tm.open(p, root=str(root))
    r.init()
    r.run(engine="local")
    (segment,) = (root / "bad" / "state" / "n").rglob("*.parquet")
    whole = segment.read_bytes()
    (folder / "c.json").write_text('{"k": "x", "v": 1}\n')
    from tidemill.state import cache

    for damage in (whole[:-10], whole[:50] + b"\x00" + whole[51:], None):
        cache._CACHE.clear()
        segment.unlink() if damage is None else segment.write_bytes(damage)
        with pytest.raises(tm.CorruptState) as caught:
            tm.open(p, root=str(root)).run(engine="local")
        assert segment.name in str(caught.value)
    assert tm.open(p, root=str(root)).head.version == 0


def test_two_repositories_of_one_pipeline_publish_side_by_side(folder, tmp_path):
    for root in ("one", "two"):
        p, grouped = counting(folder)
        grouped.agg(n=tm.count(), name="n").write(tm.Parquet(str(tmp_path / "published")))
        r = tm.open(p, root=str(tmp_path / root))
        r.init()
        r.run(engine="local", adopt_sink=root == "two")
    assert len(list((tmp_path / "published").glob("bad.n-0000000000-00000-*.parquet"))) == 2


def test_changed_aggregates_and_clocks_do_not_continue_foreign_state(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="op")
    tm.open(p, root=str(tmp_path / "root")).init()
    tm.open(p, root=str(tmp_path / "root")).run(engine="local")
    other, grouped = counting(folder)
    grouped.agg(n=tm.sum("v"), name="op")
    refused(lambda: tm.open(other, root=str(tmp_path / "root")).run(engine="local"), "`op`", "count(*)", "sum(v)")


def test_an_operator_that_was_dropped_does_not_miss_batches_silently(folder, tmp_path):
    repository = functools.partial(counting_as, folder, tmp_path)
    repository("a", "b").init()
    repository("a", "b").run(engine="local")
    refused(lambda: repository("a").run(engine="local"), "`b`", "but this code does not have the operator", "--drop b")
    repository("a").init(drop=["b"])
    (folder / "b.json").write_text('{"k": "x", "v": 1}\n')
    repository("a").run(engine="local")
    refused(lambda: repository("a", "b").run(engine="local"), "`b`", "init")
    repository("a", "b").init()
    (folder / "c.json").write_text('{"k": "x", "v": 1}\n')
    repository("a", "b").run(engine="local")
    assert [row["n"] for row in repository("a", "b").state("b").to_pylist()] == [1]
    assert repository("a", "b").state("b", version=0).num_rows == 2


def test_a_plan_that_cannot_run_is_abandoned_and_its_files_are_planned_again(folder, tmp_path):
    (folder / "b.json").write_text('{"k": "x", "v": "many"}\n')
    p, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="n")
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    refused(lambda: r.replan("too early"), "has no plan")
    refused(lambda: r.run(engine="local"), "many")
    (folder / "b.json").write_text('{"k": "x", "v": 3}\n')
    refused(lambda: r.run(engine="local"), "b.json", "replan")
    void = r.replan("b.json was corrected")
    assert (void.kind, void.version, void.reason) == ("void", 0, "b.json was corrected")
    assert [one.version for one in r.run(engine="local")] == [1]
    assert {row["k"]: row["n"] for row in r.state("n").to_pylist()} == {"x": 2, "y": 1}


def test_a_lost_log_is_an_error_never_an_empty_start(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    for lost in ("commits", "plans"):
        shutil.rmtree(tmp_path / "root" / "bad" / "branches" / "main" / lost)
    with pytest.raises(tm.CorruptState, match="the hint `branches/main/head.json` names it"):
        tm.open(p, root=str(tmp_path / "root")).run(engine="local")


def test_outputs_of_two_schemas_are_read_version_by_version(folder, tmp_path):
    def repository(output, value):
        def f(batch_time, key, v, state):
            state.update(v)
            return value

        p, grouped = counting(folder)
        spec = tm.StateSpec.function(f)
        grouped.mapWithState(spec, stateSchema="int", outputSchema=output, value="v", name="op")
        return tm.open(p, root=str(tmp_path / "root"))

    repository("int", 1).init()
    repository("int", 1).run(engine="local")
    (folder / "b.json").write_text('{"k": "x", "v": 1}\n')
    r = repository("string", "one")
    r.run(engine="local")
    refused(r.outputs, "`op`", "one version at a time")
    assert r.outputs(1).drop_columns(["_seq"]).to_pylist() == [{"value": "one", "_batch_id": 1}]


def test_a_first_plan_with_a_wrong_schema_does_not_lock_it(folder, tmp_path):
    (folder / "a.json").write_text('{"k": "x", "v": 1.5}\n')

    def repository(kind):
        p = tm.Pipeline("bad")
        rows = p.read(tm.Files(str(folder), format="json", schema=f"k string, v {kind}"))
        rows.groupBy("k").agg(total=tm.sum("v"), name="total")
        return tm.open(p, root=str(tmp_path / "root"))

    wrong = repository("int")
    wrong.init()
    refused(lambda: wrong.run(engine="local"), "`a.json`")
    right = repository("double")
    refused(lambda: right.run(engine="local"), "operator `total`", "no batch has run yet, run init again")
    right.replan("the schema was wrong")
    right.run(engine="local")
    assert right.state("total").column("total").to_pylist() == [1.5]
    refused(lambda: repository("int").run(engine="local"), "operator `total`")


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

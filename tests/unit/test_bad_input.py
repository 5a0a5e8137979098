"""Bad input gives one clear error, of the right kind, and changes nothing."""

from __future__ import annotations

import json
import sys

import pytest

import tidemill as tm


@pytest.fixture
def folder(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.json").write_text('{"k": "x", "v": 1}\n{"k": "y", "v": 2}\n')
    return data


def counting(folder, name="bad", key="k", **files):
    p = tm.Pipeline(name)
    rows = p.read(tm.Files(str(folder), format="json", schema="k string, v int", **files))
    return p, rows.groupBy(key)


def refused(call, *parts):
    with pytest.raises(tm.InvalidInput) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


def test_unknown_column_names_the_nearest(folder):
    refused(lambda: counting(folder, key="kk"), "`kk`", "`k`")
    _, grouped = counting(folder)
    refused(lambda: grouped.agg(n=tm.sum("vv")), "`vv`", "`v`")


def test_names_that_are_not_allowed(folder):
    refused(lambda: tm.Pipeline("Bad Name"), "'Bad Name'", "lower-case")
    _, grouped = counting(folder)
    refused(lambda: grouped.agg(n=tm.count(), name="../up"), "'../up'")


def test_an_option_with_a_typo_names_the_nearest(folder):
    refused(
        lambda: tm.Files(str(folder), format="json", schema="k string", maxFilesPerTriger=1), "`maxFilesPerTrigger`"
    )
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    refused(lambda: tm.open(p, root="memory://x", conf={"tidemill.block_row": 1}), "block_rows")
    refused(lambda: tm.open(p, root="memory://x", storage_options={"roots": {}}), "`root`")


@pytest.mark.parametrize(
    "text", ["SELECT sum(v) AS s FROM rows", "SELECT random() AS r FROM rows", "SELECT now() AS t FROM rows",
             "SELECT DISTINCT k FROM rows", "SELECT * FROM rows ORDER BY k", "SELECT * FROM rows LIMIT 1",
             "SELECT row_number() OVER () AS n FROM rows", "SELECT * FROM rows JOIN rows r2 USING (k)",
             "SELECT * FROM read_csv('/etc/passwd')"],
)  # fmt: skip
def test_sql_that_needs_more_than_its_row_is_refused_when_built(folder, text):
    p = tm.Pipeline("sql")
    rows = p.read(tm.Files(str(folder), format="json", schema="k string, v int"))
    refused(lambda: rows.sql(text))


def test_run_before_init_is_refused_and_makes_nothing(folder, tmp_path):
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
        before = r.context.log.head()
        refused(lambda: r.run(engine="local"), "`keep`", "int", "double", "new name")  # noqa: B023
        assert r.context.log.head() == before


def test_another_key_or_kind_of_operator_is_refused(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="op")
    tm.open(p, root=str(tmp_path / "root")).init()
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


def test_an_operator_that_the_code_lacks_ends_only_where_it_is_named(folder, tmp_path):
    def opened(*names):
        p, grouped = counting(folder)
        for name in names:
            grouped.agg(n=tm.count(), name=name)
        return tm.open(p, root=str(tmp_path / "root"))

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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "locl"}, "unknown engine `locl`; did you mean `local`?"),
        ({"engine": "local", "tasks": "atuo"}, "tasks='atuo', expected 'auto' or a number from 1 on"),
        ({"engine": "local", "tasks": 0}, "tasks=0, expected 'auto' or a number from 1 on"),
        ({"engine": "local", "max_batches": -1}, "max_batches=-1, expected a number from 0 on"),
        ({"engine": "local", "max_batches": "3"}, "max_batches='3', expected a number from 0 on"),
        ({"engine": "local", "time_budget": "soon"}, "time_budget='soon', expected a number from 0 on"),
    ],
)
def test_a_wrong_argument_of_run_is_told_also_where_nothing_waits(folder, tmp_path, options, said):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    refused(lambda: r.run(**options), said)
    refused(lambda: r.state(version="0"), "version='0', expected a whole number")


def test_a_plan_is_given_up_only_on_a_store_that_creates_conditionally(folder, tmp_path, monkeypatch):
    from tidemill.store.local import LocalStore

    (folder / "b.json").write_text('{"k": "x", "v": "many"}\n')
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    refused(lambda: r.run(engine="local"), "`b.json`")
    other = tm.open(p, root=str(tmp_path / "root"))
    monkeypatch.setattr(LocalStore, "create", lambda self, name, data: self.put(name, data) or True)
    monkeypatch.setattr(sys.modules["tidemill.store.probe"], "_probed", set())
    refused(lambda: other.replan("x"), "conditional")
    assert not list((tmp_path / "root").rglob("commits/*.json"))


def test_a_branch_that_nobody_made_does_not_start_empty(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    refused(lambda: tm.open(p, root=str(tmp_path / "root"), branch="mian"), "no branch `mian`", "`main`")


def test_aggregates_that_a_column_does_not_fit_are_told_when_they_are_declared():
    def grouped():
        return tm.Pipeline("a").read(tm.Rows("k string, v int, m map<string,int>")).groupBy("k")

    refused(lambda: grouped().agg(x=tm.var("k")), "`x`, the var of column `k`", "a number", "string")
    refused(lambda: grouped().agg(x=tm.stddev("m")), "the stddev of column `m`", "a number")
    refused(lambda: grouped().agg(x=tm.max_by("v", "m")), "the max_by of column `v`, `m`", "a type that has an order")
    refused(lambda: grouped().agg(x=tm.min_by("v", "w")), "`w`")


def test_windows_that_cannot_be_are_told_when_they_are_declared():
    def stream(name, late="drop"):
        rows = tm.Pipeline(name).read(tm.Rows("k string, ts timestamp, d date"))
        return rows.withWatermark("ts", "1 minute", late=late)

    refused(lambda: tm.window("ts", "5 minutes", "10 minutes"), "tm.window", "not longer")
    refused(lambda: tm.window("ts", "0 seconds"), "tm.window")
    refused(lambda: tm.window("ts", "1 hour", startTime="-1 hour"), "startTime", "less than the slide")
    refused(lambda: tm.window("ts", "1 month"), "1 month")
    refused(lambda: stream("a").groupBy(tm.window("t", "1 hour")), "`t`", "did you mean `ts`?")
    refused(lambda: stream("a").groupBy(tm.window("d", "1 hour")), "`d`", "expected a timestamp")
    refused(lambda: stream("a").groupBy(tm.window("ts", "1 hour"), tm.window("ts", "2 hours")), "2 windows")
    hourly = tm.window("ts", "1 hour")
    grouped = stream("a").groupBy(hourly, "k")
    refused(lambda: grouped.agg(n=tm.count(), outputMode="complete"), "'complete'", "'update' or 'append'")
    refused(lambda: grouped.dropDuplicates(), "tm.window", ".agg")
    kept = stream("b", late="keep").groupBy(hourly)
    refused(lambda: kept.agg(n=tm.count()), 'late="keep"')
    plain = tm.Pipeline("c").read(tm.Rows("k string, ts timestamp")).groupBy(hourly)
    refused(lambda: plain.agg(n=tm.count(), outputMode="append"), "'append'", "a watermark on `ts`")
    refused(lambda: stream("d").groupBy("k").agg(n=tm.count(), outputMode="append"), "'append'", "a window")


def test_state_of_one_window_is_not_read_by_another(tmp_path):
    def opened(**options):
        p = tm.Pipeline("windows")
        rows = p.read(tm.Files(str(tmp_path / "in"), format="csv", schema="ts timestamp")).withWatermark("ts", "1 day")
        rows.groupBy(tm.window("ts", **options)).agg(n=tm.count())
        return tm.open(p, root=str(tmp_path / "root"))

    opened(windowDuration="1 hour").init()
    refused(
        lambda: opened(windowDuration="2 hours").run(engine="local"),
        "`window` = 3600000 ms by 3600000 ms from 0 ms over ts",
    )


def test_a_name_is_given_once_whoever_adds_the_operator(folder):
    _, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="same")
    refused(lambda: grouped.dropDuplicates(name="same"), "has an operator `same` already")
    refused(lambda: grouped.dropDuplicates(name=""), "operator name ''")


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
    refused(lambda: tm.open(other, root=str(root / "two")).init(), "itself the repository")


def test_missing_files_and_folders(folder, tmp_path):
    p, grouped = counting(tmp_path / "nowhere")
    grouped.agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    refused(lambda: r.run(engine="local"), "nowhere")
    assert r.head is None


def test_a_planned_file_that_vanished_is_named_and_nothing_is_committed(folder, tmp_path, monkeypatch):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    from tidemill.driver import drain

    original = drain.execute

    def remove_first(*arguments):
        (folder / "a.json").unlink()
        return original(*arguments)

    monkeypatch.setattr(drain, "execute", remove_first)
    refused(lambda: r.run(engine="local"), "a.json")
    assert r.head is None


def test_values_that_do_not_fit_the_schema_name_file_line_and_column(folder, tmp_path):
    (folder / "b.json").write_text('{"k": "x", "v": "many"}\n')
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    refused(lambda: r.run(engine="local"), "b.json", "1", "v", "many")
    assert r.head is None


def test_unreadable_rows_go_to_quarantine_where_the_source_says_so(folder, tmp_path):
    (folder / "b.json").write_text('{"k": "x", "v": "many"}\n{"k": "x", "v": 5}\nnot json\n')
    p, grouped = counting(folder, mode="PERMISSIVE")
    grouped.agg(total=tm.sum("v"))
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    (progress,) = r.run(engine="local")
    assert (progress.numInputRows, progress.applied_rows, progress.quarantined_rows) == (5, 3, 2)
    rows = r.quarantine().to_pylist()
    assert [(row["file"], row["line"]) for row in rows] == [("b.json", 1), ("b.json", 3)]
    assert rows[1]["text"] == "not json" and all(row["reason"] for row in rows)


def test_a_record_of_a_newer_format_is_refused(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    (path,) = (tmp_path / "root").rglob("commits/*.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "format": 99}))
    with pytest.raises(tm.CorruptState, match="format 99"):
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


def test_two_repositories_of_one_pipeline_publish_beside_each_other(folder, tmp_path):
    for root in ("one", "two"):
        p, grouped = counting(folder)
        grouped.agg(n=tm.count(), name="n").write(tm.Parquet(str(tmp_path / "published")))
        r = tm.open(p, root=str(tmp_path / root))
        r.init()
        r.run(engine="local")
    assert len(list((tmp_path / "published").glob("bad.n-0000000000-00000-*.parquet"))) == 2


def test_a_sink_that_cannot_be_one_is_refused_before_anything_is_committed(folder, tmp_path):
    for path, word in (("s4://bucket/out", "s4"), ("s3://AKIA:SECRET@bucket/out", "credentials")):
        p, grouped = counting(folder)
        grouped.agg(n=tm.count(), name="n").write(tm.Json(path))
        with pytest.raises(tm.InvalidInput) as caught:
            tm.open(p, root=str(tmp_path / "root"))
        assert word in str(caught.value) and "SECRET" not in str(caught.value)


@pytest.mark.parametrize("value", [10**20, -1, 1.5, True, 1_700_000_000_000_000])
def test_a_batch_time_that_is_none_leaves_no_plan(folder, tmp_path, value):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    p.batch_time(lambda plan: value)
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    refused(lambda: r.run(engine="local"), "p.batch_time", "ms since the epoch")
    p.batch_time(lambda plan: 1_700_000_000_000)
    assert [one.version for one in r.run(engine="local")] == [0]


def test_a_batch_time_function_that_raises_is_named(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    p.batch_time(lambda plan: 1 // 0)
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    refused(lambda: r.run(engine="local"), "p.batch_time", "ZeroDivisionError")


def test_changed_aggregates_and_clocks_do_not_continue_foreign_state(folder, tmp_path):
    p, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="op")
    tm.open(p, root=str(tmp_path / "root")).init()
    tm.open(p, root=str(tmp_path / "root")).run(engine="local")
    other, grouped = counting(folder)
    grouped.agg(n=tm.sum("v"), name="op")
    refused(lambda: tm.open(other, root=str(tmp_path / "root")).run(engine="local"), "`op`", "count(*)", "sum(v)")


def test_an_operator_that_was_dropped_does_not_miss_batches_silently(folder, tmp_path):
    def repository(*operators):
        p, grouped = counting(folder)
        for name in operators:
            grouped.agg(n=tm.count(), name=name)
        return tm.open(p, root=str(tmp_path / "root"))

    repository("a", "b").init()
    repository("a", "b").run(engine="local")
    refused(lambda: repository("a").run(engine="local"), "`b`", "miss")
    repository("a").init(drop=["b"])
    (folder / "b.json").write_text('{"k": "x", "v": 1}\n')
    repository("a").run(engine="local")
    refused(lambda: repository("a", "b").run(engine="local"), "`b`", "init")
    repository("a", "b").init()
    (folder / "c.json").write_text('{"k": "x", "v": 1}\n')
    repository("a", "b").run(engine="local")
    assert [row["n"] for row in repository("a", "b").state("b").to_pylist()] == [1]
    assert repository("a", "b").state("b", version=0).num_rows == 2


def test_a_plan_that_cannot_run_is_given_up_and_its_files_are_planned_anew(folder, tmp_path):
    (folder / "b.json").write_text('{"k": "x", "v": "many"}\n')
    p, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="n")
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    refused(lambda: r.replan("too early"), "no plan waits")
    refused(lambda: r.run(engine="local"), "many")
    (folder / "b.json").write_text('{"k": "x", "v": 3}\n')
    refused(lambda: r.run(engine="local"), "b.json", "replan")
    void = r.replan("b.json was corrected")
    assert (void.kind, void.version, void.code["reason"]) == ("void", 0, "b.json was corrected")
    assert [one.version for one in r.run(engine="local")] == [1]
    assert {row["k"]: row["n"] for row in r.state("n").to_pylist()} == {"x": 2, "y": 1}


def test_a_lost_log_is_an_error_never_an_empty_start(folder, tmp_path):
    import shutil

    p, grouped = counting(folder)
    grouped.agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    for lost in ("commits", "plans"):
        shutil.rmtree(tmp_path / "root" / "bad" / "branches" / "main" / lost)
    with pytest.raises(tm.CorruptState, match="its commit is not there"):
        tm.open(p, root=str(tmp_path / "root")).run(engine="local")


def test_a_partition_value_too_long_for_a_folder_is_refused_before_the_commit(folder, tmp_path):
    (folder / "b.json").write_text('{"k": "' + "x" * 300 + '", "v": 1}\n')
    p, grouped = counting(folder)
    grouped.agg(n=tm.count(), name="n").write(tm.Parquet(str(tmp_path / "published"), partitionBy=["k"]))
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    refused(lambda: r.run(engine="local"), "partition folder", "255")
    assert r.head is None


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
    refused(r.outputs, "`op`", "version by version")
    assert r.outputs(1).to_pylist() == [{"value": "one", "_batch_id": 1}]

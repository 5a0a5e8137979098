"""Bad input gives one clear error, of the right kind, and changes nothing: declarations, arguments, files."""

from __future__ import annotations

import shutil

import pytest

import tidemill as tm
from tests.journeys.bad_input import counting, refused
from tests.world import World, over, run


def grouped(key="k"):
    return tm.Pipeline("bad").read(tm.Rows("k string, v int, m map<string,int>")).groupBy(key)


def test_unknown_column_names_the_nearest():
    refused(lambda: grouped(key="kk"), "`kk`", "`k`")
    refused(lambda: grouped().agg(n=tm.sum("vv")), "`vv`", "`v`")


def test_names_that_are_not_allowed():
    refused(lambda: tm.Pipeline("Bad Name"), "'Bad Name'", "lower-case")
    refused(lambda: grouped().agg(n=tm.count(), name="../up"), "'../up'")


def test_an_option_with_a_typo_names_the_nearest(world):
    refused(world.but(maxFilesPerTriger=1).open, "`maxFilesPerTrigger`")
    p = world.pipeline()
    refused(lambda: tm.open(p, root="memory://x", conf={"tidemill.block_row": 1}), "block_rows")
    refused(lambda: tm.open(p, root="memory://x", storage_options={"roots": {}}), "`root`")


@pytest.mark.parametrize(
    "text", ["SELECT sum(v) AS s FROM rows", "SELECT random() AS r FROM rows", "SELECT now() AS t FROM rows",
             "SELECT DISTINCT k FROM rows", "SELECT * FROM rows ORDER BY k", "SELECT * FROM rows LIMIT 1",
             "SELECT row_number() OVER () AS n FROM rows", "SELECT * FROM rows JOIN rows r2 USING (k)",
             "SELECT * FROM read_csv('/etc/passwd')"],
)  # fmt: skip
def test_sql_that_needs_more_than_its_row_is_refused_when_built(text):
    rows = tm.Pipeline("sql").read(tm.Rows("k string, v int"))
    refused(lambda: rows.sql(text))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "locl"}, "unknown engine `locl`; did you mean `local`?"),
        ({"engine": "local", "tasks": "atuo"}, "tasks='atuo', expected 'auto' or a number of at least 1"),
        ({"engine": "local", "tasks": 0}, "tasks=0, expected 'auto' or a number of at least 1"),
        ({"engine": "local", "max_batches": 0}, "max_batches=0, expected a number of at least 1"),
        ({"engine": "local", "max_batches": "3"}, "max_batches='3', expected a number of at least 1"),
        ({"engine": "local", "time_budget": "soon"}, "time_budget='soon', expected a number of at least 0"),
    ],
)
def test_a_wrong_argument_of_run_is_an_error_even_if_no_files_are_waiting(world, options, said):
    r = world.open()
    run(r)
    refused(lambda: r.run(**options), said)
    refused(lambda: r.state(version="0"), "version='0', expected a whole number")


def test_aggregates_of_unsuitable_columns_are_refused_when_declared():
    refused(lambda: grouped().agg(x=tm.var("k")), "`x`, the var of column `k`", "a number", "string")
    refused(lambda: grouped().agg(x=tm.stddev("m")), "the stddev of column `m`", "a number")
    refused(lambda: grouped().agg(x=tm.max_by("v", "m")), "the max_by of column `v`, `m`", "a type that has an order")
    refused(lambda: grouped().agg(x=tm.min_by("v", "w")), "`w`")


def test_invalid_windows_are_refused_when_declared():
    def stream(name, late="drop"):
        rows = tm.Pipeline(name).read(tm.Rows("k string, ts timestamp, d date"))
        return rows.withWatermark("ts", "1 minute", late=late)

    refused(lambda: tm.window("ts", "5 minutes", "10 minutes"), "tm.window", "no longer than the duration")
    refused(lambda: tm.window("ts", "1 day", "1 ms"), "tm.window", "86400000 windows", "at most 10000")
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


def test_an_operator_name_can_be_used_once():
    by_key = grouped()
    by_key.agg(n=tm.count(), name="same")
    refused(lambda: by_key.dropDuplicates(name="same"), "already has an operator `same`")
    refused(lambda: by_key.dropDuplicates(name=""), "operator name ''")


def test_missing_files_and_folders(world):
    shutil.rmtree(world.inbox)
    p = tm.Pipeline("bad")
    p.read(tm.Files(str(world.inbox), format="json", schema="k string")).groupBy("k").agg(n=tm.count())
    r = tm.open(p, root=world.root)
    r.init()
    refused(lambda: run(r), str(world.inbox))
    assert r.head is None


def test_a_planned_file_that_vanished_is_named_and_nothing_is_committed(world, monkeypatch):
    r = world.open()
    from tidemill.run import drain

    original = drain.execute

    def remove_first(*arguments):
        (world.inbox / "a.json").unlink()
        return original(*arguments)

    monkeypatch.setattr(drain, "execute", remove_first)
    refused(lambda: run(r), "a.json")
    assert r.head is None


def test_values_that_do_not_fit_the_schema_name_file_line_and_column(world):
    world.put("b", [{"k": "x", "v": "many"}])
    r = world.open()
    refused(lambda: run(r), "b.json", "1", "v", "many")
    assert r.head is None


def test_unreadable_rows_go_to_quarantine_where_the_source_says_so(world):
    world.put("b", '{"k": "x", "v": "many"}\n{"k": "x", "v": 5}\nnot json\n')
    r = world.but(counting("total", total=tm.sum("v")), mode="PERMISSIVE").open()
    (progress,) = r.run(engine="local")
    assert (progress.numInputRows, progress.applied_rows, progress.quarantined_rows) == (5, 3, 2)
    rows = r.quarantine().to_pylist()
    assert [(row["file"], row["line"]) for row in rows] == [("b.json", 1), ("b.json", 3)]
    assert rows[1]["text"] == "not json" and all(row["reason"] for row in rows)


def to(sink):
    """Return code that counts rows by key, and writes the counts to a sink."""
    return over(lambda rows: rows.groupBy("k").agg(n=tm.count(), name="n").write(sink))


def test_an_unusable_sink_is_refused_before_anything_is_committed(world):
    for path, word in (("s4://bucket/out", "s4"), ("s3://AKIA:SECRET@bucket/out", "credentials")):
        with pytest.raises(tm.InvalidInput) as caught:
            world.but(to(tm.Json(path))).open()
        assert word in str(caught.value) and "SECRET" not in str(caught.value)


def timed(function):
    """Return code that counts rows, and takes the time of a batch from a function."""

    def build(p: tm.Pipeline, world: World) -> None:
        counting("n")(p, world)
        p.batch_time(function)

    return build


@pytest.mark.parametrize("value", [10**20, -1, 1.5, True, 1_700_000_000_000_000])
def test_an_invalid_batch_time_leaves_no_plan(world, value):
    times = [value, 1_700_000_000_000]
    r = world.but(timed(lambda plan: times.pop(0))).open()
    refused(lambda: run(r), "p.batch_time")
    assert run(r) == [0]


def test_a_batch_time_function_that_raises_is_named(world):
    r = world.but(timed(lambda plan: 1 // 0)).open()
    refused(lambda: run(r), "p.batch_time", "ZeroDivisionError")


def test_a_partition_value_too_long_for_a_folder_is_refused_before_the_commit(world):
    world.put("b", [{"k": "x" * 300, "v": 1}])
    r = world.but(to(tm.Parquet(world.out, partitionBy=["k"]))).open()
    refused(lambda: run(r), "partition folder", "255")
    assert r.head is None

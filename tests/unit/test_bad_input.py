"""Bad input gives one clear error, of the right kind, and changes nothing."""

from __future__ import annotations

import json

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
        refused(lambda: r.run(engine="local"), "`keep`", "int", "double", "migration")  # noqa: B023
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


def test_two_repositories_of_one_pipeline_may_not_share_a_sinks_folder(folder, tmp_path):
    def repository(root, rows):
        (folder / "a.json").write_text("".join(f'{{"k": "{i}", "v": 1}}\n' for i in range(rows)))
        p, grouped = counting(folder)
        grouped.agg(n=tm.count(), name="n").write(tm.Parquet(str(tmp_path / "published")))
        r = tm.open(p, root=str(tmp_path / root))
        r.init()
        return r

    repository("one", 2).run(engine="local")
    second = repository("two", 400)
    refused(lambda: second.run(engine="local"), "published", "another repository")
    assert second.head.version == 0
    assert second.outputs(0).num_rows == 400

"""`p.preview`: the first rows of every stream that has a name, without a root."""

from __future__ import annotations

import pytest

import tidemill as tm
from tests.world import World, over


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "0.csv").write_text("a,1,2024-01-01 00:00:00\nb,2,2024-01-01 00:00:05\n")
    (tmp_path / "1.csv").write_text("a,3,2024-01-01 00:00:07\na,4,2024-01-01 00:01:00\n")
    return tmp_path


def test_sources_operators_and_sinks_have_rows_and_nothing_is_written_or_called(folder, tmp_path):
    calls = []
    p = tm.Pipeline("few")
    files = tm.Files(str(folder), format="csv", schema="k string, v int, ts timestamp")
    rows = p.read(files).withWatermark("ts", "1 minute")
    double = rows.sql("SELECT k, v * 2 AS v, _metadata.file_name AS file FROM rows WHERE v <> 2")
    both = double.unionByName(rows.sql("SELECT 'all' AS k, v, 'x' AS file FROM rows"))
    both.foreachBatch(lambda *given: calls.append(given), name="both")
    by_key = both.groupBy("k").agg(total=tm.sum("v"), name="totals")
    by_key.write(tm.Parquet(str(tmp_path / "out")))
    by_key.groupBy("total").agg(n=tm.count(), name="again")
    rows.groupBy(tm.window("ts", "10 seconds")).agg(n=tm.count(), name="windows")
    found = p.preview(3)
    assert sorted(found) == ["again", "both", "source", "totals", "windows"]
    assert [row["v"] for row in found["source"].to_pylist()] == [1, 2, 3]
    assert found["both"].num_rows == 3 and found["both"].to_pylist()[1] == {"k": "a", "v": 6, "file": "1.csv"}
    assert sorted(map(tuple, (row.values() for row in found["totals"].to_pylist()))) == [("a", 8), ("all", 6)]
    assert [row["n"] for row in found["windows"].to_pylist()] == [3]
    assert not calls and not (tmp_path / "out").exists()
    assert p.preview()["source"].num_rows == 4


def test_a_source_without_rows_and_a_wrong_number_are_refused(tmp_path):
    p = tm.Pipeline("few")
    p.read(tm.Files(str(tmp_path), format="csv", schema="k string"))
    with pytest.raises(tm.InvalidInput, match="preview: the source `source` has no files"):
        p.preview()
    with pytest.raises(tm.InvalidInput, match="preview: 0 rows, expected a whole number of at least 1"):
        p.preview(0)
    p = tm.Pipeline("rows")
    p.read(tm.Rows("k string"))
    with pytest.raises(tm.InvalidInput, match="source tm.Rows has no rows: only a test can give it rows"):
        p.preview()


def test_an_error_of_a_users_function_is_invalid_input_with_its_traceback(tmp_path):
    """`p.preview` raises the same error as a run."""

    def failing(rows):
        raise KeyError("no such shop")

    def counted(rows):
        rows.map_batches(failing, "k string").groupBy("k").agg(n=tm.count(), name="counts")

    world = World(tmp_path, over(counted))
    world.arrive("a,1\nb,2\n")
    with pytest.raises(tm.InvalidInput) as previewed:
        world.pipeline().preview()
    with pytest.raises(tm.InvalidInput) as raised:
        world.run()
    for error, place in ((previewed.value, "source `source`"), (raised.value, "`0000.csv`")):
        line, _, trace = str(error).partition("\n")
        assert line == f"a function given to map_batches raised `KeyError: 'no such shop'` on rows of {place}"
        assert f'File "{__file__}"' in trace and "in failing" in trace
    assert isinstance(previewed.value.__cause__, KeyError)

"""A function that took long has more tasks in the next batch on Spark; what comes out is the same."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm

ROWS = 600


def counted(batchTime, key, value, state):
    """Two milliseconds a row."""
    time.sleep(0.002)
    state.update((state.getOption or 0) + 1)
    return key, state.get


def results(folder, root: str, **engine):
    """The tasks of each batch, and what came of it."""
    p = tm.Pipeline("slow")
    rows = p.read(tm.Files(str(folder), schema="k string", maxFilesPerTrigger=1))
    spec = tm.StateSpec.function(counted)
    rows.groupBy("k").mapWithState(spec, "int", outputSchema="k string, n int", name="op")
    repository = tm.open(p, root=root)
    repository.init()
    assert [one.numInputRows for one in repository.run(**engine)] == [ROWS] * 3
    tasks = [one.engine["tasks"] for one in repository.commits()]
    return tasks, [repository.outputs(version=number) for number in range(3)] + [
        repository.state("op").drop_columns(["updated_at"])
    ]


@pytest.mark.parametrize("session", ["spark_session", "connect_session"])
def test_a_slow_function_is_called_by_more_tasks_in_the_next_batch(request, tmp_path, session: str) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        keys = pa.table({"k": [f"user-{(n * 7 + number) % 400}" for n in range(ROWS)]})
        pq.write_table(keys, tmp_path / "in" / f"{number}.parquet")
    one, expected = results(tmp_path / "in", f"{tmp_path}/one", engine="local", tasks=1)
    spark = request.getfixturevalue(session)
    more, found = results(tmp_path / "in", f"{tmp_path}/more", spark=spark)
    assert (one, more) == (["1", "1", "1"], ["1", "2", "2"])
    for theirs, ours in zip(expected, found, strict=True):
        assert theirs.num_rows >= 400
        assert ours.equals(theirs)

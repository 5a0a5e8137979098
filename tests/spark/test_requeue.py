"""Requeued rows on Spark: executors read them from the repository, and give the state that the local engine gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm

pytestmark = pytest.mark.servers("start Spark")


def pipeline(folder: Path, fails: bool) -> tm.Pipeline:
    def track(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        if fails and key == "b":
            raise ValueError("no b today")
        state.update((state.getOption or 0) + row.n)
        return (key, row.n)

    p = tm.Pipeline("requeued")
    rows = p.read(tm.Files(str(folder), format="csv", schema="k string, n int", mode="PERMISSIVE"))
    spec = tm.StateSpec.function(track)
    rows.groupBy("k").mapWithState(spec, "bigint", "k string, n int", name="sums", on_error="quarantine")
    rows.groupBy("k").agg(n=tm.sum("n"), name="all")
    return p


def seen(folder: Path, root: Path, **options: Any) -> list[Any]:
    tm.open(pipeline(folder, fails=True), root=str(root)).init()
    tm.open(pipeline(folder, fails=True), root=str(root)).run(**options)
    r = tm.open(pipeline(folder, fails=False), root=str(root))
    rows = r.quarantine(0, export=True).to_pylist()
    schema = r.quarantine(0, export=True).schema
    fixed = [row | ({"k": "d", "n": 4} if row["_kind"] == "unreadable" else {}) for row in rows]
    r.requeue(0, rows=r.quarantine(0, export=True).from_pylist(fixed, schema=schema))
    r.run(**options)
    assert (r.head.version, r.head.counts.input_rows, r.head.counts.applied_rows) == (2, 62, 62)
    return [sorted(map(repr, r.state(name).drop_columns(["updated_at"]).to_pylist())) for name in ("sums", "all")]


@pytest.mark.parametrize("session", ["spark_session", "connect_session"])
def test_engines_agree_on_requeued_rows(request: pytest.FixtureRequest, tmp_path: Path, session: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        text = "".join(f"{key},{number * 100 + n}\n" for n in range(20) for key in "abc")
        (folder / f"{number}.csv").write_text(text + ("d,four\n" if number < 2 else ""))
    local = seen(folder, tmp_path / "local", engine="local", tasks=1)
    spark = request.getfixturevalue(session)
    assert seen(folder, tmp_path / "spark", spark=spark, engine="spark", tasks=3) == local

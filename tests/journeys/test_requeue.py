"""Quarantined rows that come back: unreadable rows corrected in a file, failed keys, late rows. Files are real.

The naive model: after the rows came back, the state equals that of a pipeline that read the correct rows as a file in
that later batch.
"""

from __future__ import annotations

import csv
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm

SCHEMA = "id int, k string, n int, ts timestamp"
BROKEN = {1: "id,k,n,ts\n1,a,10,2024-01-01T00:00:01\n2,b,oops,2024-01-01T00:00:02\n3,a,x,2024-01-01T00:00:03\n"}
GOOD = "id,k,n,ts\n4,a,1,2024-01-01T00:00:04\n5,c,2,2024-01-01T00:00:05\n"
CORRECT = "id,k,n,ts\n2,b,20,2024-01-01T00:00:02\n3,a,30,2024-01-01T00:00:03\n"


def add(key: Any, row: Any, state: Any) -> Any:
    state.update((state.getOption or 0) + row.n)
    return (key, state.get)


def fails_for_b(key: Any, row: Any, state: Any) -> Any:
    if key == "b":
        raise ValueError("no b today")
    return add(key, row, state)


def by_key(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
    return add(key, row, state)


def pipeline(
    folder: Path, late: str = "drop", function: Any = None, on_error: str = "fail", **options: Any
) -> tm.Pipeline:
    p = tm.Pipeline("shop")
    rows = p.read(
        tm.Files(
            str(folder), format="csv", header=True, schema=options.pop("schema", SCHEMA), mode="PERMISSIVE", **options
        ),
        name="shop",
    )
    called = function or add

    def track(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        return called(key, row, state)

    rows.groupBy("k").mapWithState(
        tm.StateSpec.function(track), "bigint", "k string, total bigint", name="totals", on_error=on_error
    )
    rows.groupBy("k").agg(rows=tm.count(), n=tm.sum("n"), name="counts")
    rows.select("id", "n").write(tm.Json(str(folder.parent / "plain")), name="plain")
    return p


class Shop:
    """A folder with files, and a repository beside it."""

    def __init__(self, folder: Path, tasks: int = 1) -> None:
        self.inbox, self.root, self.tasks = folder / "inbox", folder / "root", tasks
        self.inbox.mkdir(parents=True)

    def put(self, name: str, text: str) -> None:
        (self.inbox / name).write_text(text)

    def open(self, **options: Any) -> tm.Repository:
        return tm.open(pipeline(self.inbox, **options), root=str(self.root))

    def run(self, **options: Any) -> list[Any]:
        return self.open(**options).run(engine="local", tasks=self.tasks)

    def seen(self, **options: Any) -> dict[str, Any]:
        r = self.open(**options)
        return {
            **{name: {row["k"]: tuple(row[c] for c in row if c not in ("k", "updated_at", "deadline"))
                      for row in r.state(name).to_pylist()} for name in ("totals", "counts")},
            "plain": sorted((row["id"], row["n"]) for row in r.outputs(sink="plain").to_pylist()),
        }  # fmt: skip


def begin(folder: Path, tasks: int = 1, **options: Any) -> Shop:
    shop = Shop(folder, tasks)
    shop.put("1.csv", BROKEN[1])
    shop.open(**options).init()
    shop.run(**options)
    return shop


def modelled(folder: Path) -> dict[str, Any]:
    """What a pipeline sees that read the correct rows as a file of a later batch."""
    shop = begin(folder)
    shop.put("2.csv", CORRECT)
    shop.run()
    shop.put("3.csv", GOOD)
    shop.run()
    return shop.seen()


def corrected(path: Path, ending: str) -> Path:
    """Correct the exported file as a user does."""
    if ending == ".csv":
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        names = rows[0]
        for row in rows[1:]:
            cells = row[names.index("_text")].split(",")
            for name, cell in zip(("id", "k", "ts"), (cells[0], cells[1], cells[3]), strict=True):
                row[names.index(name)] = cell
            row[names.index("n")] = str(10 * int(cells[0]))
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        return path
    if ending == ".json":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            cells = row["_text"].split(",")
            row |= {"id": int(cells[0]), "k": cells[1], "n": 10 * int(cells[0]), "ts": cells[3]}
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    table = pq.read_table(path)
    rows = table.to_pylist()
    for row in rows:
        cells = row["_text"].split(",")
        row |= {"id": int(cells[0]), "k": cells[1], "n": 10 * int(cells[0])}
        row["ts"] = datetime.fromisoformat(cells[3] + "Z")
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    return path


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])
def test_corrected_rows_give_the_state_of_a_later_file(ending: str, tasks: int, tmp_path: Path) -> None:
    from tidemill.verbs.quarantine import write

    shop = begin(tmp_path / "shop", tasks)
    r = shop.open()
    file = tmp_path / f"rows{ending}"
    write(r.quarantine(0, export=True), file)
    made = r.requeue(0, rows=corrected(file, ending), reason="typing errors")
    assert (made.kind, made.reason, made.version) == ("requeue", "typing errors", 1)
    shop.put("3.csv", GOOD)
    assert r.status().requeued_rows == {"shop": 2}
    shop.run()
    assert [(c.kind, c.counts.input_rows, c.counts.applied_rows, c.counts.quarantined_rows) for c in r.commits()] == [
        ("batch", 3, 1, 2), ("requeue", 0, 0, 0), ("batch", 2, 2, 0), ("batch", 2, 2, 0),
    ]  # fmt: skip
    assert shop.seen() == modelled(tmp_path / "model")
    assert r.status().requeued_rows == {}

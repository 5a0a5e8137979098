"""Totals written to a database of one's own, after each commit (`foreachBatch`).

The function may be called again for a batch, where a run has died after the commit: what it does for one `batch_id`
twice must be as done once, so the rows of a batch replace what was there.

Prints:

    batch 0: 2 changed
    batch 1: 1 changed
    [('apples', 7), ('pears', 2)]
"""

from __future__ import annotations

import sqlite3

import pyarrow as pa

import tidemill as tm
from tidemill.testing import Tester

database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE stock (fruit TEXT PRIMARY KEY, pieces INTEGER)")


def store(table: pa.Table, batch_id: int) -> None:
    """Writes the totals that a batch changed."""
    rows = [(row["fruit"], row["pieces"]) for row in table.to_pylist()]
    with database:
        database.executemany("INSERT OR REPLACE INTO stock VALUES (?, ?)", rows)
    print(f"batch {batch_id}: {len(rows)} changed")


p = tm.Pipeline("stock")
sold = p.read(tm.Rows("fruit string, pieces int"))
sold.groupBy("fruit").agg(pieces=tm.sum("pieces")).foreachBatch(store)

if __name__ == "__main__":
    tester = Tester(p)
    tester.batch([("apples", 3), ("pears", 2)])
    tester.batch([("apples", 4)])
    print(database.execute("SELECT * FROM stock ORDER BY fruit").fetchall())

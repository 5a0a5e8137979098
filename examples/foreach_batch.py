"""Write totals to a database after each commit (`foreachBatch`).

If a run dies after a commit, the function is called again for that batch. Doing it twice must have the same effect as
doing it once. Here the new totals replace the old ones.

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
    """Write the totals that a batch changed."""
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

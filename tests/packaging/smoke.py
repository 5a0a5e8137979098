"""A tiny pipeline, run by test_wheel_and_sdist.py in an environment that sees nothing of the checkout.

`smoke.py FOLDER ENGINE` runs it in FOLDER and prints as JSON what came out, and on which Spark and Java.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tidemill as tm

DAYS = {
    "1.csv": "who,amount\nann,1\nbob,2\nann,3\n",
    "2.csv": "who,amount\nbob,10\ncat,20\n",
    "3.csv": "who,amount\nann,100\ncat,200\nnobody,oops\n",
}


def running(batchTime: int, who: str, row: Any, state: Any) -> tuple[str, int, int]:
    """Each row's running number and sum."""
    count, total = state.getOption or (0, 0)
    state.update((count + 1, total + row.amount))
    return who, count + 1, total + row.amount


def pipeline(folder: Path) -> tm.Pipeline:
    """Files → mapWithState and agg → Parquet; a file a batch."""
    p = tm.Pipeline("smoke")
    rows = p.read(
        tm.Files(
            str(folder / "in"),
            format="csv",
            header=True,
            mode="PERMISSIVE",
            maxFilesPerTrigger=1,
            schema="who string, amount int",
        )
    )
    each = rows.groupBy("who").mapWithState(
        tm.StateSpec.function(running), name="each", stateSchema="n long, total long",
        outputSchema="who string, n long, total long",
    )  # fmt: skip
    each.write(tm.Parquet(str(folder / "each")))
    rows.groupBy("who").agg(n=tm.count(), total=tm.sum("amount"), name="sums").write(tm.Parquet(str(folder / "sums")))
    return p


def versions(engine: str) -> dict[str, str]:
    """Return the versions of Spark and Java, or nothing if Spark did not run."""
    if engine == "local":
        return {}
    import pyspark
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    java = session.sparkContext._jvm.java.lang.System.getProperty("java.version")
    return {"spark": pyspark.__version__, "java": java}


def main(folder: Path, engine: str) -> None:
    (folder / "in").mkdir(parents=True)
    for name, text in DAYS.items():
        (folder / "in" / name).write_text(text)
    r = tm.open(pipeline(folder), root=str(folder / "root"))
    r.init()
    batches = len(r.run(engine=engine))
    published = {
        sink: sorted(
            row for file in (folder / sink).glob("*.parquet") for row in map(list_of, pq.read_table(file).to_pylist())
        )
        for sink in ("each", "sums")
    }
    state = sorted(map(list_of, r.state("sums").select(["who", "n", "total"]).to_pylist()))
    print(json.dumps({"batches": batches, "state": state, **published, **versions(engine)}))


def list_of(row: dict[str, Any]) -> list[Any]:
    return list(row.values())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

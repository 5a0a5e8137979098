"""A repository of sales, made by commands, for tests of the commands that read."""

from __future__ import annotations

import json
from pathlib import Path

from tidemill.cli.main import main
from tidemill.errors import Exit

PIPELINE = """
import tidemill as tm
from pathlib import Path

HERE = Path(__file__).parent
p = tm.Pipeline("sales")
rows = p.read(tm.Files(str(HERE / "in"), format="csv", header=True, maxFilesPerTrigger=1,
                       schema="shop string, item int, price decimal(8,2), at timestamp"))
rows.groupBy("shop").agg(sales=tm.count(), last=tm.last("at"), name="by-shop").write(tm.Json(str(HERE / "out")))
rows.groupBy("shop", "item").agg(sales=tm.count(), turnover=tm.sum("price"), name="by-item")
"""


def objects(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def sold(home: Path) -> Path:
    """Write the pipeline `sales.py` and three files, and run two batches of a file each."""
    (home / "sales.py").write_text(PIPELINE)
    (home / "in").mkdir()
    (home / "in" / "a.csv").write_text("shop,item,price,at\nBonn,1,1.50,2013-01-01T10:00:00Z\nBonn,2,2.00,\n")
    (home / "in" / "b.csv").write_text("shop,item,price,at\nKöln,1,3.25,2013-01-02T10:00:00Z\nBonn,1,1.50,\n")
    (home / "in" / "c.csv").write_text("shop,item,price,at\nBonn,1,9.99,\n")
    target = [f"{home / 'sales.py'}:p", "--root", str(home / "root")]
    assert main(["init", *target]) == Exit.DONE
    for at_ms in ("1000", "2000"):
        once = ["--engine", "local", "--max-batches", "1", "--batch-time", at_ms]
        assert main(["run", *target, *once]) == Exit.DONE
    return home

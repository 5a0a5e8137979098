"""A repository to read."""

from __future__ import annotations

import json

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

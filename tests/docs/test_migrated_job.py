"""The job that the page "Coming from Structured Streaming" moves over: its code runs, over a few files."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tidemill as tm

ROOT = Path(__file__).parents[2]
PAGE = (
    (ROOT / "docs" / "guides" / "coming-from-structured-streaming.md")
    .read_text("utf-8")
    .partition("\n## A job moved over\n")[2]
)
SPARK, OURS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[:2]


def run(lake: Path) -> dict[str, Any]:
    """Run the code of the page on the local engine with `total` of the named example, and return its variables."""
    names = runpy.run_path(str(ROOT / "examples" / "apply_in_pandas.py"))
    code = OURS.replace("/lake/", f"{lake}/").replace("r.run()", 'r.run(engine="local")')
    assert code.count(str(lake)) == 3 and 'engine="local"' in code
    found: dict[str, Any] = {"tm": tm, "total": names["total"]}
    exec(compile(code, "<page>", "exec"), found)  # noqa: S102
    return found


def pay(lake: Path, name: str, users: list[str], amounts: list[float]) -> None:
    (lake / "payments").mkdir(exist_ok=True)
    pq.write_table(pa.table({"user": users, "amount": amounts}), lake / "payments" / name)


def published(lake: Path) -> list[tuple[Any, ...]]:
    rows = pa.concat_tables([pq.read_table(file) for file in sorted((lake / "totals").glob("*.parquet"))]).to_pylist()
    return sorted((row["_batch_id"], row["user"], row["amount"], row["payments"]) for row in rows)


def test_the_job_of_the_page_runs_and_later_reads_new_files(tmp_path: Path) -> None:
    pay(tmp_path, "0.parquet", ["ann", "bob", "ann"], [10.0, 5.0, 20.0])
    repository = run(tmp_path)["r"]
    first = [(0, "ann", 30.0, 2), (0, "bob", 5.0, 1)]
    assert published(tmp_path) == first
    pay(tmp_path, "1.parquet", ["ann"], [1.5])
    repository.run(engine="local")
    assert published(tmp_path) == [*first, (1, "ann", 31.5, 3)]
    assert {row["user"]: (row["amount"], row["payments"]) for row in repository.state("totals").to_pylist()} == {
        "ann": (31.5, 3),
        "bob": (5.0, 1),
    }


def test_the_operator_receives_the_same_input_on_both_sides() -> None:
    assert _given(OURS) == _given(SPARK)


def _given(code: str) -> list[str]:
    (call,) = (
        node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "applyInPandasWithState"
    )
    return [ast.unparse(argument) for argument in call.args]

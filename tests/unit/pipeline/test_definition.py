"""Digests of definitions: the same code has the same in every process, and what changes rows changes the digest."""

from __future__ import annotations

import json
import linecache
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import World, over
from tidemill.operators.map_with_state import StateSpec
from tidemill.pipeline.definition import definitions
from tidemill.pipeline.job import compile_job

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import tidemill as tm
from tests.unit.pipeline.test_definition import built
from tidemill.pipeline.definition import definitions
from tidemill.pipeline.job import compile_job
print(json.dumps(definitions(compile_job(built()))))
"""
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Code:
    """Parts of the pipeline that a test changes."""

    factor: int = 2
    text: str = "SELECT k, n, t FROM rows"
    aggregate: Any = None
    delay: str = "1 hour"
    late: str = "drop"
    timeout: str = "1 day"
    mode: str = "FAILFAST"
    path: str = "in"
    limit: int = 1
    ranges: int = 1
    extra: bool = False
    zone: str = "UTC"
    after: str = "SELECT k FROM rows"


def by(factor: int) -> Callable[..., Any]:
    def add(batch_time: int, key: str, row: Any, state: tm.State) -> Any:
        if not state.isTimingOut:
            state.update((state.getOption or 0) + row.n * factor)
        return (key, factor)

    return add


def halve(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


def built(code: Code = Code()) -> tm.Pipeline:
    p = tm.Pipeline("shop", timeZone=code.zone)
    if code.extra:
        p.read(tm.Files("more", format="csv", schema="a int"), name="more").groupBy("a").agg(n=tm.count(), name="more")
    schema = "k string, n int, t timestamp"
    files = tm.Files(code.path, format="csv", schema=schema, mode=code.mode, maxFilesPerTrigger=code.limit)
    rows = p.read(files).withWatermark("t", code.delay, late=code.late).sql(code.text)
    rows.groupBy("k").agg(n=code.aggregate or tm.sum("n"), name="sums")
    spec = StateSpec.function(by(code.factor)).timeout(code.timeout).numPartitions(code.ranges)
    made = rows.groupBy("k").mapWithState(spec, name="last", stateSchema="int", outputSchema="k string, n int")
    made.sql(code.after).write(tm.Json("out"), name="keys")
    rows.map_batches(halve, "k string, n int, t timestamp").write(tm.Json("all"), name="all")
    return p


def digests(code: Code = Code()) -> dict[str, str]:
    found = definitions(compile_job(built(code)))
    return {f"{kind} {name}": one for kind, names in found.items() for name, one in names.items()}


EVERY = {"operators sums", "operators last", "sinks sums", "sinks keys", "sinks all"}
SUMS, LAST = {"operators sums", "sinks sums"}, {"operators last", "sinks keys"}


@pytest.mark.parametrize(
    ("code", "different"),
    [
        (Code(), set()),
        (Code(path="elsewhere", limit=5, ranges=4), set()),  # no row of a batch depends on these
        (Code(extra=True), set()),  # nodes have other numbers
        (Code(factor=3), LAST),  # a value that the function has captured
        (Code(timeout="2 days"), LAST),
        (Code(aggregate=tm.max("n")), SUMS),
        (Code(after="SELECT k, n FROM rows"), {"sinks keys"}),
        (Code(text="SELECT k, n + 1 AS n, t FROM rows"), EVERY),
        (Code(delay="2 hours"), EVERY),
        (Code(late="quarantine"), EVERY - {"sinks all"}),
        (Code(mode="PERMISSIVE"), EVERY),
        (Code(zone="Europe/Paris"), EVERY),
    ],
)
def test_only_what_changes_rows_changes_a_digest(code: Code, different: set[str]) -> None:
    before, after = digests(), digests(code)
    assert before.keys() == EVERY
    assert {name for name, digest in before.items() if after[name] != digest} == different


def test_another_process_has_the_same_digests() -> None:
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": str(ROOT / "pyspark_jobs")}
        made = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(ROOT)], env=env, capture_output=True, text=True, check=True
        )
        assert made.stdout.strip() == json.dumps(definitions(compile_job(built())))


def test_the_source_of_a_class_counts_and_so_do_the_fields_of_an_object() -> None:
    def made(limit: int) -> str:
        class Counter(tm.StatefulProcessor):
            def __init__(self) -> None:
                self.limit = limit

            def init(self, handle: Any) -> None:
                self.count = handle.getValueState("count", "n int")

            def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
                yield from ()

        p = tm.Pipeline("shop")
        rows = p.read(tm.Rows("k string"))
        rows.groupBy("k").transformWithState(Counter(), "k string", "update", "none", name="counter")
        return definitions(compile_job(p))["operators"]["counter"]

    assert made(1) == made(1) != made(2)


def test_functions_without_source_count_by_their_byte_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of Python 3.13 that was started by `python -c`, whose program has the same file name."""
    monkeypatch.setitem(linecache.cache, "<string>", (0, None, ["import this\n"], "<string>"))

    def made(text: str) -> str:
        found: dict[str, Any] = {}
        exec(f"def f(key, value, state):\n    return {text}", found)  # noqa: S102
        p = tm.Pipeline("shop")
        p.read(tm.Rows("k string")).groupBy("k").mapWithState(
            tm.StateSpec.function(found["f"]), name="last", stateSchema="int", outputSchema="int"
        )
        return definitions(compile_job(p))["operators"]["last"]

    assert made("1 + value") == made("1 + value") != made("2 + value")


class Counting:
    """A function with a logger, a lock, a memo and a path."""

    def __init__(self, place: str = "a") -> None:
        self.log = logging.getLogger("a logger")
        self.lock = threading.Lock()
        self.place = Path(place)
        self.me = self

    def add(self, key: str, value: Any, state: tm.State) -> Any:
        return None


def counted(counting: Counting) -> str:
    p = tm.Pipeline("shop")
    p.read(tm.Rows("k string")).groupBy("k").mapWithState(
        tm.StateSpec.function(counting.add), name="last", stateSchema="int", outputSchema="int"
    )
    return definitions(compile_job(p))["operators"]["last"]


def test_what_is_not_the_users_does_not_count() -> None:
    before = counted(Counting())
    logging.getLogger("another logger of this process")
    assert counted(Counting()) == before != counted(Counting("b"))


def test_what_a_batch_changes_in_a_function_does_not_count(tmp_path: Path) -> None:
    seen: list[str] = []

    def remember(key: str, value: Any, state: tm.State) -> Any:
        seen.append(key)
        state.update(1)

    spec = tm.StateSpec.function(remember)
    world = World(tmp_path, over(lambda s: s.groupBy("k").mapWithState(spec, "int", "int", name="last")))
    world.arrive("a,1\n", "b,1\n")
    r = world.open()
    r.run(engine="local")
    assert seen, "the local engine calls the user's own function"
    first, second = (one.code["definitions"] for one in r.commits())
    assert first == second

"""Scatter tasks: every row reaches the range of its key once, cut by bytes, and headers say what was sent."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.batch.batches import batch, chunks, headers, scattered
from tidemill import _native
from tidemill.batch import held, sender
from tidemill.batch.batch import Batch
from tidemill.batch.inbox import Inbox
from tidemill.batch.scatter import split_hash
from tidemill.batch.sender import pieces
from tidemill.quarantine.rows import REJECT_SCHEMA

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def totals(name: str = "unit") -> tm.Pipeline:
    p = tm.Pipeline(name)
    p.read(tm.Rows("k string, v long")).groupBy("k").agg(total=tm.sum("v"), name="totals")
    return p


def rows(*keys: str) -> list[dict[str, Any]]:
    return [{"k": key, "v": 1} for key in keys]


def test_every_range_gets_one_header_from_every_task_also_without_rows() -> None:
    made = batch(totals(), [rows("a")], tasks=3, splits=2)
    received = scattered(made)
    assert [[one.sender for one in headers(messages)] for messages in received] == [[0, 1]] * 3
    assert sorted(len(chunks(messages, "rows")) for messages in received) == [0, 0, 2]


def test_headers_count_the_chunks_and_name_the_splits() -> None:
    made = batch(totals(), [rows("a", "b"), rows("c")], tasks=2, splits=3)
    received = scattered(made)
    for messages in received:
        Inbox(messages).check(2, level=0)
        assert Inbox(messages).splits == {"0": 3, "1": 3, "2": 3}
        for header in headers(messages):
            assert header.sent == sum(chunk.head.sender == header.sender for chunk in chunks(messages, "rows"))


def test_rows_go_to_the_range_of_their_key() -> None:
    keys = [f"key-{number}" for number in range(50)]
    made = batch(totals(), [rows(*keys)], tasks=4)
    found = [
        (key, target)
        for target, messages in enumerate(scattered(made))
        for chunk in chunks(messages, "rows")
        for key in chunk.batch().column("k").to_pylist()
    ]
    assert sorted(key for key, _ in found) == sorted(keys)
    for key, target in found:
        low, high = made.bounds[target]
        assert low <= _native.text_hash(key) <= high


def test_rows_of_a_key_are_combined_within_a_split() -> None:
    (messages,) = scattered(batch(totals(), [rows("a", "a"), rows("a")]))
    assert sum(chunk.batch().num_rows for chunk in chunks(messages, "rows")) == 1


def test_chunks_are_cut_by_bytes_and_keep_their_order() -> None:
    p = tm.Pipeline("unit")
    p.read(tm.Rows("k string, v long")).select("v").write(tm.Parquet("/unused"), name="all")
    block = [{"k": "x", "v": number} for number in range(1000)]
    (messages,) = scattered(batch(p, [block], chunk_bytes=1000))
    sent = sorted(chunks(messages, "output"), key=lambda chunk: chunk.head.order)
    assert len(sent) == 8
    assert max(chunk.batch().nbytes for chunk in sent) <= 1000
    assert [v for chunk in sent for v in chunk.batch().column("v").to_pylist()] == list(range(1000))


@pytest.mark.parametrize(
    ("count", "chunk_bytes", "sizes"),
    [(0, 80, []), (10, 80, [10]), (11, 80, [6, 5]), (3, 1, [1, 1, 1]), (25, 80, [9, 9, 7])],
)
def test_pieces_are_even_and_no_larger_than_a_chunk(count: int, chunk_bytes: int, sizes: list[int]) -> None:
    batch = pa.RecordBatch.from_pydict({"v": pa.array(range(count), pa.int64())})
    cut = list(pieces(batch, chunk_bytes))
    assert [piece.num_rows for piece in cut] == sizes
    assert [v for piece in cut for v in piece.column("v").to_pylist()] == list(range(count))


def test_keyless_outputs_go_to_the_range_of_the_hash_of_their_split() -> None:
    p = tm.Pipeline("unit")
    p.read(tm.Rows("v long")).write(tm.Parquet("/unused"), name="all")
    made = batch(p, [[{"v": 1}]], tasks=4, splits=8)
    for target, messages in enumerate(scattered(made)):
        low, high = made.bounds[target]
        for chunk in chunks(messages, "output"):
            assert chunk.head.split is not None
            hashed = split_hash(made.plan.splits[chunk.head.split])
            assert low <= hashed <= high
            assert chunk.head.split_hash == hashed


def test_unreadable_rows_are_sent_to_quarantine_once_and_counted() -> None:
    rejects = pa.Table.from_pylist([{"reason": "no number", "text": "x"}], schema=REJECT_SCHEMA)
    received = scattered(batch(totals(), [rows("a"), rows("b")], tasks=2, rejects=rejects))
    (chunk,) = [chunk for messages in received for chunk in chunks(messages, "rejects")]
    assert [row["reason"] for one in chunk.batches() for row in one.to_pylist()] == ["no number"]
    for messages in received:
        assert Inbox(messages).quarantined_rows == 1
        assert Inbox(messages).splits == {"0": 3}


def timed(late: str = "quarantine", operators: int = 2) -> tm.Pipeline:
    p = tm.Pipeline("unit")
    source = p.read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "1 minute", late=late)
    for number in range(operators):
        source.groupBy(tm.window("ts", "1 second"), "k").agg(n=tm.count(), name=f"op-{number}")
    return p


def at(*seconds: int) -> list[dict[str, Any]]:
    return [{"k": "a", "ts": EPOCH + timedelta(seconds=second)} for second in seconds]


def test_a_row_late_for_two_operators_counts_once_and_is_quarantined_once() -> None:
    made = batch(timed(), [at(10, 500), at(20, 600)], watermarks={"source.ts": 100_000})
    (messages,) = scattered(made)
    inbox = Inbox(messages)
    assert inbox.late == {"op-0": 2, "op-1": 2}
    assert inbox.late_rows == 2
    quarantined = [row for chunk in inbox.quarantined() for row in chunk.batch().to_pylist()]
    assert [(row["file"], row["row"], row["column"]) for row in quarantined] == [
        ("0.csv", 1, "ts"),
        ("0.csv", 3, "ts"),
    ]
    [reason] = {row["reason"] for row in quarantined}
    assert reason.startswith("late for operator `op-0`: at or before the watermark `")


def test_dropped_late_rows_are_counted_and_not_sent() -> None:
    made = batch(timed("drop", 1), [at(10, 500)], watermarks={"source.ts": 100_000})
    (messages,) = scattered(made)
    assert (Inbox(messages).late_rows, chunks(messages, "late")) == (1, [])
    assert sum(chunk.batch().num_rows for chunk in chunks(messages, "rows")) == 1


def test_headers_have_the_least_and_greatest_event_time_of_all_blocks() -> None:
    (messages,) = scattered(batch(timed("drop", 1), [at(500, 300), at(900), at(400)]))
    assert Inbox(messages).event_times == {"source.ts": (300_000, 900_000)}


def firsts() -> tm.Pipeline:
    p = tm.Pipeline("unit")
    p.read(tm.Rows("k string, v long")).groupBy("k").dropDuplicates(name="firsts")
    return p


def in_order(made: Batch, operator: str) -> list[list[dict[str, Any]]]:
    """The rows of an operator in each range, in the order in which it gets them."""
    found = []
    for messages in scattered(made):
        inbox = Inbox(messages)
        inbox.check(len(made.assignment), level=0)
        found.append([row for chunk in inbox.chunks(operator, 0) for row in chunk.batch().to_pylist()])
    return found


@pytest.mark.parametrize("make", [totals, firsts])
@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_rows_of_small_splits_that_wait_for_each_other_keep_their_order(
    make: Callable[[], tm.Pipeline], tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(tasks)
    for _ in range(20):
        blocks = [
            [{"k": f"k{chance.randrange(9)}", "v": chance.randrange(9)} for _ in range(chance.choice([0, 1, 3, 40]))]
            for _ in range(chance.randrange(1, 4))
        ]
        made = batch(make(), blocks, tasks=tasks, splits=9)
        numbers = list(range(9))
        chance.shuffle(numbers)
        dealt = tuple(tuple(sorted(numbers[task::tasks])) for task in range(tasks))
        made = dataclasses.replace(made, assignment=dealt)
        (operator,) = made.job.operators
        monkeypatch.setattr(sender, "LARGEST_HELD_BYTES", 0)
        alone = in_order(made, operator)
        monkeypatch.setattr(sender, "LARGEST_HELD_BYTES", 300)
        monkeypatch.setattr(held, "HELD_BYTES", chance.choice([1, 400, 10_000]))
        assert in_order(made, operator) == alone


def test_small_splits_share_a_chunk_unless_a_function_may_fail_on_their_rows() -> None:
    made = batch(totals(), [rows("a")], splits=50)
    assert len(chunks(scattered(made)[0], "rows")) == 1
    p = tm.Pipeline("unit")
    p.read(tm.Rows("k string, v long")).groupBy("k").mapWithState(
        tm.StateSpec.function(lambda batchTime, k, row, state: None), name="f", stateSchema="int", outputSchema="k int"
    )
    assert len(chunks(scattered(batch(p, [rows("a")], splits=50))[0], "rows")) == 50

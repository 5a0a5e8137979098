"""What an apply task sends to the next level: rows one by one, in the order of passes, late rows counted there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

import tidemill as tm
from tests.unit.batch.batches import batch
from tidemill.batch import wire
from tidemill.batch.inbox import Inbox
from tidemill.batch.sender import Outgoing, RowOrigin, Sender
from tidemill.batch.wire import Observed


def chained() -> tm.Pipeline:
    p = tm.Pipeline("unit")
    rows = p.read(tm.Rows("k string, v long")).groupBy("k").agg(total=tm.sum("v"), name="first")
    rows.groupBy("total").agg(n=tm.count(), name="second")
    return p


def rows(*totals: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": [f"k{total}" for total in totals], "total": list(totals)})


def sent(sender: Sender, *outgoing: Outgoing) -> Inbox:
    items = [item for one in outgoing for item in one.items] + list(sender.headers())
    return Inbox([wire.decode_message(item.data) for item in items if item.target == 0])


def test_rows_of_an_operator_are_sent_one_by_one_by_pass() -> None:
    made = batch(chained(), [])
    sender = Sender(made, 0, Observed(event_times={"ts": (1, 2)}), combine=False)
    passes = [Outgoing(sender, RowOrigin((0, number), 0, number)) for number in (0, 1)]
    second = made.job.operators["second"].ports[0]
    passes[1].to_operator(second, rows(7))
    passes[0].to_operator(second, rows(5, 5))
    inbox = sent(sender, *passes)
    inbox.check(1, level=1)
    assert [chunk.batch().num_rows for chunk in inbox.chunks("second", 0)] == [2]
    assert [chunk.batch().num_rows for chunk in inbox.chunks("second", 1)] == [1]
    assert inbox.event_times == {"ts": (1, 2)}
    assert inbox.splits == {}


def test_rows_that_reach_an_operator_twice_keep_the_order_of_their_turns() -> None:
    made = batch(chained(), [])
    sender = Sender(made, 0, Observed(), combine=False)
    outgoing = Outgoing(sender, RowOrigin((0, 0), 0))
    for total in (3, 1, 2):
        outgoing.to_operator(made.job.operators["second"].ports[0], rows(total))
    inbox = sent(sender, outgoing)
    assert [chunk.batch().column(0)[0].as_py() for chunk in inbox.chunks("second", 0)] == [3, 1, 2]


def late_downstream(late: str) -> tm.Pipeline:
    p = tm.Pipeline("unit")
    first = p.read(tm.Rows("k string, ts timestamp")).groupBy("k").agg(last=tm.max("ts"), name="first")
    timed: Any = first.withWatermark("last", "1 minute", late=late)
    timed.groupBy(tm.window("last", "1 second")).agg(n=tm.count(), name="second")
    return p


def test_outputs_that_are_late_downstream_count_for_that_operator_and_not_as_input() -> None:
    made = batch(late_downstream("quarantine"), [], watermarks={"first.last": 100_000})
    sender = Sender(made, 0, Observed(), combine=False)
    outgoing = Outgoing(sender, RowOrigin((0, 0), 0))
    times = pa.array([datetime(1970, 1, 1, tzinfo=UTC), datetime(1971, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    outgoing.to_operator(
        made.job.operators["second"].ports[0], pa.RecordBatch.from_pydict({"k": ["a", "b"], "last": times})
    )
    inbox = sent(sender, outgoing)
    assert (inbox.late, inbox.late_rows, inbox.quarantined_rows) == ({"second": 1}, 0, 0)
    (row,) = [row for chunk in inbox.quarantined() for row in chunk.batch().to_pylist()]
    assert (row["source"], row["file"], row["line"]) == (None, None, None)
    assert row["reason"] == (
        "late for operator `second`: at or before the watermark `first.last`, 1970-01-01T00:01:40.000Z"
    )

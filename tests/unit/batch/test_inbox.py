"""An inbox refuses a lost or doubled message, and sorts the rest by plan order."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidemill.batch import wire
from tidemill.batch.inbox import Inbox
from tidemill.batch.wire import Chunk, ChunkHead, Header, Message, Observed
from tidemill.errors import InternalError

ROWS = pa.RecordBatch.from_pydict({"v": [1]})


def chunk(
    order: tuple[int, ...], sender: int = 0, subject: str = "op", kind: wire.ChunkKind = "rows", **more: int
) -> Chunk:
    found = wire.decode_message(wire.chunk(ChunkHead(kind, sender, subject, order, **more), ROWS))
    assert isinstance(found, Chunk)
    return found


def header(sender: int, sent: int, **seen: object) -> Header:
    return Header(sender, sent, Observed(**seen))  # type: ignore[arg-type]


def test_all_messages_once_pass() -> None:
    Inbox([header(1, 0), chunk((0,)), header(0, 1)]).check(2, level=0)


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([header(0, 0)], r"level 0: headers came from the tasks \[0\], expected 0 to 1 once"),
        ([header(0, 0), header(0, 0)], r"headers came from the tasks \[0, 0\], expected 0 to 1 once"),
        ([header(0, 0), header(1, 0), header(1, 0)], r"headers came from the tasks \[0, 1, 1\]"),
        ([header(0, 0), header(2, 0)], r"headers came from the tasks \[0, 2\]"),
        ([header(0, 1), header(1, 0)], "level 0: task 0 sent 1 chunks, 0 arrived"),
        ([header(0, 1), header(1, 0), chunk((0,)), chunk((0,))], "task 0 sent 1 chunks, 2 arrived"),
        ([header(0, 1), header(1, 0), chunk((0,), sender=1)], "task 0 sent 1 chunks, 0 arrived"),
        (
            [header(0, 0, splits={"3": 1}), header(1, 0, splits={"3": 1})],
            r"level 0: a split was read by two tasks: \['3', '3'\]",
        ),
    ],
)
def test_a_missing_or_doubled_message_is_refused(messages: list[Message], said: str) -> None:
    with pytest.raises(InternalError, match=said):
        Inbox(messages).check(2, level=0)


@pytest.mark.parametrize("kind", ["rows", "output", "rejects", "late"])
def test_a_lost_chunk_of_any_kind_is_noticed(kind: wire.ChunkKind) -> None:
    Inbox([header(0, 1), chunk((0,), kind=kind)]).check(1, level=0)
    with pytest.raises(InternalError, match="task 0 sent 2 chunks, 1 arrived"):
        Inbox([header(0, 2), chunk((0,), kind=kind)]).check(1, level=0)


def test_chunks_are_in_plan_order_whatever_order_they_arrived_in() -> None:
    inbox = Inbox([chunk((1, 0)), chunk((0, 10)), chunk((0, 2)), chunk((0, 0), subject="other")])
    assert [one.head.order for one in inbox.chunks("op", 0)] == [(0, 2), (0, 10), (1, 0)]


def test_chunks_of_one_input_come_before_those_of_the_next() -> None:
    inbox = Inbox([chunk((0, 0), port=1), chunk((2, 0)), chunk((1, 0), port=1), chunk((0, 1))])
    found = [(one.head.port, one.head.order) for one in inbox.chunks("op", 0)]
    assert found == [(0, (0, 1)), (0, (2, 0)), (1, (0, 0)), (1, (1, 0))]


def test_rows_for_a_later_level_are_taken_once_and_are_no_error() -> None:
    inbox = Inbox([header(0, 3), chunk((0,)), chunk((1,), pass_number=1), chunk((0,), subject="lost")])
    inbox.check(1, level=0)
    assert [one.head.pass_number for one in inbox.take(["op"])] == [0, 1]
    assert inbox.take(["op"]) == []
    with pytest.raises(InternalError, match="rows of pass 0 arrived for `lost`, which did not read them"):
        inbox.check_read(0)


def test_passes_are_separate() -> None:
    inbox = Inbox([chunk((0,)), chunk((1,), pass_number=1)])
    assert [one.head.order for one in inbox.chunks("op", 1)] == [(1,)]


def test_rows_that_no_operator_read_are_an_error() -> None:
    inbox = Inbox([chunk((0,)), chunk((0,), pass_number=1)])
    inbox.chunks("op", 0)
    with pytest.raises(InternalError, match="level 2: rows of pass 1 arrived for `op`, which did not read them"):
        inbox.check_read(2)
    inbox.chunks("op", 1)
    inbox.check_read(2)


def test_keyless_outputs_are_ordered_by_the_hash_of_their_split() -> None:
    inbox = Inbox([chunk((0,), kind="output", split_hash=9), chunk((1,), kind="output", split_hash=2)])
    assert [one.head.split_hash for one in inbox.keyless_outputs()] == [2, 9]


def test_of_a_block_late_rows_come_before_unreadable_ones() -> None:
    inbox = Inbox([chunk((1,), kind="rejects"), chunk((1,), kind="late"), chunk((0,), kind="rejects")])
    assert [(one.head.order, one.head.kind) for one in inbox.quarantined()] == [
        ((0,), "rejects"),
        ((1,), "late"),
        ((1,), "rejects"),
    ]


def test_headers_are_summed_over_all_tasks() -> None:
    first = header(0, 0, splits={"0": 5}, event_times={"ts": (3, 4)}, late={"a": 1}, late_rows=1, quarantined_rows=2)
    second = header(1, 0, splits={"1": 6}, event_times={"ts": (1, 3)}, late={"a": 1, "b": 2}, late_rows=2)
    inbox = Inbox([second, first])
    assert inbox.splits == {"0": 5, "1": 6}
    assert inbox.event_times == {"ts": (1, 4)}
    assert inbox.late == {"a": 2, "b": 2}
    assert (inbox.late_rows, inbox.quarantined_rows) == (3, 2)

"""Messages between tasks: what is encoded is decoded again, of every kind, without unpickling."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from tidemill.batch import wire
from tidemill.errors import Fenced, InternalError, InvalidInput, StoreUnavailable
from tidemill.protocol.records import HASH_END

ROWS = pa.RecordBatch.from_pydict({"k": ["a", None], "v": [1, 2]})
HEAD = wire.ChunkHead(wire.ROWS, 3, "totals", (1, 0, 2), pass_number=1, split=7, split_hash=HASH_END)


def test_a_chunk_is_decoded_as_it_was_encoded() -> None:
    chunk = wire.decode_message(wire.chunk(HEAD, ROWS))
    assert isinstance(chunk, wire.Chunk)
    assert chunk.head == HEAD
    assert chunk.batch().equals(ROWS)


def test_a_chunk_that_is_passed_on_keeps_its_rows_and_their_alignment() -> None:
    arrived = wire.decode_message(wire.chunk(HEAD, ROWS))
    assert isinstance(arrived, wire.Chunk)
    for sender in (4, 10**9):
        data = wire.again(replace(HEAD, sender=sender, port=1), arrived.body)
        assert (4 + int.from_bytes(data[:4], "little")) % 64 == 0
        again = wire.decode_message(data)
        assert isinstance(again, wire.Chunk)
        assert (again.head.sender, again.head.port, again.head.order) == (sender, 1, HEAD.order)
        assert again.batch().equals(ROWS)


def test_the_rows_of_a_chunk_are_aligned_for_arrow() -> None:
    for subject in ("a", "ab", "a" * 63, "ö" * 31):
        data = wire.chunk(wire.ChunkHead(wire.ROWS, 0, subject, ()), ROWS)
        length = int.from_bytes(data[:4], "little")
        assert (4 + length) % 64 == 0


def test_a_chunk_of_two_record_batches_is_not_one_batch() -> None:
    table = pa.Table.from_batches([ROWS, ROWS])
    chunk = wire.decode_message(wire.chunk(HEAD, table))
    assert isinstance(chunk, wire.Chunk)
    assert sum(batch.num_rows for batch in chunk.batches()) == 4
    with pytest.raises(InternalError, match="a chunk of `totals` holds 2 batches, expected 1"):
        chunk.batch()


def test_a_header_is_decoded_as_it_was_encoded() -> None:
    seen = wire.Observed(
        {"0": 5}, {"0": "crc"}, {"source.ts": (-3, 9)}, late={"totals": 2}, late_rows=2, quarantined_rows=1
    )
    header = wire.Header(4, 17, seen)
    assert wire.decode_message(wire.header(header)) == header


def test_a_receipt_keeps_the_bytes_of_its_record() -> None:
    assert wire.decode_message(wire.receipt(b'{"level": 0}')) == wire.ReceiptMessage(b'{"level": 0}')


@pytest.mark.parametrize("kind", [InvalidInput, StoreUnavailable, Fenced, InternalError])
def test_an_error_keeps_its_kind_message_and_hint(kind: type[InvalidInput]) -> None:
    failure = wire.decode_message(wire.encode_failure(kind("read `a`: missing\nmore", hint="restore it")))
    assert isinstance(failure, wire.Failure)
    error = failure.error()
    assert (type(error), error.message, error.hint) == (kind, "read `a`: missing\nmore", "restore it")


def test_a_subclass_of_a_kind_arrives_as_that_kind() -> None:
    class Special(InvalidInput):
        pass

    failure = wire.decode_message(wire.encode_failure(Special("no")))
    assert isinstance(failure, wire.Failure)
    assert type(failure.error()) is InvalidInput


def test_bounds_widen_in_both_directions_and_ignore_blocks_without_event_times() -> None:
    bounds: wire.Bounds = {}
    for found in (None, (5, 7), (6, 6), (1, 2), (9, 12), None):
        wire.widen(bounds, "ts", found)
    assert bounds == {"ts": (1, 12)}

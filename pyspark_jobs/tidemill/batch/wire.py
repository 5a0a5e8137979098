"""What travels between tasks: chunks of rows, headers, receipts, failures, as bytes.

A message is a JSON head and a body (an Arrow IPC stream, or nothing). Nothing is unpickled. INVARIANT: a receiver
can tell from heads alone whether everything that was sent to it has arrived exactly once.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from ..errors import KINDS, InternalError, TidemillError

ROWS, OUTPUT, REJECTS, LATE = "rows", "output", "rejects", "late"
HEADER, RECEIPT, FAILURE = "header", "receipt", "failure"
_ALIGNMENT = 64
"""Bodies begin at a multiple of it, because Arrow computes with aligned buffers, and warns of others."""


@dataclass(frozen=True)
class Head:
    """What a message is. `order` sorts the chunks of one operator or sink; `sender` is the task it comes from."""

    kind: str
    sender: int = 0
    subject: str = ""
    """The operator (rows, late) or the sink (output)."""
    pass_number: int = 0
    order: tuple[int, ...] = ()
    split: int | None = None
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """A head with its body still as bytes."""

    head: Head
    body: pa.Buffer

    def batches(self) -> list[pa.RecordBatch]:
        """The rows of a chunk."""
        with pa.ipc.open_stream(self.body) as reader:
            return list(reader)

    def batch(self) -> pa.RecordBatch:
        """The rows of a chunk of one batch."""
        batches = self.batches()
        if len(batches) != 1:
            raise InternalError(f"a chunk of `{self.head.subject}` holds {len(batches)} batches, expected 1")
        return batches[0]


def encode(head: Head, rows: pa.RecordBatch | pa.Table | None = None) -> bytes:
    """A message as bytes."""
    text = json.dumps(asdict(head), separators=(",", ":")).encode()
    text += b" " * (-(4 + len(text)) % _ALIGNMENT)
    body = b""
    if rows is not None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write(rows)
        body = sink.getvalue().to_pybytes()
    return b"".join((len(text).to_bytes(4, "little"), text, body))


def receipt(record: bytes) -> bytes:
    """A receipt's JSON on its way to the driver."""
    return encode(Head(RECEIPT)) + record


def decode(data: bytes) -> Message:
    """The message that `encode` made."""
    length = int.from_bytes(data[:4], "little")
    raw = json.loads(data[4 : 4 + length])
    raw["order"] = tuple(raw["order"])
    return Message(Head(**raw), pa.py_buffer(memoryview(data)[4 + length :]))


def failure(error: TidemillError) -> bytes:
    """An error on its way to the driver: its kind, message and hint."""
    kind = next((base.__name__ for base in type(error).__mro__ if base.__name__ in KINDS), InternalError.__name__)
    fields = {"kind": kind, "message": error.message, "hint": error.hint}
    return encode(Head(FAILURE, fields=fields))


def raised(message: Message) -> TidemillError:
    """The error that a failure carries."""
    fields = message.head.fields
    return KINDS.get(str(fields["kind"]), InternalError)(str(fields["message"]), hint=fields["hint"])


def widen(bounds: dict[str, tuple[int, int]], name: str, found: tuple[int, int] | None) -> None:
    """Widens the least and greatest event time of a watermark, as headers tell of them."""
    if found is not None:
        least, greatest = bounds.get(name, found)
        bounds[name] = (min(least, found[0]), max(greatest, found[1]))

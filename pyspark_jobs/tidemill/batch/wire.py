"""The messages that tasks exchange, as bytes: chunks of rows, headers, receipts and failures.

A message is a JSON head, then a body: an Arrow IPC stream, a receipt's JSON, or nothing. Nothing is unpickled.
INVARIANT: from the heads alone a task can tell whether everything sent to it arrived exactly once.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import field
from typing import Any, Literal

import pyarrow as pa

from ..errors import ERROR_KINDS, InternalError, TidemillError
from ..protocol.records import Furthest, LateRow
from ..values import dataclass
from .work import Data

ChunkKind = Literal["rows", "output", "rejects", "late"]
ROWS: ChunkKind = "rows"
OUTPUT: ChunkKind = "output"
REJECTS: ChunkKind = "rejects"
LATE_REJECTS: ChunkKind = "late"
_HEADER, _RECEIPT, _FAILURE = "header", "receipt", "failure"
EMITTED = 1 << 40
"""Begins the order of chunks that an operator emitted, so that they come after those of all splits."""
ALIGNMENT = 64
"""Bodies begin at a multiple of 64 bytes. Arrow computes with aligned buffers, and warns about others."""

_MEASURED_FROM_BYTES = 256 * 1024
"""Chunks from this size on are measured before they are written, so that no memory is copied while it grows."""

Bounds = dict[str, tuple[int, int]]
"""The least and greatest event time in ms, by watermark."""


@dataclass(frozen=True)
class ChunkHead:
    """What a chunk holds, and where it belongs."""

    kind: ChunkKind
    sender: int
    """The task that sent it."""
    subject: str
    """The operator of rows, the input of late rows, the sink of outputs; empty for rejects."""
    order: tuple[int, ...]
    """Sorts the chunks of one input of an operator, or of one sink."""
    pass_number: int = 0
    split: int | None = None
    """The number of the split that the rows were read from; None for rows of an upstream operator."""
    split_hash: int = 0
    """Sorts outputs of keyless streams, so that their order does not depend on the key ranges."""
    port: int = 0
    """The number of the operator's input that the rows are of."""
    block: int | None = None
    """The block of the places of all rows, if the rows carry places without their blocks; see `places`."""


@dataclass(frozen=True)
class Chunk:
    """Rows for one key range. They are decoded when asked for."""

    head: ChunkHead
    body: pa.Buffer

    def batches(self) -> list[pa.RecordBatch]:
        """Return the rows."""
        with pa.ipc.open_stream(self.body) as reader:
            return list(reader)

    def batch(self) -> pa.RecordBatch:
        """Return the rows of a chunk that holds exactly one record batch."""
        batches = self.batches()
        if len(batches) != 1:
            raise InternalError(f"a chunk of `{self.head.subject}` holds {len(batches)} batches, expected 1")
        return batches[0]


@dataclass
class Observed:
    """What a task saw of the batch."""

    splits: dict[str, int] = field(default_factory=dict)
    """Rows read from each split, by the split's number."""
    fingerprints: dict[str, str] = field(default_factory=dict)
    """Of files, by the number of their first split."""
    event_times: Bounds = field(default_factory=dict)
    furthest: dict[str, Furthest] = field(default_factory=dict)
    """By watermark: the row with the greatest event time, if it is after the batch time."""
    reached: dict[str, int] = field(default_factory=dict)
    """Rows that reached an operator, late ones among them, by the label of its input."""
    late: dict[str, int] = field(default_factory=dict)
    """Late rows, by the label of the operator's input."""
    late_behind: dict[str, int] = field(default_factory=dict)
    """Those of them that operators emitted."""
    ahead: dict[str, int] = field(default_factory=dict)
    """Rows too far ahead of the batch time, by the label of each input that they would have reached."""
    ahead_behind: dict[str, int] = field(default_factory=dict)
    """Those of them that operators emitted."""
    late_rows: int = 0
    """Input rows that were late for at least one operator."""
    quarantined_rows: int = 0
    """Input rows that could not be read."""
    bad_files: dict[str, int] = field(default_factory=dict)
    """Rows of files that go to quarantine as a whole, as far as they can be counted, by the number of the split."""
    kept_late: dict[str, int] = field(default_factory=dict)
    """Late rows that operators with `late="keep"` are given, by the label of the input."""
    kept_late_rows: int = 0
    """Input rows that were late only for operators with `late="keep"`."""
    late_examples: list[LateRow] = field(default_factory=list)
    """The first late rows of the task."""
    peak_memory_bytes: int = 0
    """The greatest private memory of this task's process, or of a process of an earlier level."""


@dataclass(frozen=True)
class Header:
    """The message that every task sends to every range, even if it has no rows for it."""

    sender: int
    sent: int
    """Chunks that the task sent to this range."""
    observed: Observed


@dataclass(frozen=True)
class ReceiptMessage:
    """A receipt's record on its way to the driver."""

    record: bytes


@dataclass(frozen=True)
class Failure:
    """An error on its way to the driver."""

    kind: str
    message: str
    hint: str | None

    def error(self) -> TidemillError:
        """Return the error, of the kind that it had in the task."""
        return ERROR_KINDS.get(self.kind, InternalError)(self.message, hint=self.hint)


Message = Chunk | Header | ReceiptMessage | Failure


def chunk(head: ChunkHead, rows: pa.RecordBatch | pa.Table) -> Data:
    """Encode a chunk. The rows are copied once, into memory of Arrow's pool, which uses it again for later chunks."""
    begin = _head(head.kind, vars(head))
    if rows.nbytes < _MEASURED_FROM_BYTES:
        sink = pa.BufferOutputStream()
        _write(sink, begin, rows)
        return memoryview(sink.getvalue())
    counted = pa.MockOutputStream()
    _write(counted, begin, rows)
    buffer = pa.allocate_buffer(counted.size())
    _write(pa.FixedSizeBufferWriter(buffer), begin, rows)
    return memoryview(buffer)


def again(head: ChunkHead, body: pa.Buffer) -> Data:
    """Encode a chunk that arrived, with another head. Its rows are not decoded."""
    return memoryview(_head(head.kind, vars(head)) + memoryview(body))


def _write(sink: pa.NativeFile, begin: bytes, rows: pa.RecordBatch | pa.Table) -> None:
    sink.write(begin)
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)


def header(head: Header) -> bytes:
    """Encode a header."""
    return _encode(_HEADER, dataclasses.asdict(head))


def receipt(record: bytes) -> bytes:
    """Encode a receipt whose record is already JSON."""
    return _encode(_RECEIPT, {}, record)


def encode_failure(error: TidemillError) -> bytes:
    """Encode an error by its kind, message and hint."""
    kind = next((base.__name__ for base in type(error).__mro__ if base.__name__ in ERROR_KINDS), InternalError.__name__)
    return _encode(_FAILURE, dataclasses.asdict(Failure(kind, error.message, error.hint)))


def decode_message(data: Data) -> Message:
    """Decode a message of any kind."""
    length = int.from_bytes(data[:4], "little")
    kind, fields = json.loads(bytes(data[4 : 4 + length]))
    body = memoryview(data)[4 + length :]
    if kind == _HEADER:
        return Header(fields["sender"], fields["sent"], _observed(fields["observed"]))
    if kind == _RECEIPT:
        return ReceiptMessage(bytes(body))
    if kind == _FAILURE:
        return Failure(**fields)
    return Chunk(ChunkHead(**fields | {"order": tuple(fields["order"])}), pa.py_buffer(body))


def widen(bounds: Bounds, name: str, found: tuple[int, int] | None) -> None:
    """Extend the bounds of the watermark `name` by those that were `found`, if any were."""
    if found is not None:
        least, greatest = bounds.get(name, found)
        bounds[name] = (min(least, found[0]), max(greatest, found[1]))


def _encode(kind: str, fields: dict[str, Any], body: bytes = b"") -> bytes:
    return _head(kind, fields) + body


def _head(kind: str, fields: dict[str, Any]) -> bytes:
    text = json.dumps([kind, fields], separators=(",", ":")).encode()
    text += b" " * (-(4 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(4, "little") + text


def _observed(fields: dict[str, Any]) -> Observed:
    bounds = {name: (least, greatest) for name, (least, greatest) in fields["event_times"].items()}
    furthest = {name: Furthest(**found) for name, found in fields["furthest"].items()}
    late = [LateRow(**found) for found in fields["late_examples"]]
    return Observed(**fields | {"event_times": bounds, "furthest": furthest, "late_examples": late})

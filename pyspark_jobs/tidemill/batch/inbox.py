"""The messages that reached an apply task, sorted by kind and checked.

INVARIANT: an apply task folds no rows before `check` has passed: one header from every task, every chunk exactly once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from ..errors import InternalError
from ..protocol.records import Furthest, LateRow
from . import wire
from .lateness import first_late
from .wire import Chunk, ChunkKind, Failure, Header, Message, ReceiptMessage


class Inbox:
    """The messages of one range of one level."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.failures = [one for one in messages if isinstance(one, Failure)]
        self.receipts = [one for one in messages if isinstance(one, ReceiptMessage)]
        self.headers = sorted((one for one in messages if isinstance(one, Header)), key=lambda one: one.sender)
        self._by_kind: dict[ChunkKind, list[Chunk]] = defaultdict(list)
        for one in messages:
            if isinstance(one, Chunk):
                self._by_kind[one.head.kind].append(one)
        self._arrived = Counter(chunk.head.sender for chunks in self._by_kind.values() for chunk in chunks)
        self.row_bytes = sum(chunk.body.size for chunk in self._by_kind[wire.ROWS])
        """The bytes of all rows for operators."""
        self._chunks: dict[tuple[str, int], list[Chunk]] = defaultdict(list)
        self._read: set[tuple[str, int]] = set()
        for chunk in sorted(self._by_kind.pop(wire.ROWS, []), key=lambda one: (one.head.port, one.head.order)):
            self._chunks[chunk.head.subject, chunk.head.pass_number].append(chunk)

    def check(self, senders: int, level: int) -> None:
        """Raise `InternalError` unless each of `senders` tasks sent one header, and as many chunks as it says."""
        found = [header.sender for header in self.headers]
        if found != list(range(senders)):
            raise InternalError(f"level {level}: headers came from the tasks {found}, expected 0 to {senders - 1} once")
        for header in self.headers:
            if (arrived := self._arrived[header.sender]) != header.sent:
                raise InternalError(f"level {level}: task {header.sender} sent {header.sent} chunks, {arrived} arrived")
        splits = [number for header in self.headers for number in header.observed.splits]
        if len(set(splits)) < len(splits):
            raise InternalError(f"level {level}: a split was read by two tasks: {sorted(splits)}")

    def chunks(self, operator: str, pass_number: int) -> list[Chunk]:
        """Return the chunks of an operator in one pass: input by input, each in plan order."""
        self._read.add((operator, pass_number))
        return self._chunks.get((operator, pass_number), [])

    def drop(self, operator: str, pass_number: int) -> None:
        """Free the rows of an operator in one pass, which it has read."""
        self._chunks.pop((operator, pass_number), None)

    def take(self, operators: Collection[str]) -> list[Chunk]:
        """Take the rows for some operators out of the inbox, because they are for a later level."""
        found = [one for one in self._chunks if one[0] in operators]
        return [chunk for one in found for chunk in self._chunks.pop(one)]

    def check_read(self, level: int) -> None:
        """Raise `InternalError` if rows arrived that no operator has read: they would be lost."""
        for operator, pass_number in self._chunks.keys() - self._read:
            raise InternalError(
                f"level {level}: rows of pass {pass_number} arrived for `{operator}`, which did not read them"
            )

    def keyless_outputs(self) -> list[Chunk]:
        """Return the rows of keyless streams by (hash of the split, split, block).

        This order does not depend on the key ranges.
        """
        return sorted(self._by_kind[wire.OUTPUT], key=lambda one: (one.head.split_hash, one.head.order))

    def quarantined(self) -> list[Chunk]:
        """Return the rows for quarantine in plan order. Of a block the late ones come first, by operator."""
        found = [*self._by_kind[wire.REJECTS], *self._by_kind[wire.LATE_REJECTS]]
        return sorted(found, key=lambda one: (one.head.order, one.head.kind, one.head.subject))

    @property
    def splits(self) -> dict[str, int]:
        """Rows read from each split, by the split's number."""
        return {number: rows for header in self.headers for number, rows in header.observed.splits.items()}

    @property
    def bad_files(self) -> dict[str, int]:
        """Return the rows of files that go to quarantine as a whole, by the number of the split."""
        return {number: rows for header in self.headers for number, rows in header.observed.bad_files.items()}

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of files, by the number of their first split."""
        return {number: text for header in self.headers for number, text in header.observed.fingerprints.items()}

    @property
    def event_times(self) -> wire.Bounds:
        """The least and greatest event time that the batch saw, by watermark."""
        found: wire.Bounds = {}
        for header in self.headers:
            for name, bounds in header.observed.event_times.items():
                wire.widen(found, name, bounds)
        return found

    @property
    def furthest(self) -> dict[str, Furthest]:
        """By watermark: the row with the greatest event time, if it is after the batch time."""
        found: dict[str, Furthest] = {}
        for header in self.headers:
            for name, row in header.observed.furthest.items():
                if name not in found or row.time_ms > found[name].time_ms:
                    found[name] = row
        return found

    @property
    def reached(self) -> dict[str, int]:
        """Rows that reached operators, by the label of the input."""
        return self._total("reached")

    @property
    def late(self) -> dict[str, int]:
        """Late rows, by the label of the operator's input."""
        return self._total("late")

    @property
    def late_behind(self) -> dict[str, int]:
        """Late rows that operators emitted, by the label of the input."""
        return self._total("late_behind")

    @property
    def ahead(self) -> dict[str, int]:
        """Rows too far ahead of the batch time, by the label of the input."""
        return self._total("ahead")

    @property
    def ahead_behind(self) -> dict[str, int]:
        """Those of them that operators emitted."""
        return self._total("ahead_behind")

    def _total(self, counts: str) -> dict[str, int]:
        """Return the sums over all senders of rows by label."""
        total: Counter[str] = Counter()
        for header in self.headers:
            total.update(getattr(header.observed, counts))
        return dict(total)

    @property
    def late_rows(self) -> int:
        """Input rows that were late for at least one operator."""
        return sum(header.observed.late_rows for header in self.headers)

    @property
    def kept_late(self) -> dict[str, int]:
        """Late rows that operators with `late="keep"` are given, by the label of the input."""
        return self._total("kept_late")

    @property
    def kept_late_rows(self) -> int:
        """Input rows that were late only for operators with `late="keep"`."""
        return sum(header.observed.kept_late_rows for header in self.headers)

    @property
    def late_examples(self) -> list[LateRow]:
        """A few late rows."""
        return first_late([row for header in self.headers for row in header.observed.late_examples])

    @property
    def peak_memory_bytes(self) -> int:
        """The greatest private memory of the senders' processes."""
        return max((header.observed.peak_memory_bytes for header in self.headers), default=0)

    @property
    def quarantined_rows(self) -> int:
        """Input rows that could not be read."""
        return sum(header.observed.quarantined_rows for header in self.headers)

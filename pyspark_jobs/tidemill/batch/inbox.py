"""What reached an apply task, sorted out and checked: every sender once, every chunk that was sent, once.

INVARIANT: an apply task folds nothing before `check` has passed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from .. import _native
from ..errors import InternalError
from . import wire
from .wire import Message

_CHUNKS = (wire.ROWS, wire.OUTPUT, wire.REJECTS, wire.LATE)


class Inbox:
    """The messages of one range of one level."""

    def __init__(self, messages: Sequence[Message]) -> None:
        by_kind: dict[str, list[Message]] = defaultdict(list)
        for message in messages:
            by_kind[message.head.kind].append(message)
        self.failures = by_kind[wire.FAILURE]
        self.receipts = by_kind[wire.RECEIPT]
        self.headers = sorted(by_kind[wire.HEADER], key=lambda m: m.head.sender)
        self._by_kind = by_kind
        self._chunks: dict[tuple[str, int], list[Message]] = defaultdict(list)
        self._read: set[tuple[str, int]] = set()
        for message in sorted(by_kind[wire.ROWS], key=lambda m: m.head.order):
            self._chunks[message.head.subject, message.head.pass_number].append(message)

    def check(self, senders: int, level: int) -> None:
        """`InternalError` unless each of `senders` tasks sent one header, and as many chunks as it says."""
        found = [message.head.sender for message in self.headers]
        if found != list(range(senders)):
            raise InternalError(f"level {level}: headers came from the tasks {found}, expected 0 to {senders - 1} once")
        arrived = Counter(m.head.sender for kind in _CHUNKS for m in self._by_kind[kind])
        for message in self.headers:
            sent = int(message.head.fields["sent"])
            if arrived[message.head.sender] != sent:
                raise InternalError(
                    f"level {level}: task {message.head.sender} sent {sent} chunks, "
                    f"{arrived[message.head.sender]} arrived"
                )
        splits = [number for message in self.headers for number in message.head.fields.get("splits", {})]
        if len(set(splits)) < len(splits):
            raise InternalError(f"level {level}: a split was read by two tasks: {sorted(splits)}")

    def chunks(self, operator: str, pass_number: int) -> list[Message]:
        """The chunks of an operator in one pass, in plan order."""
        self._read.add((operator, pass_number))
        return self._chunks.get((operator, pass_number), [])

    def check_read(self, level: int) -> None:
        """`InternalError` where rows arrived that nobody asked for: they would be lost."""
        for operator, pass_number in self._chunks.keys() - self._read:
            raise InternalError(f"level {level}: rows of pass {pass_number} arrived for `{operator}`, which read none")

    def keyless_outputs(self) -> list[Message]:
        """Rows of keyless streams, in an order that does not depend on the cut: (hash of the split, split, block)."""

        def order(message: Message) -> tuple[int, tuple[int, ...]]:
            return int(message.head.fields["hash"]), message.head.order

        return sorted(self._by_kind[wire.OUTPUT], key=order)

    def quarantined(self) -> list[Message]:
        """Rows for quarantine, in plan order: of a block the late ones, by operator, then the unreadable ones."""
        found = [*self._by_kind[wire.REJECTS], *self._by_kind[wire.LATE]]
        return sorted(found, key=lambda m: (m.head.order, m.head.kind, m.head.subject))

    @property
    def splits(self) -> dict[str, int]:
        """Rows read from each split, by its number."""
        return {k: int(v) for message in self.headers for k, v in message.head.fields.get("splits", {}).items()}

    @property
    def event_times(self) -> dict[str, tuple[int, int]]:
        """The least and greatest event time that the batch saw, by watermark."""
        found: dict[str, tuple[int, int]] = {}
        for message in self.headers:
            for name, (low, high) in message.head.fields["event_times"].items():
                wire.widen(found, name, (low, high))
        return found

    @property
    def late(self) -> dict[str, int]:
        """Late rows, by operator."""
        total: Counter[str] = Counter()
        for message in self.headers:
            total.update(message.head.fields.get("late", {}))
        return dict(total)

    @property
    def late_rows(self) -> int:
        """Input rows that were late for some operator."""
        return sum(int(message.head.fields.get("late_rows", 0)) for message in self.headers)

    @property
    def quarantined_rows(self) -> int:
        """Input rows that could not be read."""
        return sum(int(message.head.fields.get("quarantined_rows", 0)) for message in self.headers)


def split_hash(source: str, path: str) -> int:
    """The hash that sends what has no key to a range."""
    return _native.text_hash(f"{source}/{path}")

"""A scatter task: reads its splits, runs the stateless steps, and sends the rows to the key ranges.

Rows with a key go to the range of their key. Unreadable rows, late rows and outputs of keyless streams go to the range
of their split's hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from .. import _native
from ..protocol.records import Split
from ..sources.contract import Block
from .batch import Batch
from .input import Alone, Several, Splits, feed, is_given_back
from .memory import PeakMemory
from .ranges import range_of
from .sender import Outgoing, RowOrigin, Sender
from .together import is_plain, send_together
from .wire import Observed
from .work import Item


def scatter_task(batch: Batch, task: int) -> Iterator[Item]:
    """Yield the chunks of every split of scatter task `task`, then its headers."""
    sender = Sender(batch, task, Observed(), combine=True)
    with PeakMemory() as memory:
        splits = Splits(
            batch, batch.assignment[task], {name for name in batch.job.sources if is_plain(batch.job, name)}
        )
        for found in splits:
            yield from _send(sender, splits, found)
        yield from sender.release()
        sender.observed.peak_memory_bytes = memory.look()
        yield from sender.headers()


def _send(sender: Sender, splits: Splits, found: Alone | Several) -> Iterator[Item]:
    if isinstance(found, Alone):
        yield from _send_split(sender, found.number, found.blocks)
        return
    sent = send_together(sender, found)
    if sent is not None:
        yield from sent
        return
    splits.together.discard(sender.batch.plan.splits[found.numbers[0]].source)
    for number in found.numbers:
        yield from _send_split(sender, number, splits.alone(number).blocks)


def split_hash(split: Split) -> int:
    """Return the hash that decides which range receives the split's rows without a key."""
    return _native.text_hash(f"{split.source}/{split.path}")


def _send_split(sender: Sender, number: int, read: Iterable[Block]) -> Iterator[Item]:
    batch = sender.batch
    split = batch.plan.splits[number]
    hashed = split_hash(split)
    keyless = range_of(hashed, batch.bounds)

    def outgoing(block: int, read: pa.RecordBatch | None = None) -> Outgoing:
        origin = RowOrigin((number, block), keyless, number=number, split=split, split_hash=hashed, read=read)
        return Outgoing(sender, origin)

    rows = count = 0
    for block in read:
        sent = outgoing(block.number, None if is_given_back(split) else block.rows)
        feed(batch.job, split, block.rows, sent)
        sent.quarantine_rejects(block)
        sent.count_late_rows(block.rows.num_rows)
        if block.fingerprint is not None:
            sender.observed.fingerprints[str(number)] = block.fingerprint
        rows += block.rows.num_rows + block.rejected_rows
        count = block.number + 1
        yield from sent.items
    last = outgoing(count)
    last.rest()
    yield from last.items
    known = sender.observed.splits
    known[str(number)] = known.get(str(number), 0) + rows

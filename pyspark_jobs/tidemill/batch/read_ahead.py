"""`ReadAhead`: files of the next batch that a thread reads while this process carries out the batch before it.

INVARIANT: a block that was read ahead is the one that `Source.read` yields later, because it depends only on the bytes
that the plan names. An error is not kept: the task that needs the file reads it again, and raises it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ..protocol.records import Split
from ..sources.contract import Block, ReadContext, Source

MOST_BYTES = 64 * 1024**2
"""About how many bytes of rows are kept in memory. The rest of a file is read when it is needed."""


@dataclass(frozen=True)
class _Begun:
    """A split that is read ahead, how, and its blocks."""

    split: Split
    block_rows: int
    context: ReadContext
    blocks: Future[Iterator[Block]]


class ReadAhead:
    """The first files of one batch, read before it begins. Each is handed out once."""

    def __init__(
        self, sources: Mapping[str, Source], splits: Sequence[tuple[Split, ReadContext]], block_rows: int
    ) -> None:
        self._begun: dict[tuple[str, str], _Begun] = {}
        if not splits:
            return
        thread, most = ThreadPoolExecutor(1, "tidemill-read-ahead"), MOST_BYTES // len(splits)
        for split, context in splits:
            reading = thread.submit(_first_blocks, sources[split.source], split, block_rows, context, most)
            self._begun[split.source, split.path] = _Begun(split, block_rows, context, reading)
        thread.shutdown(wait=False)  # it ends once it has read them

    def take(self, split: Split, block_rows: int, context: ReadContext) -> Iterator[Block] | None:
        """Return the blocks of a split; None if they must be read now."""
        begun = self._begun.pop((split.source, split.path), None)
        if begun is None or (begun.split, begun.block_rows, begun.context) != (split, block_rows, context):
            return None
        is_read = not begun.blocks.cancel() and begun.blocks.exception() is None  # waits for it
        return begun.blocks.result() if is_read else None


def _first_blocks(
    source: Source, split: Split, block_rows: int, context: ReadContext, most_bytes: int
) -> Iterator[Block]:
    """Read blocks up to a size. Return them followed by the rest, which is not read yet."""
    first: list[Block] = []
    size, blocks = 0, source.read(split, block_rows, context)
    for block in blocks:
        first.append(block)
        size += block.rows.nbytes + (0 if block.rejects is None else block.rejects.nbytes)
        if size >= most_bytes:
            break
    return _freed(first, blocks)


def _freed(first: list[Block], rest: Iterator[Block]) -> Iterator[Block]:
    """Yield the blocks, and keep none that was yielded."""
    first.reverse()
    while first:
        yield first.pop()
    yield from rest

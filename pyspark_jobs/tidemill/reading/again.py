"""A batch carried out again in this process, up to one operator, to see which rows reach it. Nothing is stored.

The functions of the operators upstream are called again, as in a replay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ..batch.apply import apply_range
from ..batch.batch import Batch
from ..batch.scatter import scatter_task
from ..batch.work import Item
from ..errors import InvalidInput
from ..operators.contract import Handle
from ..pipeline.job import Job, Placed, Port
from ..protocol.records import Commit, Plan
from ..repo.opened import Opened
from ..run.execute import batch_after
from ..store import Store
from ..values import dataclass

LARGEST_BATCH = 1024**3
"""A batch whose files have more bytes is not carried out again."""


def rows_reaching(repo: Opened, plan: Plan, placed: Placed, keep: Callable[[Port, pa.RecordBatch], None]) -> None:
    """Call `keep` with all rows that reach an operator in the batch of a plan, late ones among them.

    `InvalidInput` if the batch is too large, or if a function fails now. Other errors if something is no longer there.
    """
    size = sum(split.size for split in plan.splits)
    if size > LARGEST_BATCH:
        raise InvalidInput(f"the files of the batch have {size:,} bytes, and are read again up to {LARGEST_BATCH:,}")
    batch = _batch(repo, plan, _watching(repo.job, placed, keep))
    sent = _data(scatter_task(batch, 0))
    for level in range(placed.level):
        sent = _data(apply_range(batch, level, 0, sent))


def _data(items: Any) -> list[Any]:
    found: Sequence[Item] = list(items)
    return [item.data for item in found]


def _batch(repo: Opened, plan: Plan, job: Job) -> Batch:
    batch = batch_after(repo, _before(repo, plan), plan, job, _Unstored)
    return dataclasses.replace(batch, attempt="again", assignment=(tuple(range(len(plan.splits))),))


def _before(repo: Opened, plan: Plan) -> Commit | None:
    parent = plan.parent
    return None if parent.version < 0 else repo.own_log(parent.branch).commit(parent.version)


class _Unstored(Batch):
    """A batch whose tasks store nothing."""

    def store(self) -> Store:
        """Return the store, without what the tasks put there."""
        store: Any = _Unwritten(super().store())
        return store  # type: ignore[no-any-return]


class _Unwritten:
    """A store that is read, and forgets what is put into it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put(self, name: str, data: bytes) -> None:
        """Forget an object."""

    def put_hint(self, name: str, data: bytes) -> None:
        """Forget an object."""


def _watching(job: Job, placed: Placed, keep: Callable[[Port, pa.RecordBatch], None]) -> Job:
    """Return the job with an operator that shows the rows that reach it."""
    ports = tuple(dataclasses.replace(port, operator=_Watched(port.operator, port, keep)) for port in placed.ports)
    watched = dataclasses.replace(placed, ports=ports)
    return dataclasses.replace(job, operators={**job.operators, placed.operator.name: watched})


@dataclass(frozen=True)
class _Watched:
    """A bound operator that shows the rows of an input before it prepares them."""

    inner: Any
    port: Port
    keep: Callable[[Port, pa.RecordBatch], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def reads(self, port: int) -> None:
        """All columns."""

    def open_port(self, port: int) -> Any:
        """Open the operator, and look at what it is given."""
        return _Looking(self.inner.open_port(port), self.port, self.keep)


class _Looking:
    """A handle that shows rows before it prepares them."""

    def __init__(self, inner: Handle, port: Port, keep: Callable[[Port, pa.RecordBatch], None]) -> None:
        self._inner, self._port, self._keep = inner, port, keep

    def prepare(self, rows: pa.RecordBatch, pass_: Any, combine: bool = True) -> Any:
        """Show the rows of a block."""
        self._keep(self._port, rows)
        return self._inner.prepare(rows, pass_, combine)

    def prepare_splits(self, rows: pa.RecordBatch, counts: Sequence[int], pass_: Any) -> pa.RecordBatch:
        """Show the rows of several splits."""
        self._keep(self._port, rows)
        return self._inner.prepare_splits(rows, counts, pass_)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

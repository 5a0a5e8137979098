"""A task that the system refuses memory is one clear error for the driver, with the setting to change."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.batch import batches
from tidemill.batch import apply, scatter, wire
from tidemill.batch.task import BatchWork


def work(tasks: int) -> BatchWork:
    p = tm.Pipeline("little")
    p.read(tm.Rows("k long")).groupBy("k").agg(n=tm.count())
    return BatchWork(batches.batch(p, [[{"k": 1}, {"k": 2}]], tasks=tasks))


def refused(*arguments: object) -> None:
    raise pa.ArrowMemoryError("malloc of size 64 failed")


def test_memory_that_is_refused_reaches_every_range_as_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter, "scatter_task", refused)
    items = list(work(3).scatter(0))
    assert [item.target for item in items] == [0, 1, 2]
    failures = [wire.decode_message(item.data) for item in items]
    for failure in failures:
        assert isinstance(failure, wire.Failure)
        error = failure.error()
        assert type(error) is tm.InvalidInput
        assert error.first_line.startswith(
            "run task 1 that reads input of a batch: out of memory (malloc of size 64 failed); the process has "
        )
        assert error.first_line.endswith("`tidemill.task_memory_bytes` is 2,048 MiB")
        assert "lower `tidemill.task_memory_bytes`" in (error.hint or "")


def test_a_range_that_has_too_little_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "apply_range", refused)
    (item,) = work(3).apply(0, 1, [])
    failure = wire.decode_message(item.data)
    assert isinstance(failure, wire.Failure)
    assert failure.message.startswith("run key range 2 of 3 of a batch: out of memory")

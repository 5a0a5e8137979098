"""Errors of DuckDB: only a statement or its data is blamed on the user, and no connection is used after a failure."""

from __future__ import annotations

import os
import signal
import threading

import duckdb
import pyarrow as pa
import pytest

from tidemill.errors import InternalError, InvalidInput, StoreUnavailable, TidemillError
from tidemill.sources import connections
from tidemill.sources.steps import Sql

ROWS = pa.record_batch({"a": pa.array([1, 2], pa.int32()), "_row": pa.array([0, 1], pa.int64())})


def failing(error: BaseException) -> None:
    def call() -> None:
        raise error

    connections.guarded(call)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate"), StoreUnavailable),
        (duckdb.IOException("IO Error: Cannot open file: Too many open files"), StoreUnavailable),
        (duckdb.ConnectionException("Connection Error: Connection already closed!"), StoreUnavailable),
        (duckdb.InvalidInputException("Invalid Input Error: connection has an unfinished result"), StoreUnavailable),
        (duckdb.InternalException("INTERNAL Error: assertion"), InternalError),
        (duckdb.FatalException("FATAL Error: x"), InternalError),
    ],
)
def test_a_failure_of_the_environment_is_not_blamed_on_the_statement(
    error: Exception, kind: type[TidemillError]
) -> None:
    before = connections.for_user_sql()
    with pytest.raises(kind):
        failing(error)
    assert connections.for_user_sql() is not before


@pytest.mark.parametrize(
    "error", [RuntimeError("Query interrupted"), KeyboardInterrupt(), duckdb.InterruptException("x")]
)
def test_an_interrupt_is_a_keyboard_interrupt(error: BaseException) -> None:
    before = connections.for_user_sql()
    with pytest.raises(KeyboardInterrupt):
        failing(error)
    assert connections.for_user_sql() is not before


def test_a_statement_that_does_not_fit_its_rows_is_blamed() -> None:
    with pytest.raises(InvalidInput, match="Could not convert"):
        Sql("SELECT CAST('x' AS int) AS b FROM rows").apply(ROWS, "UTC")
    assert Sql("SELECT a + 1 AS b FROM rows").apply(ROWS, "UTC").column("b").to_pylist() == [2, 3]


def test_ctrl_c_in_a_statement_leaves_the_next_one_whole() -> None:
    slow = "SELECT a, len(list_filter(range(20000000 + a), lambda x: x % 7 = 3)) AS n FROM rows"
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            Sql(slow).apply(ROWS, "UTC")
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert Sql("SELECT a FROM rows").apply(ROWS, "UTC").column("a").to_pylist() == [1, 2]

"""DuckDB connections, one for each thread, time zone and use: writing text, or running users' SQL in a sandbox.

INVARIANT: results keep the order of rows, because each connection has one thread. INVARIANT: a connection keeps its
time zone, so the caller of one connection may call code that uses another.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from ..errors import InternalError, StoreUnavailable
from ..schema import literal
from ..values import dataclass

_Result = TypeVar("_Result")

_CLOSED = {"enable_external_access": "false", "autoinstall_known_extensions": "false"}
_local = threading.local()


def for_files() -> Any:
    """Return this thread's connection for writing rows as text; times are in UTC."""
    return _connection("writer", {}, "UTC")


def for_user_sql(time_zone: str = "UTC") -> Any:
    """Return this thread's connection for users' SQL, which can reach no file and no network."""
    return _connection("closed", _CLOSED, time_zone)


class Refused(Exception):
    """DuckDB refused a statement, because of its text or of the data. The environment is not to blame."""


def guarded(call: Callable[[], _Result]) -> _Result:
    """Call DuckDB for a user's statement. Raises `Refused` only if the statement or the data is to blame.

    Too little memory, a file or a connection that fails is `StoreUnavailable`, a bug of DuckDB is `InternalError`, and
    Ctrl-C is `KeyboardInterrupt`. After each of these, this thread opens new connections, because the old ones may
    still have an unfinished result.
    """
    import duckdb

    try:
        return call()
    except BaseException as error:
        if isinstance(error, _blamed(duckdb)) and not _is_of_connection(error):
            raise Refused(str(error)) from error
        _forget()
        if isinstance(error, duckdb.InterruptException) or "Query interrupted" in str(error):
            raise KeyboardInterrupt from error
        if isinstance(error, duckdb.OperationalError) or _is_of_connection(error):
            raise StoreUnavailable(
                f"run SQL in DuckDB: {_first_line(error)}", hint="free memory or file handles, then run again"
            ) from error
        if isinstance(error, duckdb.Error):
            raise InternalError(f"DuckDB failed: {_first_line(error)}") from error
        raise


def _blamed(duckdb: Any) -> tuple[type[Exception], ...]:
    return (
        duckdb.DataError,
        duckdb.ProgrammingError,
        duckdb.NotSupportedError,
        duckdb.IntegrityError,
        duckdb.PermissionException,
        duckdb.SequenceException,
    )


def _is_of_connection(error: BaseException) -> bool:
    """Whether DuckDB calls the state of the connection invalid input."""
    text = str(error)
    return "unfinished result" in text or "connection has been closed" in text.lower() or "Connection already" in text


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _forget() -> None:
    """Give up the connections of this thread."""
    opened: _Opened | None = getattr(_local, "opened", None)
    _local.opened = None
    for connection in () if opened is None or opened.process != os.getpid() else opened.connections.values():
        with contextlib.suppress(Exception):
            connection.close()


def query(connection: Any, text: str, **tables: pa.Table) -> pa.Table:
    """Return the result of one SELECT over the Arrow `tables`, which are registered by name for this call only."""
    for name, table in tables.items():
        connection.register(name, table)
    try:
        return connection.sql(text).to_arrow_table()
    finally:
        for name in tables:
            connection.unregister(name)


@dataclass
class _Opened:
    """The connections of a thread by kind and time zone, and the process that opened them."""

    process: int
    connections: dict[tuple[str, str], Any]


def _connection(kind: str, config: dict[str, str], time_zone: str) -> Any:
    opened: _Opened | None = getattr(_local, "opened", None)
    if opened is None or opened.process != os.getpid():  # a forked process must not use what its parent opened
        if opened is not None:
            _keep_forever(opened)
        opened = _local.opened = _Opened(os.getpid(), {})
    if (kind, time_zone) not in opened.connections:
        import duckdb

        connection = duckdb.connect(config={"threads": "1", "preserve_insertion_order": "true", **config})
        connection.execute("SET python_enable_replacements = false; SET arrow_output_version = '1.0'")
        connection.execute(f"SET TimeZone = {literal(time_zone)}")
        opened.connections[kind, time_zone] = connection
    return opened.connections[kind, time_zone]


def _keep_forever(opened: _Opened) -> None:
    """Never close connections of the parent process, not even at exit: closing joins threads that a fork lacks."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(opened))

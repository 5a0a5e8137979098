"""DuckDB connections: one a thread for reading files, and one closed to the outside for users' SQL.

INVARIANT: results keep the order of rows: one thread a connection.
"""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any

import duckdb
import pyarrow as pa

from ..schema import literal

_CLOSED = {"enable_external_access": "false", "autoinstall_known_extensions": "false"}
_FETCH = "to_arrow_table" if hasattr(duckdb.DuckDBPyConnection, "to_arrow_table") else "fetch_arrow_table"
"""DuckDB 2 has the one name, 1.3 the other."""
_local = threading.local()


def reader(time_zone: str = "UTC") -> Any:
    """This thread's connection for reading files; text without an offset is in `time_zone`."""
    return _in_zone(_connection("reader", {}), time_zone)


def closed(time_zone: str = "UTC") -> Any:
    """This thread's connection that reaches no file and no network, for SQL that a user wrote."""
    return _in_zone(_connection("closed", _CLOSED), time_zone)


def query(connection: Any, text: str, **tables: pa.Table) -> pa.Table:
    """The result of one SELECT over the Arrow `tables`, which are bound by name for this call only."""
    for name, table in tables.items():
        connection.register(name, table)
    try:
        with warnings.catch_warnings():
            # `sql` binds a statement twice, which small files notice; large ones do not notice the copy.
            warnings.filterwarnings("ignore", message="Arrow output on a DB-API result", category=UserWarning)
            return getattr(connection.execute(text), _FETCH)()
    finally:
        for name in tables:
            connection.unregister(name)


def _connection(kind: str, config: dict[str, str]) -> Any:
    process, found = getattr(_local, kind, (0, None))
    if process != os.getpid():  # a forked process must not use what its parent opened
        found = duckdb.connect(config={"threads": "1", "preserve_insertion_order": "true", **config})
        found.execute("SET python_enable_replacements = false; SET arrow_output_version = '1.0'")
        setattr(_local, kind, (os.getpid(), found))
    return found


def _in_zone(connection: Any, time_zone: str) -> Any:
    connection.execute(f"SET TimeZone = {literal(time_zone)}")
    return connection

"""DuckDB connections, one for each thread, time zone and use: reading files, or running users' SQL in a sandbox.

INVARIANT: results keep the order of rows, because each connection has one thread. INVARIANT: a connection keeps its
time zone, so the caller of one connection may call code that uses another.
"""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..schema import literal

_CLOSED = {"enable_external_access": "false", "autoinstall_known_extensions": "false"}
_WITH_OFFSET = r":.*(?:[A-Za-z]|[+-][0-9:]+)\s*$"
"""Matches the end of a time that names its offset from UTC."""
_local = threading.local()


def for_files(time_zone: str = "UTC") -> Any:
    """Return this thread's connection for reading files; times without an offset are in `time_zone`."""
    return _connection("reader", {}, time_zone)


def for_user_sql(time_zone: str = "UTC") -> Any:
    """Return this thread's connection for users' SQL, which can reach no file and no network."""
    return _connection("closed", _CLOSED, time_zone)


def error_type() -> type[Exception]:
    """Return the base class of DuckDB's errors. DuckDB is imported on first use, because most reads do not need it."""
    import duckdb

    kind: type[Exception] = duckdb.Error
    return kind


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
        connection.execute(f"SET TimeZone = {literal(time_zone)}; {_instants(time_zone)}")
        opened.connections[kind, time_zone] = connection
    return opened.connections[kind, time_zone]


def _keep_forever(opened: _Opened) -> None:
    """Never close connections of the parent process, not even at exit: closing joins threads that a fork lacks."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(opened))


def _instants(zone: str) -> str:
    """Return SQL for two macros: `instant_of_wall` converts a local time in `zone`, `instant_of_text` an ISO text.

    A local time that a zone has twice means the earlier instant, as in Spark and Python. DuckDB uses the later one.
    """
    if zone == "UTC":
        wall, text = "CAST(wall AS TIMESTAMPTZ)", "TRY_CAST(written AS TIMESTAMPTZ)"
    else:
        name = literal(zone)
        late = f"timezone({name}, wall)"
        offset = f"(timezone({name}, {late} - INTERVAL 1 DAY) - timezone('UTC', {late} - INTERVAL 1 DAY))"
        early = f"timezone('UTC', wall - {offset})"
        wall = f"coalesce(TRY(CASE WHEN timezone({name}, {early}) = wall THEN least({early}, {late}) END), {late})"
        text = (
            f"CASE WHEN regexp_matches(written, {literal(_WITH_OFFSET)}) THEN TRY_CAST(written AS TIMESTAMPTZ) "
            "ELSE instant_of_wall(TRY_CAST(written AS TIMESTAMP)) END"
        )
    return (
        f"CREATE OR REPLACE TEMP MACRO instant_of_wall(wall) AS {wall}; "
        f"CREATE OR REPLACE TEMP MACRO instant_of_text(written) AS {text}"
    )

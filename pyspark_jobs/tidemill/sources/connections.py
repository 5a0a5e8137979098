"""DuckDB connections of a thread and a time zone: one for reading files, one closed to the outside for users' SQL.

INVARIANT: results keep the order of rows: one thread a connection. INVARIANT: a connection keeps its time zone, so that
whoever holds one may call what asks for another.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from ..schema import literal

_CLOSED = {"enable_external_access": "false", "autoinstall_known_extensions": "false"}
_WITH_OFFSET = r":.*(?:[A-Za-z]|[+-][0-9:]+)\s*$"
"""What follows the time of a text that says how far from UTC it is."""
_local = threading.local()


def for_files(time_zone: str = "UTC") -> Any:
    """This thread's connection for reading files; text without an offset is in `time_zone`."""
    return _connection("reader", {}, time_zone)


def for_user_sql(time_zone: str = "UTC") -> Any:
    """This thread's connection that reaches no file and no network, for SQL that a user wrote."""
    return _connection("closed", _CLOSED, time_zone)


def query(connection: Any, text: str, **tables: pa.Table) -> pa.Table:
    """The result of one SELECT over the Arrow `tables`, which are bound by name for this call only."""
    for name, table in tables.items():
        connection.register(name, table)
    try:
        return connection.sql(text).to_arrow_table()
    finally:
        for name in tables:
            connection.unregister(name)


@dataclass
class _Opened:
    """The connections of a thread, by kind and time zone, and whose process they are."""

    process: int
    connections: dict[tuple[str, str], Any]


def _connection(kind: str, config: dict[str, str], time_zone: str) -> Any:
    opened: _Opened | None = getattr(_local, "opened", None)
    if opened is None or opened.process != os.getpid():  # a forked process must not use what its parent opened
        opened = _local.opened = _Opened(os.getpid(), {})
    if (kind, time_zone) not in opened.connections:
        connection = duckdb.connect(config={"threads": "1", "preserve_insertion_order": "true", **config})
        connection.execute("SET python_enable_replacements = false; SET arrow_output_version = '1.0'")
        connection.execute(f"SET TimeZone = {literal(time_zone)}; {_instants(time_zone)}")
        opened.connections[kind, time_zone] = connection
    return opened.connections[kind, time_zone]


def _instants(zone: str) -> str:
    """SQL: two macros, `instant_of_wall` of a clock's reading in `zone`, and `instant_of_text` of an ISO text.

    A reading that a zone shows twice is the earlier instant, as in Spark and Python; DuckDB takes the later one.
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

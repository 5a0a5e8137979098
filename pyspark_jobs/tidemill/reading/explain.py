"""`explain`: the graph of a pipeline, or the history of one key, as text for people."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from ..counts import count_of
from ..errors import InvalidInput
from ..pipeline.graph_text import graph_lines
from ..repo.opened import Opened
from ..repo.recorded import refuse_without_code
from ..units import iso, time_text
from .history import KeyVersion, history

_MOST_ROWS = 5
"""How many rows of a key are shown for a version."""


def explain(repo: Opened, operator: str | None, key: Any, has_key: bool) -> list[str]:
    """Return the lines of an explanation: the graph, or with a key how its state came about."""
    if not has_key:
        refuse_without_code(repo, "explain: the graph of a pipeline")
        return graph_lines(repo.job, operator)
    only = next(iter(repo.operators)) if len(repo.operators) == 1 else None
    if operator is None and only is None:
        raise InvalidInput(
            f"explain: the pipeline has {len(repo.operators)} operators, expected the one that has the key",
            hint=f"add operator=… or --operator: {', '.join(f'`{name}`' for name in sorted(repo.operators))}",
        )
    name = operator if operator is not None else str(only)
    versions = history(repo, name, key)
    return [f"operator `{name}`, key {_shown(key)}: {count_of(len(versions), 'change')}", *reported(versions)]


def plain(value: Any) -> Any:
    """Return a value as JSON has it: times are ISO 8601, bytes hexadecimal, and other types text."""
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _shown(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False)


def reported(versions: Sequence[KeyVersion], with_rows: bool = True) -> Iterator[str]:
    """Yield lines that say what changed a key, and why. `with_rows`: read the input files again."""
    for one in versions:
        when = "" if one.batch_time_ms is None else f", batch time {iso(one.batch_time_ms)}"
        value = "removed" if one.value is None else _shown(one.value)
        yield f"version {one.label} ({one.kind}{when}): {value}"
        if one.is_oldest:
            yield "  older versions are not kept; the value may be older than this version"
        if one.reason:
            yield f"  reason: {one.reason}"
        yield from (f"  fired: {iso(deadline)}" for deadline in (one.fired if with_rows else ()))
        yield from _files(one)
        yield from _rows(one) if with_rows else ()
        yield from (f"  function {name}: {_digests(found)}" for name, found in one.code.get("functions", {}).items())
        if one.airflow:
            yield "  Airflow: " + ", ".join(f"{name} {value}" for name, value in one.airflow.items())


def _files(one: KeyVersion) -> Iterator[str]:
    files = one.files_in_words
    if files:
        names = ", ".join(files[:_MOST_ROWS])
        rest = len(files) - _MOST_ROWS
        yield f"  files: {names}" + (f" and {rest:,} more" if rest > 0 else "")


def _rows(one: KeyVersion) -> Iterator[str]:
    for row in one.rows[:_MOST_ROWS]:
        yield f"  row {_shown(row)}"
    if len(one.rows) > _MOST_ROWS:
        yield f"  and {count_of(len(one.rows) - _MOST_ROWS, 'more row', 'more rows')}"
    yield from (f"  not read: {why}" for why in one.unread)


def _digests(found: Any) -> str:
    return ", ".join(f"{one['name']} {one['digest'][:12]}" for one in found)

"""Sinks as Airflow assets: their names, and the events of a task that committed something for them.

An asset has a name that can be written down without the pipeline: `tidemill://NAME/SINK`. INVARIANT: a task that
changed no sink makes no event. Events are hints: a run that failed for good makes none, and the `last_version` of the
next event covers what it left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset, AssetAlias

from ...errors import InvalidInput


def sink_asset(name: str, sink: str) -> Asset:
    """Return the asset of a sink, for the schedule of another DAG. It equals `Asset("tidemill://NAME/SINK")`.

    - `name`: the name of the DAG that `tidemill_dags` made, or the `assets` of an operator.
    - `sink`: the name of the sink, which is that of its last operator unless the pipeline names it.
    """
    return Asset(f"tidemill://{_checked('name', name)}/{_checked('sink', sink)}")


def alias_of(name: str) -> AssetAlias:
    """Return the alias of all sinks of a pipeline. A DAG that is scheduled on it runs after a change of any of them."""
    return AssetAlias(f"tidemill:{_checked('name', name)}")


def announce(events: Any, name: str, result: Mapping[str, Any]) -> list[str]:
    """Add an event for each sink in the result of a command to the outlet events of a task. Return the assets' names.

    The `extra` of an event has `first_version`, `last_version`, `rows`, `path` of the sink, `pipeline`, `branch` and
    `watermarks`.
    """
    sinks = result.get("sinks") or {}
    shared = {key: result.get(key) for key in ("pipeline", "branch", "watermarks")}
    for sink, change in sinks.items():
        events[alias_of(name)].add(sink_asset(name, sink), extra={**change, **shared})
    return [f"tidemill://{name}/{sink}" for sink in sinks]


def _checked(what: str, text: object) -> object:
    """Return a part of an address. Raise `InvalidInput` if it cannot be one."""
    if not isinstance(text, str) or not text or set(text) & set("/?#@ "):
        raise InvalidInput(
            f"the asset of a sink got the {what} {text!r}: expected a name without `/`, `?`, `#`, `@` and spaces"
        )
    return text

"""Minimal valid records for tests of the protocol. A test replaces the fields that it is about."""

from __future__ import annotations

import dataclasses
from typing import Any

from tidemill.protocol.records import HASH_END, Added, Commit, Counts, Init, Plan, Receipt, Segment, Split


def segment(name: str = "s", lo: int = 0, hi: int = HASH_END, version: int = 0, **more: Any) -> Segment:
    """Return a segment. Its checksum, size and rows depend only on the name and the version."""
    made = Segment(name, f"checksum of {name}", 100, 10, lo, hi, version)
    return dataclasses.replace(made, **more)


def init(**more: Any) -> Init:
    return dataclasses.replace(Init("retail", "uuid-1", 1_000), **more)


def operator(*maps: str, **more: Any) -> dict[str, Any]:
    """Return the description of an operator with these maps."""
    columns = {"key": "k string", "sub_key": "", "value": "n bigint"}
    made = {
        "kind": "aggregate",
        "key": ["k"],
        "maps": dict.fromkeys(maps, columns),
        "output": "k string",
        "rules": {},
    }
    return {**made, **more}


def added(name: str) -> Added:
    return Added({name: operator("state")}, 2_000)


def plan(number: int = 0, **more: Any) -> Plan:
    made = Plan(number, "batch", f"plan-{number}", "main", 5_000, (), 1000, 4_000)
    return dataclasses.replace(made, **more)


def split(path: str = "a.csv", **more: Any) -> Split:
    return dataclasses.replace(Split("source", path, "etag", 10, 1_000), **more)


def receipt(lo: int = 0, hi: int = HASH_END, level: int = 0, **more: Any) -> Receipt:
    made = Receipt(level, lo, hi, {}, {}, {}, [], {}, {}, {})
    return dataclasses.replace(made, **more)


def commit(version: int = 0, attempt: str = "try-1", **more: Any) -> Commit:
    made = Commit(
        version=version,
        kind="batch",
        attempt=attempt,
        plan_id=f"plan-{version}",
        branch="main",
        pipeline_uuid="uuid-1",
        batch_time_ms=5_000,
        watermarks={},
        event_time={},
        state={},
        ledger=[],
        outputs={},
        quarantine=[],
        counts=Counts(),
        operators={},
        schemas={},
        sinks={},
        code={},
        next_deadline={},
        published_through=-1,
        committed_ms=6_000,
    )
    return dataclasses.replace(made, **more)

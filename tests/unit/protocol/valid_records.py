"""Minimal valid records for tests of the protocol. A test replaces the fields that it is about."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tidemill.protocol.bases import lay
from tidemill.protocol.codec import checksum_of, encode
from tidemill.protocol.entries import Init, Operators
from tidemill.protocol.records import HASH_END, Commit, Counts, Parent, Plan, Receipt, Segment, Split, digest
from tidemill.protocol.refs import BaseOf, Refs
from tidemill.protocol.refs_log import position

START = Parent("", -1, "checksum of init")


def segment(name: str = "s", lo: int = 0, hi: int = HASH_END, version: int = 0, **more: Any) -> Segment:
    """Return a segment. Its checksum, size and rows depend only on the name and the version."""
    made = Segment(name, f"checksum of {name}", 100, 10, lo, hi, version + 1, version)
    return dataclasses.replace(made, **more)


def laid(live: list[Segment], base: BaseOf) -> list[Segment]:
    """Return the live segments of the map of a base, with the base in the place of its inputs where that is valid."""
    return lay({base.operator: {base.map: live}}, [base], {})[base.operator][base.map]


def init(**more: Any) -> Init:
    made = Init(
        number=0, parent="", uuid="uuid-1", attempt="try-1", created_ms=1_000, pipeline="retail", root="memory://r"
    )
    return dataclasses.replace(made, **more)


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


def added(refs: Refs, *operators: str, **more: Any) -> Operators:
    """Return the entry that follows `refs` and adds operators."""
    schemas = {name: operator("state") for name in operators}
    return Operators(**{**position(refs, 2_000), "schemas": schemas, **more})


def parent(number: int) -> Parent:
    """Return the parent of a plan or commit with this number."""
    return START if number == 0 else Parent("main", number - 1, f"checksum of {number - 1}")


def plan(number: int = 0, **more: Any) -> Plan:
    made = Plan(number, "batch", f"plan-{number}", "main", "uuid-1", parent(number), 5_000, (), 1000, 4_000)
    return dataclasses.replace(made, **more)


def split(path: str = "a.csv", **more: Any) -> Split:
    return dataclasses.replace(Split("source", path, "etag", 10, 1_000), **more)


def receipt(lo: int = 0, hi: int = HASH_END, level: int = 0, **more: Any) -> Receipt:
    made = Receipt(level, lo, hi, {}, {}, {}, {}, [], {}, {}, {})
    return dataclasses.replace(made, **more)


def commits(count: int, attempt: str = "try-1") -> list[Commit]:
    """Return the first commits of `main`, each with the checksum of the one before as its parent's."""
    made: list[Commit] = []
    for version in range(count):
        found = commit(version, attempt, **({"parent": made[-1].as_parent} if made else {}))
        made.append(dataclasses.replace(found, checksum=checksum_of(encode(found))))
    return made


def sealed(raw: dict[str, Any]) -> bytes:
    """Return the bytes of a record's JSON with a valid checksum, for records that a test changes."""
    body = json.dumps({name: value for name, value in raw.items() if name != "checksum"}).encode()[:-1]
    return body + f',"checksum":"{digest(body)}"}}'.encode()


def commit(version: int = 0, attempt: str = "try-1", **more: Any) -> Commit:
    made = Commit(
        version=version,
        kind="batch",
        attempt=attempt,
        plan_id=f"plan-{version}",
        branch="main",
        pipeline_uuid="uuid-1",
        parent=parent(version),
        refs_through=0,
        refs_checksum="checksum of init",
        batch_time_ms=5_000,
        watermarks={},
        event_time={},
        state={},
        rows={},
        ledger=[],
        outputs={},
        quarantine=[],
        counts=Counts(),
        operators={},
        schemas={},
        sinks={},
        sources={},
        code={},
        next_deadline={},
        published_through=-1,
        committed_ms=6_000,
    )
    return dataclasses.replace(made, **more)

"""`unionByName`: two streams as one. Checks names and types, and combines the event times.

INVARIANT: either both streams have the same event time column and the same rule for late rows, or neither has an event
time. Otherwise a row would be late or not depending on the stream that it came from.
"""

from __future__ import annotations

import pyarrow as pa

from ..errors import InvalidInput
from ..schema import to_ddl, type_ddl
from .graph import Graph
from .nodes import EventTime, Node, Union


def union(pipeline: Graph, left: Node, other: Graph, right: Node, missing: bool) -> Union:
    """Return the union node, or raise `InvalidInput` if the streams cannot be united."""
    if other is not pipeline:
        raise InvalidInput(
            f"unionByName: the streams belong to two pipelines, `{pipeline.name}` and `{other.name}`",
            hint="read both sources in one pipeline: p.read(…, name=…)",
        )
    return Union(_columns(left.schema, right.schema, missing), _event_time(left, right), parents=(left, right))


def _columns(left: pa.Schema, right: pa.Schema, missing: bool) -> pa.Schema:
    faults = []
    for field in left:
        if field.name in right.names and right.field(field.name).type != field.type:
            there = type_ddl(right.field(field.name).type)
            faults.append(f"column `{field.name}` is {type_ddl(field.type)} in one and {there} in the other")
    if not missing:
        faults += [f"column `{name}` is only in the first" for name in left.names if name not in right.names]
        faults += [f"column `{name}` is only in the second" for name in right.names if name not in left.names]
    if faults:
        raise InvalidInput(
            f"unionByName: {'; '.join(faults)} (found `{to_ddl(left)}` and `{to_ddl(right)}`)",
            hint="cast or rename with .sql; for missing columns use allowMissingColumns=True",
        )
    both = [
        field.with_nullable(field.name not in right.names or field.nullable or right.field(field.name).nullable)
        for field in left
    ]
    return pa.schema([*both, *(field.with_nullable(True) for field in right if field.name not in left.names)])


def _event_time(left: Node, right: Node) -> EventTime | None:
    one, other = left.event_time, right.event_time
    if one is None and other is None:
        return None
    both = [name for name in one.names if name in other.names] if one and other and one.late == other.late else []
    if not (one and both):
        raise InvalidInput(
            f"unionByName: one stream has {_shown(one)}, the other {_shown(other)}",
            hint="give both streams the same column and `late`, or set the watermark on the union only",
        )
    return one.among(both)


def _shown(event_time: EventTime | None) -> str:
    if event_time is None:
        return "no watermark"
    return f'a watermark on {" = ".join(f"`{name}`" for name in event_time.names)} (late="{event_time.late}")'

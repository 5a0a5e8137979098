"""The graph that a user's calls build: immutable nodes, each knowing its parent, its columns and its event time.

No checks of operators and no execution here; a node is never changed once it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from ..operators.contract import BoundOperator, Late
from ..sources.contract import Step


@dataclass(frozen=True)
class EventTime:
    """The watermark that a stream carries: of which node, over which column, and what happens to late rows."""

    watermark: str
    column: str
    late: Late
    also: tuple[str, ...] = ()
    """Other columns that are the same, because `.sql` has given it several names."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are the event time, the first one first."""
        return self.column, *self.also

    def among(self, names: Iterable[str]) -> EventTime | None:
        """The same under these names; None where there are none."""
        found = tuple(names)
        return replace(self, column=found[0], also=found[1:]) if found else None


@dataclass(frozen=True, eq=False)
class Node:
    """One stream: what it is made from, its columns, and its event time where it still has that column.

    `windows`: the columns that hold windows as an operator emitted them. Their type alone does not tell: a user's
    function may make such a struct. Spark: `spark.timeWindow` in the metadata of the column.
    """

    schema: pa.Schema
    event_time: EventTime | None
    windows: frozenset[str] = field(kw_only=True, default=frozenset())


@dataclass(frozen=True, eq=False)
class Read(Node):
    """The rows of a source."""

    source: str = ""


@dataclass(frozen=True, eq=False)
class Stateless(Node):
    """A stateless step over its parent."""

    parent: Node = field(kw_only=True)
    step: Step = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Watermark(Node):
    """Its parent, with the greatest event time observed on the way."""

    parent: Node = field(kw_only=True)
    name: str = field(kw_only=True)
    column: str = field(kw_only=True)
    delay_ms: int = field(kw_only=True)
    idle_ms: int | None = field(kw_only=True, default=None)

    def is_as(self, other: Watermark) -> bool:
        """Whether both are the same watermark of the same stream, written twice."""
        rule = (self.name, self.event_time, self.delay_ms, self.idle_ms)
        return self.parent is other.parent and rule == (other.name, other.event_time, other.delay_ms, other.idle_ms)


@dataclass(frozen=True, eq=False)
class Keyed(Node):
    """The output of a keyed operator over its parent."""

    parent: Node = field(kw_only=True)
    operator: BoundOperator = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Union(Node):
    """The rows of several streams as one, by name; none of them comes from an operator."""

    parents: tuple[Node, ...] = field(kw_only=True)


@dataclass(frozen=True)
class Write:
    """A sink at the end of a stream; `sink` None keeps the rows in the repository."""

    name: str
    node: Node
    sink: Any


def parent_of(node: Node) -> Node | None:
    """The node that `node` is made from; None for a source and for a union."""
    return None if isinstance(node, Read) else getattr(node, "parent", None)


def parents_of(node: Node) -> tuple[Node, ...]:
    """The nodes that `node` is made from."""
    if isinstance(node, Union):
        return node.parents
    parent = parent_of(node)
    return () if parent is None else (parent,)


def watermarks_of(node: Node) -> tuple[str, ...]:
    """The watermarks that a node's rows have passed last, by name; none where they have passed none."""
    if isinstance(node, Watermark):
        return (node.name,)
    return tuple(dict.fromkeys(name for parent in parents_of(node) for name in watermarks_of(parent)))


def nearest_operator(node: Node) -> Keyed | None:
    """The keyed operator that a node's rows come from, None for rows of a source."""
    current: Node | None = node
    while current is not None and not isinstance(current, Keyed):
        current = parent_of(current)
    return current

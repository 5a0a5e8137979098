"""The nodes of the graph that a user's calls build. Each knows its parents, its columns and its event time.

Nothing is checked or run here. INVARIANT: a node never changes, so streams can share it. Whatever walks the graph asks
`parents_of`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any

import pyarrow as pa

from ..operators.contract import BoundOperator, Late
from ..sources.contract import StatelessStep
from ..values import dataclass


@dataclass(frozen=True)
class EventTime:
    """The event time of a stream: its watermark, its column, and what happens to late rows."""

    watermark: str
    column: str
    late: Late
    also: tuple[str, ...] = ()
    """Other names of the same column, which `.sql` can give it."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are the event time. `column` comes first."""
        return self.column, *self.also

    def among(self, names: Iterable[str]) -> EventTime | None:
        """Return the event time under these names, or None if there are no names."""
        found = tuple(names)
        return replace(self, column=found[0], also=found[1:]) if found else None


@dataclass(frozen=True, eq=False)
class Node:
    """One stream: its columns, and its event time if it still has that column.

    `windows` are the columns with windows that an operator emitted. The type alone does not decide, because a user's
    function may return such a struct. Spark: `spark.timeWindow` in the metadata of the column.
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
    step: StatelessStep = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Watermark(Node):
    """Its parent's rows. Their greatest event time moves the watermark."""

    parent: Node = field(kw_only=True)
    name: str = field(kw_only=True)
    """`<source>.<column>`, or `<operator>.<column>`; of a second delay with `#2`."""
    column: str = field(kw_only=True)
    delay_ms: int = field(kw_only=True)
    delay: str = field(kw_only=True)
    """The delay as it was written."""
    idle_ms: int | None = field(kw_only=True, default=None)
    max_ahead_ms: int | None = field(kw_only=True, default=None)

    def is_as(self, other: Watermark) -> bool:
        """Whether both are the same watermark on the same stream, declared twice."""
        rule = (self.column, self.late, self.delay_ms, self.idle_ms, self.max_ahead_ms)
        return self.parent is other.parent and rule == (
            other.column, other.late, other.delay_ms, other.idle_ms, other.max_ahead_ms
        )  # fmt: skip

    @property
    def late(self) -> Late:
        """What happens to late rows."""
        assert self.event_time is not None
        return self.event_time.late


@dataclass(frozen=True, eq=False)
class Keyed(Node):
    """The output of a keyed operator over its parents, one for each of its inputs."""

    parents: tuple[Node, ...] = field(kw_only=True)
    operator: BoundOperator = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Union(Node):
    """The rows of several streams as one, by column name."""

    parents: tuple[Node, ...] = field(kw_only=True)


@dataclass(frozen=True)
class Write:
    """A sink at the end of a stream. If `sink` is None, the rows stay in the repository."""

    name: str
    node: Node
    sink: Any


def parents_of(node: Node) -> tuple[Node, ...]:
    """Return all parents of a node. Those of an operator are in the order of its inputs."""
    match node:
        case Stateless() | Watermark():
            return (node.parent,)
        case Union() | Keyed():
            return node.parents
    return ()


def watermarks_of(node: Node) -> tuple[str, ...]:
    """Return the names of the last watermarks that a node's rows passed. A union may have several."""
    if isinstance(node, Watermark):
        return (node.name,)
    return tuple(dict.fromkeys(name for parent in parents_of(node) for name in watermarks_of(parent)))


def is_declared_here(node: Node) -> bool:
    """Whether the rows of a node passed a watermark since they were read or emitted."""
    if isinstance(node, Keyed):
        return False
    return isinstance(node, Watermark) or any(is_declared_here(parent) for parent in parents_of(node))


def operators_above(node: Node) -> tuple[Keyed, ...]:
    """Return the keyed operators whose outputs reach a node through stateless steps. The node may be one itself."""
    if isinstance(node, Keyed):
        return (node,)
    return tuple(dict.fromkeys(found for parent in parents_of(node) for found in operators_above(parent)))


def nearest_operator(node: Node) -> Keyed | None:
    """Return the nearest upstream keyed operator, or None if the rows come from a source."""
    if isinstance(node, Keyed):
        return node
    return next((found for parent in parents_of(node) if (found := nearest_operator(parent)) is not None), None)

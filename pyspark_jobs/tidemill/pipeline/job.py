"""`Job`: a compiled pipeline with numbered nodes, operators by level, and sinks. It is sent to the workers.

INVARIANT: a job is a pure function of the pipeline, so the same code gives the same numbers on every machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from .. import names
from ..errors import InvalidInput
from ..operators.contract import BoundOperator, Input
from ..sinks.contract import Sink
from ..sources.contract import Source, StatelessStep
from ..values import dataclass
from .graph import Graph
from .nodes import (
    Keyed,
    Node,
    Read,
    Stateless,
    Union,
    Watermark,
    operators_above,
    parents_of,
    watermarks_of,
)


@dataclass(frozen=True)
class JobNode:
    """One node. At most one of source, step, watermark and operator is set; a union has none. `parents` are numbers."""

    number: int
    parents: tuple[int, ...]
    schema: pa.Schema
    source: str | None = None
    step: StatelessStep | None = None
    watermark: str | None = None
    operator: str | None = None


@dataclass(frozen=True)
class WatermarkRule:
    """A watermark: its column, and how it moves. See `protocol.time.after_batch`."""

    name: str
    column: str
    delay_ms: int
    idle_ms: int | None = None
    max_ahead_ms: int | None = None
    """How far event times may be after the batch time. Rows beyond that are quarantined; None: no limit."""
    peers: tuple[str, ...] = ()
    delay: str = ""
    """The delay as the pipeline's code has it."""


@dataclass(frozen=True)
class Port:
    """An input of an operator in the job: its number, and the watermarks of its rows. The least of them counts."""

    operator: BoundOperator
    number: int
    watermarks: tuple[str, ...] = ()
    carries_places: bool = False
    """Whether its rows are sent with their places in the plan."""
    sorts: bool = False
    """Whether its rows are put into the order of the plan, because operators emitted some of them."""

    @property
    def input(self) -> Input:
        """The input that the operator declares."""
        return self.operator.inputs[self.number]

    @property
    def label(self) -> str:
        """The name of the operator, and with several inputs that of this one, such as `pairs.right`."""
        return names.input_label(self.operator.name, self.input.port)

    def least(self, watermarks: Mapping[str, int]) -> int | None:
        """Return the least of `watermarks` over this input, or None if it has no watermark."""
        return _least(watermarks, self.watermarks)


@dataclass(frozen=True)
class Placed:
    """An operator in the job, its node and its level: 1 + the greatest of the operators upstream of it, or 0."""

    operator: BoundOperator
    node: int
    level: int
    ports: tuple[Port, ...]
    """Its inputs, by their numbers."""
    keeps_origins: bool = False
    """Whether an operator behind it needs the places of what it emits."""
    may_keep_order: bool = False
    """Whether it may emit in the order of its input: no sink follows, and no two rows of its input have one place."""

    @property
    def watermarks(self) -> tuple[str, ...]:
        """The watermarks of all inputs. The least of them counts for timeouts and for what ends."""
        return tuple(dict.fromkeys(name for port in self.ports for name in port.watermarks))

    def least(self, watermarks: Mapping[str, int]) -> int | None:
        """Return the least of `watermarks` over all inputs, or None if none of them has a watermark."""
        return _least(watermarks, self.watermarks)


def _least(watermarks: Mapping[str, int], of: Iterable[str]) -> int | None:
    return min((watermarks.get(name, 0) for name in of), default=None)


@dataclass(frozen=True)
class _Child:
    """A node that another one feeds, as the parent with the number `place`."""

    node: JobNode
    place: int


@dataclass(frozen=True)
class JobSink:
    """A sink in the job. If `sink` is None, the rows stay in the repository as Parquet."""

    name: str
    node: int
    sink: Sink | None
    schema: pa.Schema


@dataclass(frozen=True)
class Job:
    """Everything that a worker must know about a pipeline."""

    pipeline: str
    time_zone: str
    sources: Mapping[str, Source]
    nodes: tuple[JobNode, ...]
    watermarks: dict[str, WatermarkRule]
    operators: dict[str, Placed]
    outputs: dict[str, JobSink]
    metadata: bool = False

    @property
    def levels(self) -> int:
        """How many exchanges deep the job is; at least 1, because apply tasks write sinks and quarantine."""
        return max((placed.level + 1 for placed in self.operators.values()), default=1)

    def children(self, node: int) -> list[_Child]:
        """Return what a node feeds, by number. The union of a stream with itself appears twice."""
        found = ((one, place, parent) for one in self.nodes for place, parent in enumerate(one.parents))
        return [_Child(one, place) for one, place, parent in found if parent == node]

    def outputs_of(self, node: int) -> list[JobSink]:
        """Return the sinks at a node."""
        return [output for output in self.outputs.values() if output.node == node]

    def feeds_sink(self, node: int) -> bool:
        """Whether rows of a node reach a sink without passing an operator."""
        return bool(self.outputs_of(node)) or any(
            child.node.operator is None and self.feeds_sink(child.node.number) for child in self.children(node)
        )

    def reads(self, node: int) -> frozenset[str] | None:
        """Return the columns of a node that its downstream nodes read. None means all columns, or unknown."""
        if self.outputs_of(node):
            return None
        found: frozenset[str] = frozenset()
        for child in self.children(node):
            below = self._reads_of(child)
            if below is None:
                return None
            found |= below
        return found

    def _reads_of(self, child: _Child) -> frozenset[str] | None:
        node = child.node
        if node.operator is not None:
            port = self.operators[node.operator].ports[child.place]
            # late rows are quarantined with all columns
            return None if port.input.late == "quarantine" else port.operator.reads(port.number)
        if node.watermark is None:
            return None
        rule, below = self.watermarks.get(node.watermark), self.reads(node.number)
        if rule is not None and rule.max_ahead_ms is not None:
            return None  # rows that are too far ahead are quarantined with all columns
        return below if rule is None or below is None else below | {rule.column}

    def at_level(self, level: int) -> list[Placed]:
        """Return the operators that a level applies, by number."""
        return [placed for placed in self.operators.values() if placed.level == level]

    def port(self, label: str) -> Port | None:
        """Return the input with a label such as `pairs.right`, or None if the job has no such input."""
        placed = self.operators.get(names.operator_of(label))
        return None if placed is None else next((port for port in placed.ports if port.label == label), None)

    def upstream(self, operator: str) -> list[str]:
        """Return the operators whose outputs an operator reads, directly or through stateless steps, by name."""
        return sorted(self.operators_above(*self._parents(operator)))

    def upstream_of(self, port: Port) -> list[str]:
        """Return the operators whose outputs one input reads, directly or through stateless steps, by name."""
        return sorted(self.operators_above(self._parents(port.operator.name)[port.number]))

    def sources_of(self, operator: str) -> set[str]:
        """Return the sources whose rows an operator reads, directly or through stateless steps."""
        return {one.source for one in self._ends_above(self._parents(operator)) if one.source is not None}

    def has_one_row_a_place(self, operator: str) -> bool:
        """Whether each row of the plan reaches an operator once at most, and nothing but rows of the plan does."""
        ends = list(self._ends_above(self._parents(operator)))
        sources = [one.source for one in ends if one.source is not None]
        return len(sources) == len(ends) == len(set(sources))

    def operators_above(self, *nodes: int) -> set[str]:
        """Return the operators whose outputs reach some nodes through stateless steps. A node may be one itself."""
        return {one.operator for one in self._ends_above(nodes) if one.operator is not None}

    def nodes_above(self, nodes: Iterable[int]) -> set[int]:
        """Return nodes and all those that feed them, also beyond operators."""
        by_number, found, waiting = {one.number: one for one in self.nodes}, set[int](), list(nodes)
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                waiting.extend(by_number[number].parents)
        return found

    def _parents(self, operator: str) -> tuple[int, ...]:
        number = self.operators[operator].node
        return next(node.parents for node in self.nodes if node.number == number)

    def _ends_above(self, nodes: Iterable[int]) -> Iterator[JobNode]:
        """Yield the sources and the operators whose rows reach some nodes through stateless steps."""
        by_number, waiting = {one.number: one for one in self.nodes}, list(nodes)
        while waiting:
            node = by_number[waiting.pop()]
            if node.operator is not None or node.source is not None:
                yield node
            waiting.extend(node.parents if node.operator is None else ())

    def roots(self, source: str) -> list[JobNode]:
        """Return the nodes that read a source."""
        return [node for node in self.nodes if node.source == source]

    @property
    def uses_event_time(self) -> bool:
        """Whether the deadlines of some operator use event time."""
        return any(placed.operator.clock == "event" for placed in self.operators.values())

    @property
    def ranges(self) -> int | None:
        """The greatest number of key ranges that an operator asks for, or None if no operator asks."""
        return max((r for placed in self.operators.values() if (r := placed.operator.ranges) is not None), default=None)

    @property
    def makes_frames(self) -> bool:
        """Whether some operator makes pandas frames for each key."""
        return any(placed.operator.makes_frames for placed in self.operators.values())

    @property
    def functions(self) -> dict[str, tuple[Callable[..., Any], ...]]:
        """The user's functions, by operator name, and by `step <n>` for steps with a function."""
        found = {name: placed.operator.functions for name, placed in self.operators.items()}
        for node in self.nodes:
            if node.step is not None:
                found[f"step {node.number}"] = node.step.functions
        return {name: functions for name, functions in found.items() if functions}


def compile_job(pipeline: Graph) -> Job:
    """Return the job of a pipeline. `InvalidInput` is raised if it has no source, or neither operator nor sink."""
    if not pipeline.sources:
        raise InvalidInput(f"pipeline `{pipeline.name}` has no source", hint="add one with p.read(…)")
    if not pipeline.operators and not pipeline.sinks:
        raise InvalidInput(
            f"pipeline `{pipeline.name}` has neither an operator nor a sink",
            hint="add one, such as .groupBy(…).agg(…) or .write(…)",
        )
    numbers = _numbered(pipeline)
    operators = _placed(pipeline, numbers)
    nodes = tuple(_job_node(node, number, numbers) for node, number in numbers.items())
    job = Job(
        pipeline=pipeline.name,
        time_zone=pipeline.timeZone,
        sources=dict(pipeline.sources),
        nodes=nodes,
        watermarks=_watermarks(pipeline, numbers, operators),
        operators=operators,
        outputs=_outputs(pipeline, numbers),
        metadata=any(node.step is not None and node.step.needs_metadata for node in nodes),
    )
    return dataclasses.replace(job, operators=_with_places(job))


def _with_places(job: Job) -> dict[str, Placed]:
    """Return the operators, with what each of them does with the places of rows.

    An operator needs places if its result depends on the order of rows that operators emitted, or if it emits rows for
    rows and an operator behind it needs them.
    """
    found: dict[str, Placed] = {}
    for placed in sorted(job.operators.values(), key=lambda one: one.level, reverse=True):
        operator = placed.operator
        behind = [port for one in found.values() for port in one.ports if operator.name in job.upstream_of(port)]
        keeps = any(port.carries_places for port in behind)
        passes_on = keeps and operator.emits_for_rows
        sorts = [operator.order_matters and bool(job.upstream_of(port)) for port in placed.ports]
        ports = (
            dataclasses.replace(port, carries_places=passes_on or is_sorted, sorts=is_sorted)
            for port, is_sorted in zip(placed.ports, sorts, strict=True)
        )
        may_keep = not job.feeds_sink(placed.node) and job.has_one_row_a_place(operator.name)
        found[operator.name] = dataclasses.replace(
            placed, ports=tuple(ports), keeps_origins=keeps, may_keep_order=may_keep
        )
    return {name: found[name] for name in job.operators}


def _numbered(pipeline: Graph) -> dict[Node, int]:
    """Return the nodes upstream of an operator or a sink, parents first."""
    numbers: dict[Node, int] = {}

    def visit(node: Node) -> None:
        if node not in numbers:
            for parent in parents_of(node):
                visit(parent)
            numbers[node] = len(numbers)

    for keyed in pipeline.operators.values():
        visit(keyed)
    for write in pipeline.sinks.values():
        visit(write.node)
    return numbers


def _job_node(node: Node, number: int, numbers: dict[Node, int]) -> JobNode:
    made = JobNode(number, tuple(numbers[parent] for parent in parents_of(node)), node.schema)
    match node:
        case Read():
            return dataclasses.replace(made, source=node.source)
        case Stateless():
            return dataclasses.replace(made, step=node.step)
        case Watermark():
            return dataclasses.replace(made, watermark=node.name)
        case Keyed():
            return dataclasses.replace(made, operator=node.operator.name)
        case Union():
            return made
    raise TypeError(f"unknown node {node!r}")


def _placed(pipeline: Graph, numbers: dict[Node, int]) -> dict[str, Placed]:
    levels: dict[Node, int] = {}
    placed: dict[str, Placed] = {}
    for name, keyed in pipeline.operators.items():
        level = 1 + max((levels[one] for parent in parents_of(keyed) for one in operators_above(parent)), default=-1)
        ports = (Port(keyed.operator, at, watermarks_of(parent)) for at, parent in enumerate(parents_of(keyed)))
        levels[keyed] = level
        placed[name] = Placed(keyed.operator, numbers[keyed], level, tuple(ports))
    return placed


def _watermarks(pipeline: Graph, numbers: dict[Node, int], operators: dict[str, Placed]) -> dict[str, WatermarkRule]:
    """Return the watermarks that count: those of sources, and those between two operators.

    Watermarks that the input of one operator combines are peers.
    """
    used = [placed.watermarks for placed in operators.values()]

    def peers(name: str) -> tuple[str, ...]:
        together = (other for names in used if name in names for other in names if other != name)
        return tuple(dict.fromkeys(together))

    return {
        name: WatermarkRule(name, node.column, node.delay_ms, node.idle_ms, node.max_ahead_ms, peers(name), node.delay)
        for name, node in pipeline.watermarks.items()
        if node in numbers and (not operators_above(node) or any(name in names for names in used))
    }


def _outputs(pipeline: Graph, numbers: dict[Node, int]) -> dict[str, JobSink]:
    outputs = {
        write.name: JobSink(write.name, numbers[write.node], write.sink, write.node.schema)
        for write in pipeline.sinks.values()
    }
    fed = {parent for node in numbers for parent in parents_of(node)}
    written = {write.node for write in pipeline.sinks.values()}
    for name, keyed in pipeline.operators.items():
        if keyed not in fed and keyed not in written:
            if name in outputs:
                raise InvalidInput(
                    f"pipeline `{pipeline.name}`: sink `{name}` has the name of an operator without a sink",
                    hint="give the sink another name",
                )
            for added in names.ADDED:
                if added in keyed.schema.names:
                    raise InvalidInput(
                        f"operator `{name}` has an output column `{added}`, which Tidemill adds itself",
                        hint="give the column another name",
                    )
            outputs[name] = JobSink(name, numbers[keyed], None, keyed.schema)
    return outputs

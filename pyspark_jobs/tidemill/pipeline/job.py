"""A pipeline compiled: nodes by number, operators by level, sinks. What travels to the workers.

INVARIANT: a job is a pure function of the pipeline; the same code gives the same numbers on every machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from ..operators.contract import BoundOperator
from ..sinks.contract import Sink
from ..sources.contract import Source, Step
from .graph import Graph
from .nodes import (
    Keyed,
    Node,
    Read,
    Stateless,
    Union,
    Watermark,
    nearest_operator,
    parent_of,
    parents_of,
    watermarks_of,
)


@dataclass(frozen=True)
class Action:
    """One node: at most one of source, step, watermark, operator is set, none for a union. `parents` are numbers."""

    number: int
    parents: tuple[int, ...]
    schema: pa.Schema
    source: str | None = None
    step: Step | None = None
    watermark: str | None = None
    operator: str | None = None


@dataclass(frozen=True)
class WatermarkRule:
    """A watermark: over which column, and how it moves (`protocol.time.Rule`)."""

    name: str
    column: str
    delay_ms: int
    idle_ms: int | None = None
    peers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placed:
    """An operator in the job: its node, and the level at which it is applied (operators above it on the way)."""

    operator: BoundOperator
    node: int
    level: int
    watermarks: tuple[str, ...] = ()
    """The watermarks of its input; what counts is the least of them."""

    def least(self, watermarks: Mapping[str, int]) -> int | None:
        """What counts of `watermarks` here: the least of those of its input; None where that has none."""
        return min((watermarks.get(name, 0) for name in self.watermarks), default=None)


@dataclass(frozen=True)
class Output:
    """A sink in the job; `sink` None keeps the rows in the repository as Parquet."""

    name: str
    node: int
    sink: Sink | None
    schema: pa.Schema


@dataclass(frozen=True)
class Job:
    """Everything a worker must know of a pipeline."""

    pipeline: str
    time_zone: str
    sources: Mapping[str, Source]
    actions: tuple[Action, ...]
    watermarks: dict[str, WatermarkRule]
    operators: dict[str, Placed]
    outputs: dict[str, Output]
    metadata: bool = False

    @property
    def levels(self) -> int:
        """Exchanges deep; at least 1, because sinks and quarantine are written by apply tasks."""
        return max((placed.level + 1 for placed in self.operators.values()), default=1)

    def children(self, node: int) -> list[Action]:
        """The actions fed by a node, in order of their numbers; a union of a stream with itself is there twice."""
        return [action for action in self.actions for parent in action.parents if parent == node]

    def outputs_of(self, node: int) -> list[Output]:
        """The sinks at a node."""
        return [output for output in self.outputs.values() if output.node == node]

    def reads(self, node: int) -> frozenset[str] | None:
        """The columns of a node that anything below it looks at; None: all, or it is not known."""
        if self.outputs_of(node):
            return None
        found: frozenset[str] = frozenset()
        for action in self.children(node):
            below = self._reads_of(action)
            if below is None:
                return None
            found |= below
        return found

    def _reads_of(self, action: Action) -> frozenset[str] | None:
        if action.operator is not None:
            operator = self.operators[action.operator].operator
            return None if operator.input.late == "quarantine" else operator.reads  # late rows are put aside whole
        if action.watermark is None:
            return None
        rule, below = self.watermarks.get(action.watermark), self.reads(action.number)
        return below if rule is None or below is None else below | {rule.column}

    def at_level(self, level: int) -> list[Placed]:
        """The operators that a level applies, in order of their numbers."""
        return [placed for placed in self.operators.values() if placed.level == level]

    @property
    def uses_event_time(self) -> bool:
        """Whether some operator's deadlines live by event time."""
        return any(placed.operator.clock == "event" for placed in self.operators.values())

    @property
    def ranges(self) -> int | None:
        """How many key ranges its operators ask for; None: none does."""
        return max((r for placed in self.operators.values() if (r := placed.operator.ranges) is not None), default=None)

    @property
    def makes_frames(self) -> bool:
        """Whether some operator makes pandas frames for each key."""
        return any(placed.operator.makes_frames for placed in self.operators.values())

    @property
    def functions(self) -> dict[str, tuple[Callable[..., Any], ...]]:
        """The user's functions: by operator, and `step <n>` for the steps that have one."""
        found = {name: placed.operator.functions for name, placed in self.operators.items()}
        for action in self.actions:
            if action.step is not None:
                found[f"step {action.number}"] = action.step.functions
        return {name: functions for name, functions in found.items() if functions}


def compile_job(pipeline: Graph) -> Job:
    """The job of a pipeline; `InvalidInput` where it has nothing to do."""
    if not pipeline.sources:
        raise InvalidInput(f"pipeline `{pipeline.name}` reads nothing: give it a source with p.read(…)")
    if not pipeline.operators and not pipeline.sinks:
        raise InvalidInput(f"pipeline `{pipeline.name}` does nothing: give it an operator or a sink")
    numbers = _numbered(pipeline)
    operators = _placed(pipeline, numbers)
    actions = tuple(_action(node, number, numbers) for node, number in numbers.items())
    return Job(
        pipeline=pipeline.name,
        time_zone=pipeline.timeZone,
        sources=dict(pipeline.sources),
        actions=actions,
        watermarks=_watermarks(pipeline, numbers, operators),
        operators=operators,
        outputs=_outputs(pipeline, numbers),
        metadata=any(action.step is not None and action.step.needs_metadata for action in actions),
    )


def _numbered(pipeline: Graph) -> dict[Node, int]:
    """The nodes that lead to an operator or a sink, parents first."""
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


def _action(node: Node, number: int, numbers: dict[Node, int]) -> Action:
    action = Action(number, tuple(numbers[parent] for parent in parents_of(node)), node.schema)
    match node:
        case Read():
            return dataclasses.replace(action, source=node.source)
        case Stateless():
            return dataclasses.replace(action, step=node.step)
        case Watermark():
            return dataclasses.replace(action, watermark=node.name)
        case Keyed():
            return dataclasses.replace(action, operator=node.operator.name)
        case Union():
            return action
    raise TypeError(f"unknown node {node!r}")


def _placed(pipeline: Graph, numbers: dict[Node, int]) -> dict[str, Placed]:
    levels: dict[Node, int] = {}
    placed: dict[str, Placed] = {}
    for name, keyed in pipeline.operators.items():
        level, above = 0, parent_of(keyed)
        while above is not None:
            if isinstance(above, Keyed):
                level = levels[above] + 1
                break
            above = parent_of(above)
        levels[keyed] = level
        placed[name] = Placed(keyed.operator, numbers[keyed], level, watermarks_of(keyed))
    return placed


def _watermarks(pipeline: Graph, numbers: dict[Node, int], operators: dict[str, Placed]) -> dict[str, WatermarkRule]:
    """The watermarks that rows pass; one behind an operator, where another operator is behind it. Those that some
    operator heeds together are peers."""
    heeded = [placed.watermarks for placed in operators.values()]

    def peers(name: str) -> tuple[str, ...]:
        together = (other for names in heeded if name in names for other in names if other != name)
        return tuple(dict.fromkeys(together))

    return {
        name: WatermarkRule(name, node.column, node.delay_ms, node.idle_ms, peers(name))
        for name, node in pipeline.watermarks.items()
        if node in numbers and (nearest_operator(node) is None or any(name in names for names in heeded))
    }


def _outputs(pipeline: Graph, numbers: dict[Node, int]) -> dict[str, Output]:
    outputs = {
        write.name: Output(write.name, numbers[write.node], write.sink, write.node.schema)
        for write in pipeline.sinks.values()
    }
    fed = {parent for node in numbers for parent in parents_of(node)}
    written = {write.node for write in pipeline.sinks.values()}
    for name, keyed in pipeline.operators.items():
        if keyed not in fed and keyed not in written:
            if name in outputs:
                raise InvalidInput(
                    f"pipeline `{pipeline.name}`: the sink `{name}` has the name of an operator whose output is kept",
                    hint="give the sink another name",
                )
            outputs[name] = Output(name, numbers[keyed], None, keyed.schema)
    return outputs

"""The graph of a pipeline as text for people: sources, steps, operators and sinks, each below what feeds it."""

from __future__ import annotations

from collections.abc import Iterator

from ..spelling import unknown
from .job import Job, JobNode


def graph_lines(job: Job, operator: str | None = None) -> list[str]:
    """Return the graph of a job; with `operator` only what feeds it. `InvalidInput` for an unknown operator."""
    return list(_graph(job, operator))


def _graph(job: Job, operator: str | None) -> Iterator[str]:
    if operator is not None and operator not in job.operators:
        raise unknown("operator", operator, job.operators)
    yield f"pipeline `{job.pipeline}`, time zone {job.time_zone}"
    chosen = None if operator is None else job.nodes_above([job.operators[operator].node])
    shown: set[int] = set()
    for node in job.nodes:
        if not node.parents and (chosen is None or node.number in chosen):
            yield from _tree(job, node, "", shown, chosen)


def _tree(job: Job, node: JobNode, indent: str, shown: set[int], chosen: set[int] | None) -> Iterator[str]:
    """Yield a node and what it feeds. A node with several parents is shown in full below the first."""
    if node.number in shown:
        yield f"{indent}{_node(job, node)} (shown above)"
        return
    shown.add(node.number)
    yield f"{indent}{_node(job, node)}"
    for output in job.outputs_of(node.number) if chosen is None else ():
        kept = "kept in the repository" if output.sink is None else repr(output.sink)
        yield f"{indent}  sink `{output.name}`: {kept}"
    for child in {one.node.number: one.node for one in job.children(node.number)}.values():
        if chosen is None or child.number in chosen:
            yield from _tree(job, child, indent + "  ", shown, chosen)


def _node(job: Job, node: JobNode) -> str:
    if node.source is not None:
        return f"source `{node.source}`: {job.sources[node.source]!r}"
    if node.operator is not None:
        operator = job.operators[node.operator].operator
        key = ", ".join(operator.maps[0].key.names)
        return f"operator `{operator.name}`: {operator.kind}" + (f" by {key}" if key else "")
    if node.watermark is not None:
        rule = job.watermarks.get(node.watermark)
        return f"watermark `{node.watermark}`" + ("" if rule is None else f": delay {rule.delay}")
    return "union" if node.step is None else type(node.step).__name__.lower()

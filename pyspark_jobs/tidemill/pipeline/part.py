"""`Part`: some operators of a job, with what they need upstream, as a job of its own.

INVARIANT: nodes keep their numbers, so a part computes for its operators exactly what the whole job computes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable

from ..errors import InvalidInput
from ..spelling import unknown
from ..values import dataclass
from .job import Job


@dataclass(frozen=True)
class Part:
    """A part of a job. `chosen` are the operators whose state and outputs count; `sinks` are those that they feed.

    `job` also has the operators upstream of these. They run only because the others read their outputs.
    """

    chosen: frozenset[str]
    sinks: frozenset[str]
    job: Job


def part_for(job: Job, names: Collection[str], recorded: Collection[str]) -> Part:
    """Return the part of a job for operators. `recorded` are the operators whose state is known without computing it.

    An operator that is needed and not recorded is chosen, too. `InvalidInput` for an unknown operator, and for a
    recorded operator that reads the output of a chosen one and is not chosen itself.
    """
    if not names:
        raise InvalidInput("replay: operators is empty, expected at least one name", hint="leave it out to replay all")
    for name in names:
        if name not in job.operators:
            raise unknown("operator", name, sorted(job.operators))
    chosen = set(names)
    while True:
        sinks = {name for name, output in job.outputs.items() if chosen & job.operators_above(output.node)}
        needed = _with_upstream(job, {*chosen, *job.operators_above(*(job.outputs[name].node for name in sinks))})
        fresh = needed - chosen - set(recorded)
        if not fresh:
            break
        chosen |= fresh
    for name in sorted(set(job.operators) & set(recorded) - chosen):
        above = chosen.intersection(job.upstream(name))
        if above:
            raise InvalidInput(
                f"replay operators {_listed(names)}: `{name}` reads the output of `{min(above)}`, so what is recorded "
                f"of `{name}` would not fit",
                hint=f"name `{name}`, too",
            )
    return Part(frozenset(chosen), frozenset(sinks), _job(job, needed, sinks))


def _with_upstream(job: Job, names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += job.upstream(name)
    return found


def _job(job: Job, operators: Collection[str], sinks: Collection[str]) -> Job:
    """Return the job with these operators and sinks, and the nodes above them."""
    ends = [job.operators[name].node for name in operators] + [job.outputs[name].node for name in sinks]
    above = job.nodes_above(ends)
    nodes = tuple(node for node in job.nodes if node.number in above)
    watermarks = {node.watermark for node in nodes}
    return dataclasses.replace(
        job,
        nodes=nodes,
        watermarks={name: rule for name, rule in job.watermarks.items() if name in watermarks},
        operators={name: placed for name, placed in job.operators.items() if name in operators},
        outputs={name: output for name, output in job.outputs.items() if name in sinks},
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))

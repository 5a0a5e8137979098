"""`Graph`: the sources, watermarks, operators and sinks of a pipeline, by name. Streams add to it as they are built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..errors import InvalidInput
from ..names import check_name
from ..operators.contract import Input, Operator, Windows, key_schema
from ..schema import type_ddl
from ..values import dataclass
from .nodes import EventTime, Keyed, Node, Read, Watermark, Write

TimePolicy = Literal["arrival", "plan"] | Callable[[Any], int]


@dataclass(frozen=True)
class Grouped:
    """A stream of a pipeline grouped by key: what an operator is given as one of its inputs.

    `event` is the node's event time, with the column name that the operator uses first. `window`: the windows that rows
    are grouped by, and their position among the key columns.
    """

    graph: Graph
    node: Node
    event: EventTime | None
    key: tuple[str, ...]
    window: tuple[Windows, int] | None = None

    def as_input(self, port: str) -> Input:
        """Return the stream as the input of an operator."""
        event = self.event
        return Input(
            schema=self.node.schema,
            key=self.key,
            event_time=event.column if event else None,
            late=event.late if event else "drop",
            time_zone=self.graph.timeZone,
            delay_ms=self.graph.watermarks[event.watermark].delay_ms if event else 0,
            window=self.window,
            windows=self.node.windows,
            port=port,
        )


class Graph:
    """The named nodes of one pipeline. INVARIANT: names are unique within their kind, because they identify state."""

    def __init__(self, name: str, timeZone: str) -> None:
        self.name = name
        self.timeZone = timeZone
        self.sources: dict[str, Any] = {}
        self.reads: dict[str, Read] = {}
        self.watermarks: dict[str, Watermark] = {}
        self.operators: dict[str, Keyed] = {}
        self.sinks: dict[str, Write] = {}
        self.time_policy: TimePolicy = "arrival"

    def add_operator(self, operator: Operator, streams: Sequence[Grouped]) -> Keyed:
        """Add an operator over grouped streams, one for each of its inputs, and return its node.

        `InvalidInput` for a name in use, and for streams that do not fit the inputs.
        """
        if check_name(operator.name, "operator") in self.operators:
            raise InvalidInput(
                f"pipeline `{self.name}` already has an operator `{operator.name}`",
                hint="names identify state: give this operator another name, name=…",
            )
        inputs = self._inputs(operator, streams)
        bound = operator.bind_inputs(inputs)
        parents = tuple(stream.node for stream in streams)
        event = next((stream.event for stream in streams if stream.event), None)
        passed_on = None
        if event and bound.event_time:
            also = (name for name in event.names if name in bound.passes_time)
            passed_on = event.among(dict.fromkeys((bound.event_time, *also)))
        keyed = Keyed(bound.output_schema, passed_on, windows=bound.windows, parents=parents, operator=bound)
        self.operators[bound.name] = keyed
        return keyed

    def _inputs(self, operator: Operator, streams: Sequence[Grouped]) -> list[Input]:
        """Return the inputs of an operator. `InvalidInput` if the streams do not fit them."""
        ports, name = operator.ports, operator.name
        if len(set(ports)) < len(ports):
            raise InvalidInput(
                f"operator `{name}` has two inputs of one name: {_listed(ports)}", hint="give each its own name"
            )
        if len(ports) > 1:
            for port in ports:
                check_name(port, "input")
        if len(streams) != len(ports):
            found = "1 stream" if len(streams) == 1 else f"{len(streams)} streams"
            expected = "1" if len(ports) == 1 else f"{len(ports)}, one for each of {_listed(ports)}"
            raise InvalidInput(f"operator `{name}` is given {found}, expected {expected}")
        for stream in streams:
            if stream.graph is not self:
                raise InvalidInput(
                    f"operator `{name}`: the streams belong to two pipelines, `{self.name}` and `{stream.graph.name}`",
                    hint="read both sources in one pipeline: p.read(…, name=…)",
                )
            if stream.window is not None and not operator.takes_windows:
                raise InvalidInput(
                    f"operator `{name}` cannot be grouped by windows such as tm.window(…)",
                    hint="use .agg(…), or group by columns",
                )
        inputs = [stream.as_input(port) for stream, port in zip(streams, ports, strict=True)]
        for given in inputs[1:]:
            _check_keys(name, inputs[0], given)
        return inputs


def _check_keys(name: str, first: Input, other: Input) -> None:
    """Raise `InvalidInput` unless the keys of two inputs have as many columns, of equal types."""
    if len(first.key) != len(other.key):
        raise InvalidInput(
            f"operator `{name}`: input `{first.port}` is grouped by {_listed(first.key)}, input `{other.port}` by "
            f"{_listed(other.key)}; expected as many key columns"
        )
    for one, two in zip(key_schema(first), key_schema(other), strict=True):
        if one.type != two.type:
            raise InvalidInput(
                f"operator `{name}`: key column `{one.name}` of input `{first.port}` is {type_ddl(one.type)}, "
                f"`{two.name}` of input `{other.port}` is {type_ddl(two.type)}",
                hint="rows of a key meet only if its types are equal: cast one of them with .sql",
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)

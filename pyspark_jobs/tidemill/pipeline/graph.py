"""`Graph`: the sources, watermarks, operators and sinks of a pipeline, by name. Streams add to it as they are built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ..errors import InvalidInput
from ..names import check_name
from ..operators.contract import Input, Operator, Windows
from .nodes import EventTime, Keyed, Node, Read, Watermark, Write

TimePolicy = Literal["arrival", "plan"] | Callable[[Any], int]


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

    def add_operator(
        self,
        operator: Operator,
        node: Node,
        event: EventTime | None,
        key: tuple[str, ...],
        window: tuple[Windows, int] | None,
    ) -> Keyed:
        """Add an operator over `node`, grouped by `key`, and return its node. A name in use is `InvalidInput`.

        `event` is the node's event time, with the column name that the operator uses first.
        """
        if check_name(operator.name, "operator") in self.operators:
            raise InvalidInput(
                f"pipeline `{self.name}` already has an operator `{operator.name}`",
                hint="names identify state: give this operator another name, name=…",
            )
        if window is not None and not operator.takes_windows:
            raise InvalidInput(
                f"operator `{operator.name}` cannot be grouped by windows such as tm.window(…)",
                hint="use .agg(…), or group by columns",
            )
        bound = operator.bind(
            Input(
                schema=node.schema,
                key=key,
                event_time=event.column if event else None,
                late=event.late if event else "drop",
                time_zone=self.timeZone,
                delay_ms=self.watermarks[event.watermark].delay_ms if event else 0,
                window=window,
                windows=node.windows,
            )
        )
        passed_on = None
        if event and bound.event_time:
            also = (name for name in event.names if name in bound.passes_time)
            passed_on = event.among(dict.fromkeys((bound.event_time, *also)))
        keyed = Keyed(bound.output_schema, passed_on, windows=bound.windows, parent=node, operator=bound)
        self.operators[bound.name] = keyed
        return keyed

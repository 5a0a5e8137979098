"""`Pipeline`: where streams begin. Names of sources, operators and sinks are held by the graph that it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from ..errors import InvalidInput
from ..names import check_name
from .graph import Graph, TimePolicy
from .nodes import Read
from .preview import preview
from .stream import Stream

_TIME_POLICIES = ("arrival", "plan")


class Pipeline(Graph):
    """Named sources, keyed operators and sinks. Names identify state: keep them when the code changes.

    `name` is `[a-z0-9][a-z0-9-]{0,62}`. `timeZone` is the zone of the timestamps that functions are given, of SQL and
    of parsing; default UTC.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("counts")
    >>> words = p.read(tm.Rows("word string"))
    >>> counts = words.groupBy("word").agg(n=tm.count())
    >>> counts.schema.names
    ['word', 'n']
    """

    def __init__(self, name: str, timeZone: str = "UTC") -> None:
        check_name(name, "pipeline")
        try:
            ZoneInfo(timeZone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise InvalidInput(
                f"pipeline `{name}`: time zone {timeZone!r} is not known, expected a name such as 'Europe/Berlin'"
            ) from error
        super().__init__(name, timeZone)

    def read(self, source: Any, name: str = "source") -> Stream:
        """A stream of the rows of `source` (`tm.Files`, `tm.Rows`). `name` identifies it in the ledger."""
        check_name(name, "source")
        if name in self.sources:
            raise InvalidInput(
                f"pipeline `{self.name}` has a source `{name}` already",
                hint="a stream may be used more than once; name a second source: p.read(…, name=…)",
            )
        if not hasattr(source, "schema"):
            raise InvalidInput(f"p.read: expected a source such as tm.Files(…), found {source!r}")
        node = Read(source.schema, None, source=name)
        self.sources[name], self.reads[name] = source, node
        return Stream(self, node)

    def batch_time(self, policy: str | Callable[[Any], int]) -> Pipeline:
        """What "now" is in a batch, in ms since the epoch: `"arrival"` (default), `"plan"` or a function of the plan.

        "arrival": the arrival of the batch's newest file while others wait behind it, else the time of planning.
        A function is given the plan (`plan.splits[i].path`, `.modified_ms`); a sweep then keeps the last batch's time
        unless it is told one. A time below the last commit's is raised to it. Returns the pipeline.
        """
        if not callable(policy) and policy not in _TIME_POLICIES:
            raise InvalidInput(f"p.batch_time: {policy!r}, expected 'arrival', 'plan' or a function of the plan")
        self.time_policy = cast(TimePolicy, policy)
        return self

    def preview(self, n: int = 10, storage_options: Mapping[str, Any] | None = None) -> dict[str, pa.Table]:
        """The first `n` rows of every source, operator and sink by name, made of the first `n` rows of each source.

        Needs no root, writes nothing and calls no `foreachBatch`; operators begin with empty states, and nothing is
        late or due. Rows that cannot be read are left out, or an error, as the source says. `storage_options`: those
        of the section `source`.

        >>> import pathlib, tempfile, tidemill as tm
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = pathlib.Path(folder.name, "0.csv").write_text("a,1\\nb,2\\na,3\\n")
        >>> p = tm.Pipeline("totals")
        >>> rows = p.read(tm.Files(folder.name, format="csv", schema="k string, v int"))
        >>> _ = rows.groupBy("k").agg(total=tm.sum("v"), name="totals")
        >>> found = p.preview(2)
        >>> found["source"].to_pylist()
        [{'k': 'a', 'v': 1}, {'k': 'b', 'v': 2}]
        >>> sorted(found["totals"].column("total").to_pylist())
        [1, 2]
        >>> folder.cleanup()
        """
        return preview(self, n, storage_options or {})

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, operators={list(self.operators)}, sinks={list(self.sinks)})"

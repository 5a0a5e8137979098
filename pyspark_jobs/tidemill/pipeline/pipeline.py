"""`Pipeline`: the public graph. Its streams start with `read`; names of sources, operators and sinks are unique."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from ..errors import InvalidInput
from ..names import check_name
from .graph import Graph, TimePolicy
from .graph_text import graph_lines
from .job import compile_job
from .nodes import Read
from .preview import preview
from .stream import Stream

_TIME_POLICIES = ("arrival", "plan")


class Pipeline(Graph):
    """A pipeline: named sources, keyed operators and sinks. Names identify state, so keep them when the code changes.

    `name` has 1 to 63 lower-case letters, digits and hyphens, and does not start with a hyphen. `timeZone` applies to
    the timestamps that your functions receive, to SQL, and to parsing; the default is UTC. An invalid name or an
    unknown time zone is `InvalidInput`.

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
                f"pipeline `{name}`: unknown time zone {timeZone!r}, expected a name such as 'Europe/Berlin'"
            ) from error
        super().__init__(name, timeZone)

    def read(self, source: Any, name: str = "source") -> Stream:
        """Return a stream of the rows of a source: `tm.Files(…)`, or `tm.Rows(…)` in tests.

        `name` identifies the source in the ledger, which lists the files it has read. The default is "source"; a second
        source must be named. A name in use is `InvalidInput`.
        """
        check_name(name, "source")
        if name in self.sources:
            raise InvalidInput(
                f"pipeline `{self.name}` already has a source `{name}`",
                hint="use the stream twice to read the source once, or name the second source: p.read(…, name=…)",
            )
        if not hasattr(source, "schema"):
            raise InvalidInput(f"p.read: expected a source such as tm.Files(…), found {source!r}")
        node = Read(source.schema, None, source=name)
        self.sources[name], self.reads[name] = source, node
        return Stream(self, node)

    def batch_time(self, policy: str | Callable[[Any], int]) -> Pipeline:
        """Set the rule for the batch time, which is "now" in a batch, and return the pipeline.

        - `"arrival"`, the default: when the batch's newest file arrived, if more files are waiting; otherwise the time
          of planning.
        - `"plan"`: the time of planning.
        - a function of the plan that returns ms since the epoch. It can use `plan.splits[i].path` and `.modified_ms`.
          A sweep then keeps the time of the last batch, unless you give it one.

        The batch time never moves backwards: an earlier time is raised to that of the last commit.
        """
        if not callable(policy) and policy not in _TIME_POLICIES:
            raise InvalidInput(f"p.batch_time: found {policy!r}, expected 'arrival', 'plan' or a function of the plan")
        self.time_policy = cast(TimePolicy, policy)
        return self

    def preview(self, n: int = 10, storage_options: Mapping[str, Any] | None = None) -> dict[str, pa.Table]:
        """Return the first `n` rows of every source, operator and sink by name, from the first `n` rows of each source.

        A preview needs no root, writes nothing and does not call `foreachBatch`. Operators start with empty state, and
        no row is late and no timeout fires. Rows that cannot be read are skipped or an error, as the source says.
        `storage_options` are those of the section `source`. A source without files is `InvalidInput`.

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

    def explain(self, operator: str | None = None) -> None:
        """Print the graph: sources, steps, operators and sinks. With `operator`, print only what feeds it.

        The call needs no root. `InvalidInput` for an unknown operator, and for a pipeline that cannot run yet.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("visits")
        >>> rows = p.read(tm.Rows("page string, at timestamp")).withWatermark("at", "30 days")
        >>> _ = rows.groupBy(tm.window("at", "1 hour"), "page").agg(n=tm.count(), name="visits", outputMode="append")
        >>> p.explain()
        pipeline `visits`, time zone UTC
        source `source`: Rows('page string, at timestamp')
          watermark `source.at`: delay 30 days
            operator `visits`: aggregate by window_start, page
              sink `visits`: kept in the repository
        """
        for line in graph_lines(compile_job(self), operator):
            print(line)  # noqa: T201

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, operators={list(self.operators)}, sinks={list(self.sinks)})"

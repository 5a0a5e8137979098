"""`Tester`: runs a pipeline batch by batch in a test, with a clock that the test controls.

Nothing is mocked. Each batch is a file, a plan and a commit in a repository in memory or, on Spark, in a temporary
folder. Only the source of the rows and the batch time differ from production.
"""

from __future__ import annotations

import dataclasses
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from .errors import InvalidInput
from .names import ADDED, variable_name
from .operators.contract import BoundOperator
from .pipeline.job import JobSink
from .pipeline.pipeline import Pipeline
from .protocol.progress import BatchProgress
from .publishing.owners import Accepted
from .repo.open import open_repository
from .repository import Repository
from .rows import row_type
from .run.drain import Limits
from .run.run import sweep
from .sinks.asked import is_called, moved
from .sources.rows import Rows
from .spelling import unknown
from .state.columns import MapColumns
from .units import MOST_DURATION_MS
from .values import dataclass

OUTPUT_COLUMNS = ADDED
_ACCEPTED = Accepted(adopt_sink=True)
"""Every tester has a repository of its own, so a sink's folder may hold files of earlier testers."""


@dataclass(frozen=True)
class BatchResult:
    """The result of one batch or sweep.

    - `outputs`: the output rows as tuples, in canonical order.
    - `rows`: the same rows as dicts.
    - `state`: {key: value} after the batch. A key of one column is a scalar, otherwise a tuple. An unnamed state column
      gives a scalar, named columns give a `Row`. For a processor it is {variable: {key: value}}, and lists and map
      variables are {key: {position or user key: value}}.
    - `metrics`: the `BatchProgress`, or None if a sweep had nothing to fire.
    - `watermark`: the least watermark after the batch, in ms.

    With several sinks `outputs` and `rows` are dicts by sink; with several operators `state` is a dict by operator.
    """

    outputs: Any
    rows: Any
    state: Any
    metrics: BatchProgress | None
    watermark: int


class Tester:
    """Runs a pipeline in a test, with rows that the test gives.

    `engine` is "local" or "spark". The batch time of the first batch is `start_ms`, in ms since the epoch. Each later
    batch is `batch_interval_ms` after the one before. `tasks` is the number of tasks of each batch. `spark` is a
    session to run on; by default Spark is started.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("counts")
    >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count())
    >>> t = Tester(p)
    >>> t.batch([("a",), ("b",), ("a",)]).state
    {'b': Row(n=1), 'a': Row(n=2)}
    """

    __test__ = False  # pytest: not a class of tests

    def __init__(
        self,
        pipeline: Pipeline,
        engine: str = "local",
        start_ms: int = 0,
        batch_interval_ms: int = 1000,
        tasks: int | Literal["auto"] = "auto",
        spark: Any = None,
    ) -> None:
        self.pipeline, self.engine, self.tasks, self.spark = pipeline, engine, tasks, spark
        self._folder = tempfile.TemporaryDirectory(prefix="tidemill-test-")
        self._root = f"{self._folder.name}/root" if engine != "local" else f"memory://{uuid.uuid4().hex}"
        self._next_ms, self._interval_ms = start_ms, batch_interval_ms
        self._files = 0
        self.repository = self._open()
        self.repository.init()

    def batch(
        self,
        rows: Sequence[Any] | Mapping[str, Sequence[Any]],
        batch_time_ms: int | None = None,
        source: str | None = None,
    ) -> BatchResult:
        """Run one batch and return its result.

        `rows` is a list of dicts, or of tuples in the order of the source's columns. With several sources, give a dict
        of lists by source name, or name one `source`. `batch_time_ms` replaces the batch time of the clock.
        """
        for name, given in (rows if isinstance(rows, Mapping) else {self._source(source): rows}).items():
            self._rows(self._source(name)).put(self._files, given, self.pipeline.timeZone)
        self._files += 1
        at_ms = self._next_ms if batch_time_ms is None else batch_time_ms
        self._next_ms = at_ms + self._interval_ms
        limits = Limits(max_batches=1, batch_time=at_ms, tasks=self.tasks, accepted=_ACCEPTED)
        return self._result(self.repository.drain(self.spark, self.engine, limits).progress)

    def sweep(self, at_ms: int) -> BatchResult:
        """Fire the timeouts that are due at `at_ms`, without input, and return the result."""
        self._next_ms = max(self._next_ms, at_ms + self._interval_ms)
        limits = Limits(batch_time=at_ms, tasks=self.tasks, accepted=_ACCEPTED)
        return self._result(sweep(self.repository.opened, self.spark, self.engine, limits).progress)

    def restart(self) -> None:
        """Continue as a new process would: read everything again from the repository."""
        self.repository = self._open()

    def _open(self) -> Repository:
        conf = {"tidemill.batch_time_tolerance": MOST_DURATION_MS}  # the test's clock is not that of the machine
        opened = open_repository(self.pipeline, self._root, "main", conf, None)
        sources = {name: self._rows(name) for name in self.pipeline.sources}
        outputs = {name: self._kept(output) for name, output in opened.job.outputs.items()}
        job = dataclasses.replace(opened.job, sources=sources, outputs=outputs)
        return Repository(dataclasses.replace(opened, job=job))

    def _kept(self, output: JobSink) -> JobSink:
        """Return a sink with a folder of the tester's own, because a test must not write where users read."""
        if output.sink is None or is_called(output.sink):
            return output
        if not hasattr(output.sink, "at"):
            return dataclasses.replace(output, sink=None)  # its rows stay in the repository
        sink = moved(output.sink, f"{self._folder.name}/sinks/{output.name}")
        return dataclasses.replace(output, sink=sink)

    def _rows(self, source: str) -> Rows:
        """Return a source of the test's rows in a folder of its own, even if the pipeline reads files."""
        folder = Path(self._folder.name) / "data" / source
        folder.mkdir(parents=True, exist_ok=True)
        rows = Rows(self.pipeline.sources[source].schema)
        rows.bind(str(folder))
        return rows

    def _source(self, source: str | None) -> str:
        known = self.pipeline.sources
        if source is None and len(known) == 1:
            return next(iter(known))
        if source not in known:
            raise unknown("source", str(source), known)
        return source

    def _result(self, progress: list[BatchProgress]) -> BatchResult:
        head = self.repository.head
        version = progress[-1].version if progress else None
        tables = {
            name: None if version is None else self.repository.outputs(version, name).drop_columns(OUTPUT_COLUMNS)
            for name in self.repository.opened.job.outputs
        }
        rows = {
            name: [] if table is None else _listed(table, f"the output of `{name}`") for name, table in tables.items()
        }
        outputs = {name: [tuple(row.values()) for row in found] for name, found in rows.items()}
        states = {name: self._state(name) for name in self.repository.opened.job.operators}
        watermark = min(head.watermarks.values(), default=0) if head is not None else 0
        metrics = progress[-1] if progress else None
        return BatchResult(_single(outputs), _single(rows), _single(states), metrics, watermark)

    def _state(self, operator: str) -> dict[Any, Any]:
        placed = self.repository.opened.job.operators[operator].operator
        if len(placed.maps) == 1:
            return self._rows_by_key(placed, placed.maps[0])
        return {variable_name(one.name): self._rows_by_key(placed, one) for one in placed.maps}

    def _rows_by_key(self, placed: BoundOperator, columns: MapColumns) -> dict[Any, Any]:
        """Return {key: value} or {key: {sub-key: value}} of one map."""
        marker, scalar = getattr(placed, "marker", None), getattr(placed, "state_unnamed", False)
        value = [column for column in columns.value.names if column != marker]
        make = row_type(getattr(placed, "state", columns.value).names)
        found: dict[Any, Any] = {}
        stored = self.repository.state(placed.name, variable=columns.name, partial=True)
        for row in _listed(stored, f"the state of `{placed.name}`"):
            if row.get(marker) is False:  # a timeout without a state
                continue
            shown = row[value[0]] if scalar else make(*(row[column] for column in value))
            if columns.sub_key.names:
                found.setdefault(_key(row, columns.key), {})[_key(row, columns.sub_key)] = shown
            else:
                found[_key(row, columns.key)] = shown
        return found


def _listed(table: pa.Table, what: str) -> list[Any]:
    """Return the rows as Python objects. A time outside the years 1 to 9999 is `InvalidInput`."""
    try:
        listed: list[Any] = table.to_pylist()
    except (OverflowError, ValueError) as error:
        raise InvalidInput(
            f"the tester cannot show {what}: {error} (Python has times from year 1 to 9999)",
            hint="the batch is committed; read it as an Arrow table: tester.repository.outputs(…) or .state(…)",
        ) from error
    return listed


def _key(row: dict[str, Any], key: pa.Schema) -> Any:
    """Return a scalar for one key column, otherwise a tuple."""
    cells = [_hashable(row[column]) for column in key.names]
    return cells[0] if len(key) == 1 else tuple(cells)


def _hashable(cell: Any) -> Any:
    """Return a struct as a `Row`, a list as a tuple, a map as a tuple of pairs, and other values unchanged."""
    if isinstance(cell, dict):
        return row_type(list(cell))(*map(_hashable, cell.values()))
    return tuple(map(_hashable, cell)) if isinstance(cell, list | tuple) else cell


def _single(by_name: dict[str, Any]) -> Any:
    return next(iter(by_name.values())) if len(by_name) == 1 else by_name

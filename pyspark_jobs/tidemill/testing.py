"""`Tester`: a pipeline fed batch by batch under a clock of the test's own, on the real engine and protocol.

Nothing is mocked: each batch is a file, a plan and a commit in a repository in memory (or, on Spark, in a temporary
folder). The tester differs from production only in who makes the files and what time it is.
"""

from __future__ import annotations

import dataclasses
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from .driver.drain import Limits
from .errors import InvalidInput
from .names import BATCH_ID, variable_name
from .operators.contract import BoundOperator
from .pipeline.pipeline import Pipeline
from .protocol.progress import BatchProgress
from .repository import Repository
from .rows import row_type
from .sources.rows import Rows
from .spelling import unknown
from .state.columns import MapColumns
from .verbs.open import open_context

OUTPUT_COLUMNS = (BATCH_ID,)


@dataclass(frozen=True)
class BatchResult:
    """What one batch or sweep did.

    `outputs` are tuples and `rows` dicts, in canonical order; `state` is {key: value}, a scalar where the key or state
    has one unnamed column, else a Row. Of a processor it is {variable: {key: value}}, lists and maps {key: {position or
    user's key: value}}. With several sinks or operators each is a dict by name.
    """

    outputs: Any
    rows: Any
    state: Any
    metrics: BatchProgress | None
    watermark: int


class Tester:
    """Feeds a pipeline. `engine` is "local" or "spark"; batch times are `start_ms`, then `batch_interval_ms` apart.

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
        """One batch of `rows` (dicts, or tuples in the order of the source's columns); of several sources by name."""
        for name, given in (rows if isinstance(rows, Mapping) else {self._source(source): rows}).items():
            self._rows(self._source(name)).put(self._files, given, self.pipeline.timeZone)
        self._files += 1
        at_ms = self._next_ms if batch_time_ms is None else batch_time_ms
        self._next_ms = at_ms + self._interval_ms
        limits = Limits(max_batches=1, batch_time=at_ms, tasks=self.tasks)
        return self._result(self.repository.drain(self.spark, self.engine, limits).progress)

    def sweep(self, at_ms: int) -> BatchResult:
        """Fires what is due at `at_ms`, without input."""
        self._next_ms = max(self._next_ms, at_ms + self._interval_ms)
        return self._result(self.repository.sweep(self.spark, self.engine, batch_time=at_ms, tasks=self.tasks))

    def restart(self) -> None:
        """Goes on as a new process would: everything is read again from the repository."""
        self.repository = self._open()

    def _open(self) -> Repository:
        context = open_context(self.pipeline, self._root, "main", None, None)
        sources = {name: self._rows(name) for name in self.pipeline.sources}
        return Repository(dataclasses.replace(context, job=dataclasses.replace(context.job, sources=sources)))

    def _rows(self, source: str) -> Rows:
        """The source as rows of the test, in a folder of its own; also where the pipeline reads files."""
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
            for name in self.repository.context.job.outputs
        }
        rows = {
            name: [] if table is None else _listed(table, f"the output of `{name}`") for name, table in tables.items()
        }
        outputs = {name: [tuple(row.values()) for row in found] for name, found in rows.items()}
        states = {name: self._state(name) for name in self.repository.context.job.operators}
        watermark = min(head.watermarks.values(), default=0) if head is not None else 0
        metrics = progress[-1] if progress else None
        return BatchResult(_single(outputs), _single(rows), _single(states), metrics, watermark)

    def _state(self, operator: str) -> dict[Any, Any]:
        placed = self.repository.context.job.operators[operator].operator
        if len(placed.maps) == 1:
            return self._rows_by_key(placed, placed.maps[0])
        return {variable_name(one.name): self._rows_by_key(placed, one) for one in placed.maps}

    def _rows_by_key(self, placed: BoundOperator, columns: MapColumns) -> dict[Any, Any]:
        """{key: value}, or {key: {sub-key: value}}, of one map."""
        marker, scalar = getattr(placed, "marker", None), getattr(placed, "state_unnamed", False)
        value = [column for column in columns.value.names if column != marker]
        make = row_type(getattr(placed, "state", columns.value).names)
        found: dict[Any, Any] = {}
        stored = self.repository.state(placed.name, variable=columns.name)
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
    """The rows as Python's objects; `InvalidInput` where there is none for a time."""
    try:
        listed: list[Any] = table.to_pylist()
    except (OverflowError, ValueError) as error:
        raise InvalidInput(
            f"the tester cannot show {what}: {error} (Python's times are those of the years 1 to 9999)",
            hint="the batch is committed: read it as an Arrow table, with tester.repository.outputs(…) or .state(…)",
        ) from error
    return listed


def _key(row: dict[str, Any], key: pa.Schema) -> Any:
    """A scalar for one column, else a tuple."""
    cells = [_hashable(row[column]) for column in key.names]
    return cells[0] if len(key) == 1 else tuple(cells)


def _hashable(cell: Any) -> Any:
    """A struct as a `Row`, a list as a tuple, a map as a tuple of pairs; anything else as it is."""
    if isinstance(cell, dict):
        return row_type(list(cell))(*map(_hashable, cell.values()))
    return tuple(map(_hashable, cell)) if isinstance(cell, list | tuple) else cell


def _single(by_name: dict[str, Any]) -> Any:
    return next(iter(by_name.values())) if len(by_name) == 1 else by_name

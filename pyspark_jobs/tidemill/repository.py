"""`Repository`: a pipeline on a root, with one line a verb. What `tm.open` returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from .driver.context import Context
from .driver.drain import Drained, Limits, OnProgress
from .pipeline.load import Loaded
from .pipeline.pipeline import Pipeline
from .protocol.progress import BatchProgress
from .protocol.records import Commit, Init
from .units import time_ms
from .verbs import read
from .verbs.init import init
from .verbs.open import open_context
from .verbs.replan import replan
from .verbs.run import run, sweep


class Repository:
    """Everything a pipeline keeps under a root, and what can be done with it. Made by `tm.open`."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def init(self, drop: Sequence[str] = (), initial_state: Mapping[str, Any] | None = None) -> Init:
        """Makes the repository: the explicit first step. Done again, it adds operators that are new.

        `drop`: operators that the code no longer has and whose state ends; without it, one that is lacking is an error.
        `initial_state`: operator → its state before its first batch, in place of what its code gives: an Arrow table
        (key and state columns), a list of (key, state) pairs, or the path of a Parquet file or folder.
        """
        return init(self.context, drop, initial_state)

    def run(
        self,
        spark: Any = None,
        engine: str = "spark",
        max_batches: int | None = None,
        time_budget: float | None = None,
        batch_time: int | str | None = None,
        tasks: int | Literal["auto"] = "auto",
        on_progress: OnProgress | None = None,
    ) -> list[BatchProgress]:
        """Publishes what an earlier run left, drains what waits, fires what is due; one BatchProgress a batch.

        `engine`: "spark" (an active or given session, classic or Connect, else one is started) or "local" (no JVM).
        `time_budget`: seconds after which no further batch begins. `batch_time`: ms or ISO time for these batches.
        `tasks`: a number, or "auto". Errors are of the five kinds; whatever was committed stays committed.
        """
        limits = Limits(max_batches, time_budget, batch_time, tasks)
        return run(self.context, spark, engine, limits, on_progress).progress

    def drain(self, spark: Any, engine: str, limits: Limits, on_progress: OnProgress | None = None) -> Drained:
        """As `run`, with everything that was done: also versions published only, and ones committed by another run."""
        return run(self.context, spark, engine, limits, on_progress)

    def sweep(
        self,
        spark: Any = None,
        engine: str = "spark",
        batch_time: int | str | None = None,
        tasks: int | Literal["auto"] = "auto",
    ) -> list[BatchProgress]:
        """Fires what is due, without input; an empty list if nothing was. A batch that is planned is run first."""
        return sweep(self.context, spark, engine, Limits(batch_time=batch_time, tasks=tasks)).progress

    def replan(self, reason: str) -> Commit:
        """Gives up a plan that cannot run (a planned file vanished or was changed) by a void commit; says why."""
        return replan(self.context, reason)

    @property
    def head(self) -> Commit | None:
        """The newest commit; None before the first batch (version −1)."""
        self.context.initialised()
        return self.context.log.head()

    def commits(self, since: int | None = None) -> list[Commit]:
        """The commits from version `since` on, oldest first."""
        self.context.initialised()
        return list(self.context.log.commits(since or 0))

    def commit(self, version: int) -> Commit:
        """One commit."""
        self.context.initialised()
        return self.context.log.commit(version)

    def version_at(self, time: Any) -> int:
        """The newest version whose batch time is not after `time` (ms, datetime or ISO); −1 if there is none."""
        return read.version_at(self.context, time_ms(time, self.context.job.time_zone))

    def state(
        self,
        operator: str | None = None,
        version: int | None = None,
        as_of: Any = None,
        keys: Iterable[Any] | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        variable: str | None = None,
    ) -> pa.Table:
        """An operator's state at a version (default: the newest): key and state columns, `updated_at`, `deadline`.

        `as_of`: the newest version at that batch time. `keys`: only these (scalars, or tuples for several columns).
        `where`: a DuckDB condition over the columns; times are in UTC, as the table shows them, whatever the pipeline's
        time zone. `variable`: of an operator with several, which one (default: the first; a processor's timers are
        `timers`). A column whose name another has is called `key.…`, `value.…` or `sub_key.…`.
        """
        return read.state(self.context, operator, version, as_of, keys, where, columns, variable)

    def outputs(self, version: int | None = None, sink: str | None = None) -> pa.Table:
        """What was committed for a sink, in canonical order; of one version, or of all."""
        return read.outputs(self.context, version, sink)

    def quarantine(self, version: int | None = None) -> pa.Table:
        """Rows that could not be used: source, file, line, column, reason, text, version."""
        return read.quarantine(self.context, version)

    def __repr__(self) -> str:
        return f"Repository({self.context.store.uri!r}, branch={self.context.branch!r})"


def open(
    pipeline: Pipeline | Loaded,
    root: str,
    branch: str = "main",
    conf: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Repository:
    """The repository of a pipeline under `root` (`s3://bucket/prefix`, `file:///dir` or a folder). Writes nothing.

    `conf`: `tidemill.…` and `spark.…` settings. `storage_options`: `{"root": {…}, "source": {…}, "sink": {…}}`.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("counts")
    >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
    >>> r = tm.open(p, root="memory://docs")
    >>> r.init().pipeline
    'counts'
    """
    return Repository(open_context(pipeline, root, branch, conf, storage_options))

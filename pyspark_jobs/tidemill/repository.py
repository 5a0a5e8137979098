"""`Repository`, the object that `tm.open` returns: a pipeline on a root, with one method for each verb.

INVARIANT: a method here only forwards to its verb in `verbs`, so the command line and Python do the same. What runs
batches is imported when it is first called, so that commands that only read start fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from .driver.context import Context
from .pipeline.load import Loaded
from .pipeline.pipeline import Pipeline
from .protocol.progress import BatchProgress
from .protocol.records import Commit
from .protocol.refs import Refs
from .units import time_ms
from .verbs import read
from .verbs.init import init
from .verbs.open import open_context
from .verbs.replan import replan

if TYPE_CHECKING:
    from .driver.drain import Drained, Limits, OnProgress
    from .upkeep.collect import OnDeleted
    from .upkeep.objects import OnChecked
    from .upkeep.report import VerifyReport
    from .verbs.maintain import MaintainReport
    from .verbs.status import Status
    from .verbs.tag import Tagged


class Repository:
    """Everything that a pipeline keeps under a root, and the actions on it. `tm.open` returns it.

    All methods raise only the five kinds of `TidemillError`. Versions are the numbers of commits: 0, 1, 2 and so on.
    Version -1 is the state that `init` made, before the first batch.
    """

    def __init__(self, context: Context) -> None:
        self.context = context

    def init(self, drop: Sequence[str] = (), initial_state: Mapping[str, Any] | None = None) -> Refs:
        """Create the repository. This is the explicit first step; run it again to add new operators.

        `drop`: operators that the code no longer has. Their state ends with the next commit. An operator that is
        missing from the code and not listed here is an error, because it may have been renamed by mistake.
        `initial_state`: maps an operator to its state before its first batch, and replaces the one in its code. It is
        an Arrow table of key and state columns, a list of (key, state) pairs, or the path of a Parquet file or folder.

        Returns what the repository records about itself. Everything is checked first, so an error changes nothing. A
        crash leaves no repository or a complete one; then run `init` again.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("first-words")
        >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
        >>> r = tm.open(p, root="memory://docs-init")
        >>> r.init().pipeline
        'first-words'
        >>> r.head is None
        True
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
        adopt_sink: bool = False,
        replace_sink: bool = False,
        accept_output_change: bool = False,
    ) -> list[BatchProgress]:
        """Process all waiting files in batches, then fire due timeouts. Return one BatchProgress for each batch.

        The run first publishes outputs that an earlier run committed but did not publish. It resumes a batch that an
        earlier run planned but did not commit.

        `spark`: the session to use; default: the active session (classic or Connect), or else a new session.
        `engine`: "spark", or "local", which needs no JVM. `max_batches`: stop after so many batches. `time_budget`:
        seconds after which no further batch begins. `batch_time`: processing time of these batches, in ms since the
        epoch or as ISO text; default: by the pipeline's rule. It cannot move backwards. `tasks`: number of parallel
        tasks, or "auto". `on_progress`: a function that is called with the progress of each batch once it is committed.

        Three arguments accept what a run refuses otherwise. `adopt_sink`: keep files that another repository published
        in the folder of a sink, and publish beside them. `replace_sink`: delete those files once this run has published
        all that waits. `accept_output_change`: write a sink with other columns, partitions or another format.

        If the run fails, committed batches stay committed, and it is always safe to run again. `StoreUnavailable`
        means retry. `Fenced` means that another run is committing to this pipeline.

        >>> import tempfile, pathlib
        >>> import tidemill as tm
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "1.csv").write_text("hello\\nworld\\nhello\\n")
        >>> p = tm.Pipeline("words")
        >>> words = p.read(tm.Files(str(folder), format="csv", schema="word string"))
        >>> _ = words.groupBy("word").agg(n=tm.count(), name="count")
        >>> r = tm.open(p, root="memory://docs-run")
        >>> _ = r.init()
        >>> [(batch.version, batch.numInputRows) for batch in r.run(engine="local")]
        [(0, 3)]
        """
        from .driver.drain import Limits
        from .driver.sink_checks import Accepted

        accepted = Accepted(adopt_sink, replace_sink, accept_output_change)
        limits = Limits(max_batches, time_budget, batch_time, tasks, accepted)
        return self.drain(spark, engine, limits, on_progress).progress

    def drain(self, spark: Any, engine: str, limits: Limits, on_progress: OnProgress | None = None) -> Drained:
        """Do the same as `run`, and return everything that was done.

        The result also names versions that were only published, and versions that another run committed.
        """
        from .verbs.run import run

        return run(self.context, spark, engine, limits, on_progress)

    def sweep(
        self,
        spark: Any = None,
        engine: str = "spark",
        batch_time: int | str | None = None,
        tasks: int | Literal["auto"] = "auto",
    ) -> list[BatchProgress]:
        """Fire due timeouts without reading input. Return an empty list if nothing was due.

        A batch that was planned but not committed runs first. `batch_time` defaults to the current time, but a sweep
        never passes the arrival of a waiting file. The other arguments are those of `run`.
        """
        from .driver.drain import Limits
        from .verbs.run import sweep

        return sweep(self.context, spark, engine, Limits(batch_time=batch_time, tasks=tasks)).progress

    def publish(self, since: int | None = None, sink: str | None = None) -> list[int]:
        """Publish versions that an earlier run committed but did not publish. Return the versions.

        `since`: publish all versions from this one on again. Files that are missing from the folder of a sink appear
        again; files that are there are compared with the commit. Use it after files were lost, or to fill a sink's new
        folder. `sink`: only this sink. A function of `foreachBatch` is called
        again only if it is named. The call commits nothing, and may be repeated after an error.
        """
        from .verbs.publish import publish

        return publish(self.context, since, sink)

    def replan(self, reason: str) -> Commit:
        """Abandon a plan that cannot run, because a planned file is missing, changed or unreadable.

        A void commit takes the number of the plan. It reads no files and changes no state; the next run plans the files
        again. The commit records `reason`. `InvalidInput` if no plan waits, or if `reason` is empty.
        """
        return replan(self.context, reason)

    def skip(self, file: str | tuple[str, str], reason: str) -> Commit:
        """Take a file out of the input, because it cannot be read or must not be. Return the commit that does it.

        `file` is a path relative to its source's folder, or (source, path) if several sources have it. The file waits,
        or is in the plan of a batch that failed; then that plan ends, and the next run plans its other files. The
        commit records `reason`. The file is never read, whatever happens to it later, unless its bytes change and the
        source says `overwritten="new"`.

        `InvalidInput` for a file that was read already, for an unknown file, or if `reason` is empty. `Fenced` if
        another run commits first; then nothing has changed.
        """
        from .verbs.skip import skip

        return skip(self.context, file, reason)

    def rewind(self, to_version: int | str, reason: str, without: Sequence[str | tuple[str, str]] = ()) -> Commit:
        """Go back to a version, by a commit that restores it. Return that commit.

        State, watermarks, batch time and the record of read files become those of `to_version`, a number or a tag; -1
        is what `init` made. Files that were read since wait again. `without`: files that are left out of the input
        instead, as paths relative to their source's folder, or (source, path). An open plan ends.

        Published files of the versions that are undone are deleted; meanwhile, readers may find some of them. A
        function of `foreachBatch` is called with `withdrawn=`, the ids of batches that no longer count; if it has no
        such parameter, the rewind is refused. All versions stay readable, and a later rewind may restore a version that
        was undone. Its files are then published again.

        `InvalidInput` for a version that does not exist or is no longer kept, a file that the version to restore has
        read, an unknown file, or an empty `reason`. `Fenced` if another run commits first. Then nothing has changed. A
        crash leaves the rewind committed or not; the next run completes what it does to the sinks.
        """
        from .verbs.rewind import rewind

        return rewind(self.context, to_version, reason, without)

    def tag(self, name: str, version: int | str | None = None, reason: str = "", move: bool = False) -> Tagged:
        """Name a version; default: the newest. A tag can stand for the number of a version everywhere.

        A tagged version stays readable when retention discards its neighbours. `move`: let the name, which has
        another version now, name this one. `InvalidInput` for a version that does not exist or is not kept, for a name
        that is in use, or is a number.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("tagged")
        >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
        >>> r = tm.open(p, root="memory://docs-tag")
        >>> _ = r.init()
        >>> r.tags()
        []
        """
        from .verbs.tag import tag

        return tag(self.context, name, version, reason, move)

    def untag(self, name: str, reason: str = "") -> Tagged:
        """Remove a tag, and return what it named. `InvalidInput` for an unknown tag."""
        from .verbs.tag import untag

        return untag(self.context, name, reason)

    def tags(self) -> list[Tagged]:
        """Return all tags, sorted by name."""
        from .verbs.tag import tags

        return tags(self.context)

    def reset(
        self,
        watermark: int | str | datetime | Mapping[str, int | str | datetime] | None = None,
        batch_time: int | str | datetime | None = None,
        reason: str = "",
    ) -> Commit:
        """Set watermarks or the batch time to another value, and return the commit that does it.

        Nothing else moves either of them back. `watermark`: a time for all watermarks, or a dict by name
        (`<source>.<column>`). `batch_time`: the time from which later batches count. Times are ms since the epoch, ISO
        text or datetimes. An open plan ends. State stays as it is: what has ended or timed out does not come back, and
        rows that were late stay dropped or in quarantine.

        `InvalidInput` for an unknown watermark, a batch time out of bounds, or an empty `reason`. `Fenced` if another
        run commits first; then nothing has changed.
        """
        from .verbs.reset import reset

        return reset(self.context, watermark, batch_time, reason)

    def adopt(self, reason: str = "", moved: bool = False, copy: bool = False, sources: Sequence[str] = ()) -> Refs:
        """Confirm that this repository was moved or copied on purpose, or that the folder of a source changed.

        `moved`: this is the repository now, and the place where it was made is dead. It keeps its uuid. `copy`: both
        remain. This one gets a new uuid, and files that were published stay those of the other one. `sources`: names of
        sources whose files may be read again from the folder that this code declares. Returns what the repository
        records about itself then.

        `InvalidInput` if nothing is to be confirmed, or without `moved` or `copy` at another place. A crash leaves
        the repository adopted or not.
        """
        from .verbs.adopt import adopt

        return adopt(self.context, reason, moved, copy, sources)

    def maintain(
        self,
        keep: str | timedelta | Mapping[str, str | timedelta] | None = None,
        keep_versions: int | Mapping[str, int] | None = None,
        time_budget: float | None = None,
        dry_run: bool = False,
        reason: str = "",
        on_deleted: OnDeleted | None = None,
    ) -> MaintainReport:
        """Let go of old versions, and delete the objects that no kept version needs. Return what was done.

        `keep`: an age such as "90 days"; versions of this period are kept, so the state can be read as of any time in
        it. `keep_versions`: the newest so many versions are kept. With both, whichever keeps more. A dict gives rules
        for the state of single operators, and under "*" for everything else. Without either, only leftovers of failed
        attempts are deleted. The head, tagged versions, versions from which branches start, and versions that are not
        published yet are always kept. Published files are never touched, except that files which a stalled process
        copied after a rewind had withdrawn them are deleted.

        `time_budget`: seconds after which nothing more is deleted; the next call goes on. `dry_run`: change nothing;
        the report names every object that would go, and why. `on_deleted`: called with the number of deleted objects,
        and of all.

        The call may run beside runs, corrections and other calls. A crash leaves garbage for the next call.
        `InvalidInput` for an unknown operator, or a rule that keeps nothing.
        """
        from .verbs.maintain import Maintenance, maintain, planned

        asked = Maintenance(keep, keep_versions, time_budget, reason, on_deleted)
        return planned(self.context, asked) if dry_run else maintain(self.context, asked)

    def verify(self, deep: bool = False, on_checked: OnChecked | None = None) -> VerifyReport:
        """Check everything that the repository holds, and report what is damaged, missing or out of place.

        All records are read and compared with one another; the objects that they name must be there, with their sizes
        and, on S3, their ETags; so must records of publishing. `deep`: also read every byte, and count the rows of the
        newest state. A published file that is missing is no problem, because consumers may move files.

        `problems` of the report is empty if all is well. Each names an object, what is wrong, what it affects, and what
        to do. `on_checked`: called with the number of checked objects and of all. The call writes nothing, and may run
        beside anything else. `InvalidInput` if there is no repository.
        """
        from .verbs.verify import verify

        return verify(self.context, deep, on_checked)

    def status(self) -> Status:
        """Return where the pipeline stands: head, watermarks, waiting files, ages, the open plan, the next deadline.

        A source or sink that cannot be reached is reported as `problem`. The call lists the sources and writes nothing.
        """
        from .verbs.status import status

        return status(self.context)

    @property
    def head(self) -> Commit | None:
        """The newest commit, or None before the first batch (version -1)."""
        return self.context.head()

    def commits(self, since: int | str | None = None) -> list[Commit]:
        """Return the commits from version `since` to the newest, oldest first; default: all that are kept.

        `since` is a number or a tag. Commits that a rewind undid are among them. `InvalidInput` for a version that is
        not kept.
        """
        from .verbs.log import commits

        return commits(self.context, since)

    def log(self, limit: int | None = None) -> list[Commit]:
        """Return the commits that are kept, newest first; with `limit`, only so many.

        Each has its `kind`, and a correction its `reason`. `replaced` of the newest has the ranges of versions that
        rewinds undid.
        """
        from .verbs.log import log

        return log(self.context, limit)

    def commit(self, version: int | str) -> Commit:
        """Return the commit that made `version`, a number or a tag.

        `InvalidInput` for any other number names the versions that exist. The record of a version outlives its state.
        """
        from .driver.versions import resolve

        self.context.initialised()
        return self.context.log.commit(resolve(self.context, version))

    def version_at(self, time: Any) -> int:
        """Return the newest version whose batch time is at or before `time`, or -1 if all are later.

        `time` is ms since the epoch, a datetime or ISO text. Without a UTC offset it is in the pipeline's time zone.
        """
        return read.version_at(self.context, time_ms(time, self.context.job.time_zone))

    def state(
        self,
        operator: str | None = None,
        version: int | str | None = None,
        as_of: Any = None,
        keys: Iterable[Any] | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        variable: str | None = None,
        partial: bool = False,
    ) -> pa.Table:
        """Return the state of an operator as a table: key and state columns, `updated_at` and `deadline`.

        The state columns of `.agg` are its output columns, with the values that it would emit now. With `partial` they
        are what the state keeps, for example sum and count of a mean.

        `operator`: may be omitted if the pipeline has only one. `version`: a number or a tag; default is the newest.
        `as_of`: the newest version whose batch time is at or before this time, without those that a rewind undid; give
        `version` or `as_of`, not both. `keys`: return only
        these keys, which are scalars, or tuples if the key has several columns. `where`: a DuckDB condition over the
        columns; times in it are in UTC, like those of the table, whatever the pipeline's time zone is. `columns`: the
        columns to return, in this order. `variable`: for a processor with several state variables, the one to return;
        default is the first, and `timers` are the processor's timers.

        If two columns have the same name, the later one is called `key.…`, `sub_key.…` or `value.…`. The call writes
        nothing. An unknown operator, variable or column is `InvalidInput` that names the nearest known one. So is a
        time before the first version.
        """
        return read.state(self.context, operator, version, as_of, keys, where, columns, variable, partial)

    def outputs(self, version: int | str | None = None, sink: str | None = None, limit: int | None = None) -> pa.Table:
        """Return the rows that were committed for a sink, in canonical order, with `_batch_id` and `_seq`.

        `version`: rows of this version only, by its number or a tag; default: of all versions that are kept, without
        those that a rewind undid. `sink`: may be omitted if the pipeline has only
        one. An operator whose output nothing consumes keeps it here under the operator's name. `limit`: return only the
        first rows, and read nothing after them.
        """
        return read.outputs(self.context, version, sink, limit)

    def quarantine(self, version: int | str | None = None, limit: int | None = None) -> pa.Table:
        """Return quarantined rows: source, file, line, column, reason, text and the version that quarantined them.

        `version`: rows of this version only, by its number or a tag; default: of all versions that are kept, without
        those that a rewind undid. `limit`: return only the first rows, and read
        nothing after them.
        """
        return read.quarantine(self.context, version, limit)

    def __repr__(self) -> str:
        return f"Repository({self.context.store.uri!r}, branch={self.context.branch!r})"


def open(
    pipeline: Pipeline | Loaded,
    root: str,
    branch: str = "main",
    conf: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Repository:
    """Open the repository of a pipeline under `root`. The call checks its arguments; it neither reads nor writes.

    `pipeline`: a `tm.Pipeline`, or the result of `tm.load`. `root`: `s3://bucket/prefix`, `file:///dir` or a folder,
    which may hold the repositories of several pipelines. `branch`: only "main" exists so far. `conf`: settings whose
    keys begin with `tidemill.` or `spark.`; they take precedence over the environment and `tidemill.toml`.
    `storage_options`: options for the stores, as `{"root": {…}, "source": {…}, "sink": {…}}`.

    `InvalidInput` for a wrong argument, such as an unknown setting, credentials in a URI, or an unusable sink folder.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("counts")
    >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
    >>> r = tm.open(p, root="memory://docs")
    >>> r.init().pipeline
    'counts'
    """
    return Repository(open_context(pipeline, root, branch, conf, storage_options))

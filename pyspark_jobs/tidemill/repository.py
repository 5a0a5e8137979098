"""`Repository`, the object that `tm.open` returns: a pipeline on a root, with one method for each verb.

INVARIANT: a method only forwards to its action or verb, so the command line and Python do the same. Methods of actions
are in `action_methods.py`. What runs batches is imported when it is first called, so that commands that only read start
fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .action_methods import ActionMethods
from .notebook import NotebookList
from .pipeline.load import Loaded
from .pipeline.pipeline import Pipeline
from .protocol.progress import BatchProgress
from .protocol.refs import Refs
from .repo.init import init
from .repo.open import open_repository

if TYPE_CHECKING:
    from .branches.check import CheckReport
    from .branches.replay import ReplayReport
    from .run.drain import Drained, Limits, OnProgress
    from .verifying.findings import VerifyReport
    from .verifying.objects import OnChecked


class Repository(ActionMethods):
    """Everything that a pipeline keeps under a root, and the actions on it. `tm.open` returns it.

    All methods raise only the five kinds of `TidemillError`. Versions are the numbers of commits: 0, 1, 2 and so on.
    Version -1 is the state that `init` made, before the first batch.
    """

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
        return init(self.opened, drop, initial_state)

    def run(
        self,
        spark: Any = None,
        engine: str = "auto",
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
        `engine`: "local" runs in this process and needs no JVM; "auto" chooses it for each batch if what waits and the
        state are small, and otherwise "spark". With a session, "auto" means Spark. `max_batches`: stop after so many
        batches. `time_budget`: seconds after which no further batch begins. `batch_time`: processing time of these
        batches, in ms since the epoch or as ISO text; default: by the pipeline's rule. It cannot move backwards.
        `tasks`: number of parallel tasks, or "auto". `on_progress`: a function that is called with the progress of each
        batch once it is committed.

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
        from .publishing.owners import Accepted
        from .run.drain import Limits

        accepted = Accepted(adopt_sink, replace_sink, accept_output_change)
        limits = Limits(max_batches, time_budget, batch_time, tasks, accepted)
        return NotebookList(self.drain(spark, engine, limits, on_progress).progress)

    def drain(self, spark: Any, engine: str, limits: Limits, on_progress: OnProgress | None = None) -> Drained:
        """Do the same as `run`, and return everything that was done.

        The result also names versions that were only published, and versions that another run committed.
        """
        from .run.run import run

        return run(self.opened, spark, engine, limits, on_progress)

    def sweep(
        self,
        spark: Any = None,
        engine: str = "auto",
        batch_time: int | str | None = None,
        tasks: int | Literal["auto"] = "auto",
    ) -> list[BatchProgress]:
        """Fire due timeouts without reading input. Return an empty list if nothing was due.

        A batch that was planned but not committed runs first. `batch_time` defaults to the current time, but a sweep
        never passes the arrival of a waiting file. The other arguments are those of `run`.
        """
        from .run.drain import Limits
        from .run.run import sweep

        return NotebookList(sweep(self.opened, spark, engine, Limits(batch_time=batch_time, tasks=tasks)).progress)

    def publish(self, since: int | str | None = None, sink: str | None = None) -> list[int]:
        """Publish versions that an earlier run committed but did not publish. Return the versions.

        `since`: publish all versions from this one on again; a number or a tag. Files that are missing from the folder
        of a sink appear again; files that are there are compared with the commit. Use it after files were lost, or to
        fill a sink's new folder. A sink that was added later is filled, too, as far as another output of its stream is
        kept, by a commit of the kind `fill`; a warning names the versions that only `replay` can make again. `sink`:
        only this sink. A function of `foreachBatch` is called again only if it is named. The call may be repeated after
        an error.
        """
        from .publishing.republish import publish_again

        return publish_again(self.opened, since, sink)

    def check(self, against: str | None = None, tolerance: float | None = None) -> CheckReport:
        """Compare this code with the repository, without running and without writing.

        `status` of the report is `"compatible"`, `"needs init"`, `"needs migration"` or `"refused"`. Each of its
        `differences` names the operator, the field, what it was and is now, and what will happen. New nullable fields,
        wider types and new aggregates are compatible: rows written earlier stay as they are, and are converted when
        they are read.

        `against`: the name of a branch. The code is then compared with that branch, and `against` of the report says
        what the branch would change here: how many keys of each operator, the largest change of each column of numbers,
        how many rows of each sink, whether `promote` would accept it, and which versions it has not repeated. Floats
        that are no further apart than `tolerance` are equal.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("checked")
        >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
        >>> tm.open(p, root="memory://docs-check").check().status
        'needs init'
        """
        from .branches.check import check, check_against

        return check(self.opened) if against is None else check_against(self.opened, against, tolerance)

    def replay(
        self,
        from_version: int | str,
        to_version: int | str | None = None,
        into: str = "",
        operators: Sequence[str] | None = None,
        files: str = "recorded",
        follow: bool = False,
        spark: Any = None,
        engine: str = "auto",
        tasks: int | Literal["auto"] = "auto",
        max_batches: int | None = None,
        time_budget: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> ReplayReport:
        """Carry out recorded plans again on the branch `into`, with this code, and return what was done.

        Versions `from_version` to `to_version` (default: the newest) of this branch are repeated: the same files, in
        the same blocks, with the same batch times. `into` is a branch that starts at the version before `from_version`;
        it is started if there is none. The same code makes the same state and outputs, whatever the engine and the
        number of tasks. Rewound and abandoned versions are left out; skipped files stay skipped.

        `operators`: compute only these, and take everything else as it is recorded: state, outputs, quarantine and
        counts. What they read from other operators is computed again from the recorded state of these. An operator that
        is new gets its past in this way, and needs no `init` before; `promote` adds it. A later call for the branch
        continues with the same operators.

        `files`: "recorded" refuses a file that has changed or is gone, and names it; "current" takes what is there, and
        leaves out what is gone. `left_out` and `changed` of the report name these files. The branch can be promoted.
        `follow`: also repeat what is committed meanwhile. `max_batches`, `time_budget`: as in `run`. The call goes on
        where an earlier one stopped. `InvalidInput` before anything is written if the branch does not fit, or a version
        cannot be repeated, such as a `migrate`.
        """
        from .branches.replay import ReplayRequest, replay
        from .run.drain import Limits
        from .run.engine import Choice

        limits = Limits(max_batches, time_budget, None, tasks)
        choice = Choice(self.opened, spark, engine, limits.tasks)
        asked = ReplayRequest(from_version, into, to_version, files, follow, operators)
        return replay(self.opened, asked, choice, limits, on_progress)

    def verify(self, deep: bool = False, on_checked: OnChecked | None = None, forgotten: bool = False) -> VerifyReport:
        """Check everything that the repository holds, and report what is damaged, missing or out of place.

        All records are read and compared with one another; the objects that they name must be there, with their sizes
        and, on S3, their ETags; so must records of publishing. `deep`: also read every byte, and count the rows of the
        newest state. A published file that is missing is no problem, because consumers may move files.

        `forgotten`: also read everything that is kept and published, and report objects with a key that `forget`
        removed.

        `problems` of the report is empty if all is well. Each names an object, what is wrong, what it affects, and what
        to do. `on_checked`: called with the number of checked objects and of all. The call writes nothing, and may run
        beside anything else. `InvalidInput` if there is no repository.
        """
        from .verifying.verify import verify

        return verify(self.opened, deep, on_checked, forgotten)


def open(
    pipeline: Pipeline | Loaded,
    root: str | None = None,
    branch: str = "main",
    conf: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Repository:
    """Open the repository of a pipeline under `root`. The call checks its arguments, and writes nothing.

    `pipeline`: a `tm.Pipeline`, or the result of `tm.load`. `root`: `s3://bucket/prefix`, `file:///dir` or a folder,
    which may hold the repositories of several pipelines. Default: the environment variable `TIDEMILL_ROOT`. `branch`:
    another branch than `main`, by its name; it is looked up in the repository. `conf`: settings whose keys begin with
    `tidemill.` or `spark.`; they take precedence over the environment and `tidemill.toml`.
    `storage_options`: options for the stores, as `{"root": {…}, "source": {…}, "sink": {…}}`.

    `InvalidInput` for a wrong argument, such as an unknown setting, credentials in a URI, or an unusable sink folder.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("counts")
    >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
    >>> r = tm.open(p, root="memory://docs")
    >>> r.init().pipeline
    'counts'
    """
    return Repository(open_repository(pipeline, root, branch, conf, storage_options))

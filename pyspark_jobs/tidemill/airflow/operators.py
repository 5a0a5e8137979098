"""The operators: each runs one verb of the command line as a task. `process` starts it, `report` words the log.

INVARIANT: a task never decides what is committed. It succeeds if the command reports success or nothing to do. It
asks Airflow for a retry only if a retry can help. It leaves no process behind.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.log import mask_secret

from ..counts import versions_of
from ..errors import InvalidInput, TidemillError
from . import report
from .assets import alias_of, announce
from .checks import check_mapping, check_root, check_storage_options, is_absent, locate, seconds_of
from .command import Command, Event, Exit, Outcome
from .hidden import hide, reveal
from .options import DEFAULT_STALL
from .process import Child

if TYPE_CHECKING:
    from airflow.sdk import Context


_FINAL_KINDS = {"InvalidInput", "CorruptState", "Fenced"}


class _VerbOperator(BaseOperator):
    """Runs one verb of the command line. Subclasses name the verb and its options."""

    verb: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ("branch", "engine")
    template_fields: Sequence[str] = ("pipeline", "root", "python", "cwd", "conf", "env", "storage_options", *options)
    ui_color = "#cfe8ef"

    def __init__(
        self,
        *,
        pipeline: str,
        root: str,
        branch: str = "main",
        engine: str | None = "auto",
        python: str | None = None,
        cwd: str | None = None,
        conf: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Mapping[str, Any]] | None = None,
        stall_timeout: timedelta | float | None = DEFAULT_STALL,
        rows_in_exceptions: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_mapping("conf", conf, '{"tidemill.block_rows": 65536}')
        check_mapping("env", env, '{"AWS_PROFILE": "lake"}')
        check_storage_options(storage_options)
        seconds_of("stall_timeout", stall_timeout)
        self.pipeline = pipeline
        self.root = root
        self.branch = branch
        self.engine = engine
        self.python = python
        self.cwd = cwd
        self.conf = hide(conf)
        self.env = hide(env)
        self.storage_options = hide(storage_options)
        self.stall_timeout = stall_timeout
        self.rows_in_exceptions = rows_in_exceptions
        self._child: Child | None = None

    def execute(self, context: Context) -> Mapping[str, Any]:
        """Run the command to its end. Return what it did, always with the same keys."""
        command = self._command(context)
        child = self._child = Child(
            command,
            self._log_event,
            lambda line, level: self.log.log(level, "%s", line),
            python=None if is_absent(self.python) else self.python,
            env=reveal(self.env, mask_secret),
            stall_s=seconds_of("stall_timeout", self.stall_timeout),
        )
        try:
            outcome = self._run(child)
        except TidemillError as error:
            raise AirflowFailException(str(error)) from error
        except BaseException:
            self.log.warning("tidemill: interrupted after it had committed %s", versions_of(child.versions))
            raise
        if outcome.survivors:
            self.log.error("tidemill: the system did not end the processes %s", ", ".join(map(str, outcome.survivors)))
        if outcome.ended is None and outcome.result is not None and outcome.status in (Exit.DONE, Exit.NOTHING):
            for line in report.summary(outcome):
                self.log.info("%s", line)
            self._succeeded(context, outcome.result)
            return report.xcom(outcome.result)
        if outcome.earlier:
            self.log.warning("tidemill: an earlier try of this task had committed %s", versions_of(outcome.earlier))
        self.log.error("%s", report.failure(command, outcome, with_rows=True))
        raise _exception(command, outcome, self.rows_in_exceptions)

    def _succeeded(self, context: Context, result: Event) -> None:
        """Do what follows the success of the command. By default nothing."""

    def on_kill(self) -> None:
        """Stop the command and every process that it started."""
        if self._child is not None:
            self._child.end("Airflow ended the task")

    def _command(self, context: Context) -> Command:
        folder = os.path.dirname(os.path.abspath(context["dag"].fileloc))
        try:
            return Command(
                verb=self.verb,
                pipeline=locate(self.pipeline, folder),
                root=check_root(self.root),
                options=self._options(),
                conf=reveal(self.conf, mask_secret),
                storage_options=reveal(self.storage_options, mask_secret),
                cwd=self._working_folder(folder),
            )
        except InvalidInput as error:
            raise AirflowFailException(str(error)) from error

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.options}

    def _working_folder(self, dag_folder: str) -> str | None:
        """Return the folder of the command: `cwd`, else that of the DAG file, else (in a zip file) the worker's."""
        if self.cwd is not None and not is_absent(self.cwd):
            return os.path.normpath(os.path.join(dag_folder, self.cwd))
        return dag_folder if os.path.isdir(dag_folder) else None

    def _run(self, child: Child) -> Outcome:
        """Run the command with its lines in a folded log group, so that the summary is the first visible line."""
        self.log.info("::group::tidemill %s: progress and driver log", self.verb)
        try:
            return child.run()
        finally:
            self.log.info("::endgroup::")

    def _log_event(self, event: Event) -> None:
        if event["event"] == "progress":
            self.log.info("%s", report.progress(event))


class BatchOperator(_VerbOperator):
    """Runs a verb that commits batches. With `assets`, it makes an event for each sink that the task changed."""

    options = (*_VerbOperator.options, "batch_time")
    template_fields = (*_VerbOperator.template_fields, "batch_time")

    def __init__(self, *, batch_time: str | int | None = None, assets: str | None = None, **kwargs: Any) -> None:
        if assets is not None:
            kwargs["outlets"] = [*(kwargs.get("outlets") or ()), alias_of(assets)]
        super().__init__(**kwargs)
        self.batch_time = batch_time
        self.assets = assets

    def _succeeded(self, context: Context, result: Event) -> None:
        if self.assets is not None and (names := announce(context["outlet_events"], self.assets, result)):
            self.log.info("asset events: %s", ", ".join(names))


class TidemillRunOperator(BatchOperator):
    """Run `tidemill run` as a task: process waiting files, publish, fire due timeouts.

    - `pipeline`: `path.py:name`, relative to the folder of the DAG file, or `module:name`.
    - `root`: a URI or an absolute path.
    - `branch`, `engine`: default "main" and "auto".
    - `max_batches`, `time_budget` (seconds): limits of the run. Default: none.
    - `batch_time`: replaces "now" in all batches. Default: the pipeline's rule.
    - `assets`: make an event of the asset `tidemill://ASSETS/SINK` for each sink that the task changed. Default: none.
    - `python`, `cwd`, `conf`, `env`, `storage_options`, `stall_timeout`, `rows_in_exceptions`: as in `Launch`.

    All but `assets` and the last two are templated; a null parameter counts as absent. A retry resumes after the last
    commit, and the unfinished batch of a failed try is discarded. The task fails without a retry on `InvalidInput`,
    `CorruptState` and `Fenced`. The XCom has `status`, `versions`, `already_committed`, `published`, `head`, `sinks`,
    `watermarks` and `next_deadline`.
    """

    verb = "run"
    options = (*BatchOperator.options, "max_batches", "time_budget")
    template_fields = (*BatchOperator.template_fields, "max_batches", "time_budget")

    def __init__(
        self,
        *,
        max_batches: str | int | None = None,
        time_budget: str | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_batches = max_batches
        self.time_budget = time_budget


class TidemillMaintainOperator(_VerbOperator):
    """Run `tidemill maintain` as a task: merge state, discard old versions, delete what no version needs.

    - `keep`, `keep_versions`: as in `Maintain`. Without them only leftovers of failed attempts are deleted.
    - `time_budget` (seconds): the next run does the rest.
    - `compact_sinks`: join small published files.
    - `report_only`: report what would be deleted, and change nothing.

    `engine` is "local" by default. The other arguments and the retries are those of `TidemillRunOperator`. It is safe
    beside runs.
    """

    verb = "maintain"
    options = (*_VerbOperator.options, "keep", "keep_versions", "time_budget", "compact_sinks")
    template_fields = (*_VerbOperator.template_fields, *options[2:], "report_only")

    def __init__(
        self,
        *,
        engine: str | None = "local",
        keep: str | Sequence[str] | None = None,
        keep_versions: str | int | Sequence[str] | None = None,
        time_budget: str | float | None = None,
        compact_sinks: str | bool = False,
        report_only: str | bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(engine=engine, **kwargs)
        self.keep = keep
        self.keep_versions = keep_versions
        self.time_budget = time_budget
        self.compact_sinks = compact_sinks
        self.report_only = report_only

    def _options(self) -> dict[str, Any]:
        # Airflow's operators have a method `dry_run`, so the attribute has another name.
        return {**super()._options(), "dry_run": self.report_only, "yes": True}


def _exception(command: Command, outcome: Outcome, with_rows: bool) -> AirflowException:
    """Return the exception for a failed command: one that Airflow retries, unless a retry cannot help."""
    kind = None if outcome.error is None else outcome.error.get("kind")
    permanent = outcome.status in (Exit.USAGE, Exit.FENCED) or kind in _FINAL_KINDS or outcome.not_installed
    final = permanent and outcome.ended is None
    message = report.failure(command, outcome, with_rows=with_rows)
    return (AirflowFailException if final else AirflowException)(message)

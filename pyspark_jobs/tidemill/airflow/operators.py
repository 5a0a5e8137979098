"""The operators: each runs one verb of the command line as a task. `process` starts it, `report` words the log.

INVARIANT: a task never decides what is committed. It succeeds if the command reports success or nothing to do. It
asks Airflow for a retry only if a retry can help. It leaves no process behind.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from ..counts import versions_of
from ..errors import InvalidInput, TidemillError
from . import report
from .command import (
    STORAGE_ENVIRONMENT,
    Command,
    Event,
    Exit,
    Outcome,
    check_mapping,
    check_root,
    check_storage_options,
    locate,
    merged,
)
from .process import Child

if TYPE_CHECKING:
    from airflow.sdk import Context

_FINAL_KINDS = {"InvalidInput", "CorruptState", "Fenced"}
_REMEMBERED = "tidemill_versions"


class _VerbOperator(BaseOperator):
    """Runs one verb of the command line. Subclasses name the verb and its options."""

    verb: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ("branch", "engine", "batch_time")
    template_fields: Sequence[str] = ("pipeline", "root", "python", "conf", "env", "storage_options", *options)
    ui_color = "#cfe8ef"

    def __init__(
        self,
        *,
        pipeline: str,
        root: str,
        branch: str = "main",
        engine: str = "spark",
        batch_time: str | int | None = None,
        python: str | None = None,
        conf: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_mapping("conf", conf, '{"tidemill.block_rows": 65536}')
        check_mapping("env", env, '{"AWS_PROFILE": "lake"}')
        check_storage_options(storage_options)
        self.pipeline = pipeline
        self.root = root
        self.branch = branch
        self.engine = engine
        self.batch_time = batch_time
        self.python = python
        self.conf = dict(conf or {})
        self.env = dict(env or {})
        self.storage_options = {section: dict(options) for section, options in (storage_options or {}).items()}
        self._child: Child | None = None

    def execute(self, context: Context) -> Mapping[str, Any]:
        """Run the command to its end. Return `status`, `versions`, `already_committed`, `published` and `head`."""
        command = self._command(context)
        earlier = self._recall(context)
        child = self._child = Child(command, self._log_event, self.log.info, self.python, self._environment())
        try:
            outcome = self._run(child)
        except TidemillError as error:
            raise AirflowFailException(str(error)) from error
        except BaseException:
            self.log.warning("tidemill: interrupted after it had committed %s", versions_of(child.versions))
            raise
        finally:
            self._remember(context, merged(earlier, child.versions))
        if outcome.ended is None and outcome.result is not None and outcome.status in (Exit.DONE, Exit.NOTHING):
            for line in report.summary(outcome.result, earlier):
                self.log.info(line)
            return report.xcom(outcome.result)
        raise _exception(command, outcome)

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
                options={name: getattr(self, name) for name in self.options},
                conf=self.conf,
            )
        except InvalidInput as error:
            raise AirflowFailException(str(error)) from error

    def _environment(self) -> Mapping[str, str]:
        """Return the extra environment of the child. It carries storage options, which must not be arguments."""
        if not self.storage_options:
            return self.env
        return {**self.env, STORAGE_ENVIRONMENT: json.dumps(self.storage_options)}

    def _run(self, child: Child) -> Outcome:
        """Run the command with its lines in a folded log group, so that the summary is the first visible line."""
        self.log.info("::group::tidemill %s: progress and driver log", self.verb)
        try:
            return child.run()
        finally:
            self.log.info("::endgroup::")

    def _log_event(self, event: Event) -> None:
        if event["event"] == "progress":
            self.log.info(report.progress(event))

    def _recall(self, context: Context) -> tuple[int, ...]:
        """Return the versions that earlier tries of this task committed, if Airflow keeps task state (from 3.3 on)."""
        notes: Any = context.get("task_state_store")
        found: object = None
        # The note only improves the log message. Commits do not depend on it, so errors are ignored.
        with contextlib.suppress(Exception):
            found = notes.get(_REMEMBERED) if notes is not None else None
        return tuple(version for version in found if isinstance(version, int)) if isinstance(found, list) else ()

    def _remember(self, context: Context, versions: Sequence[int]) -> None:
        notes: Any = context.get("task_state_store")
        if notes is not None and versions:
            with contextlib.suppress(Exception):
                notes.set(_REMEMBERED, list(versions))


class TidemillRunOperator(_VerbOperator):
    """Run `tidemill run` as a task: process waiting files, publish, fire due timeouts.

    - `pipeline`: `path.py:name`, relative to the folder of the DAG file, or `module:name`.
    - `root`: a URI or an absolute path.
    - `max_batches`, `time_budget` (seconds): limits of the run. Default: none.
    - `branch`, `engine`, `batch_time`, `python`, `conf`, `env`, `storage_options`: as for `tidemill_dags`.

    All of them are templated. A retry resumes after the last commit, and the unfinished batch of a failed try is
    discarded. The task fails without a retry on `InvalidInput`, `CorruptState` and `Fenced`. Returns (as XCom)
    `status`, `versions`, `already_committed`, `published` and `head`.
    """

    verb = "run"
    options = (*_VerbOperator.options, "max_batches", "time_budget")
    template_fields = (*_VerbOperator.template_fields, "max_batches", "time_budget")

    def __init__(
        self, *, max_batches: str | int | None = None, time_budget: str | float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_batches = max_batches
        self.time_budget = time_budget


class TidemillSweepOperator(_VerbOperator):
    """Run `tidemill sweep` as a task: fire due timeouts, without input. It succeeds if nothing is due.

    Arguments, retries and result are those of `TidemillRunOperator`, without `max_batches` and `time_budget`.
    """

    verb = "sweep"


def _exception(command: Command, outcome: Outcome) -> AirflowException:
    """Return the exception for a failed command: one that Airflow retries, unless a retry cannot help."""
    kind = None if outcome.error is None else outcome.error.get("kind")
    permanent = outcome.status in (Exit.USAGE, Exit.FENCED) or kind in _FINAL_KINDS or outcome.not_installed
    final = permanent and outcome.ended is None
    return (AirflowFailException if final else AirflowException)(report.failure(command, outcome))

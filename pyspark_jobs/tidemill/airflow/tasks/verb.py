"""What all operators share: one verb of the command line as a task. `process` starts it, `report` words the log.

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

from ...counts import versions_of
from ...errors import Exit, InvalidInput, TidemillError
from ..calls import report
from ..calls.checks import check_mapping, check_root_argument, check_storage_options, is_absent, locate, seconds_of
from ..calls.command import Command, Event, Outcome
from ..calls.connections import aws_variables, spark_conf
from ..calls.hidden import hide, reveal
from ..calls.options import DEFAULT_STALL
from ..calls.process import Child

if TYPE_CHECKING:
    from airflow.sdk import Context


class ConcludingOperator(BaseOperator):
    """Turns the outcome of a command into that of a task: log, XCom, exception.

    Subclasses run the command, or read its result.
    """

    accepted: ClassVar[tuple[int, ...]] = (Exit.DONE, Exit.NOTHING)
    """Exit statuses with which the command has a result."""
    final_kinds: ClassVar[frozenset[str]] = frozenset(("InvalidInput", "CorruptState", "Fenced"))
    """Kinds of errors for which a retry cannot help."""
    rows_in_exceptions: bool = False
    ui_color = "#cfe8ef"

    def _conclude(self, context: Context, command: Command, outcome: Outcome) -> Mapping[str, Any]:
        """Log the outcome, and return what becomes the XCom. Raise the exception of a command that failed."""
        if outcome.survivors:
            self.log.error("tidemill: the system did not end the processes %s", ", ".join(map(str, outcome.survivors)))
        if outcome.ended is None and outcome.result is not None and outcome.status in self.accepted:
            for line in self._summary(outcome):
                self.log.info("%s", line)
            self._succeeded(context, outcome.result)
            return self._returned(outcome)
        if outcome.earlier:
            self.log.warning("tidemill: an earlier try of this task had committed %s", versions_of(outcome.earlier))
        self.log.error("%s", report.failure_message(command, outcome, with_rows=True))
        raise self._exception(command, outcome)

    def _summary(self, outcome: Outcome) -> list[str]:
        """Return the lines for a command that has a result."""
        return report.success_lines(outcome)

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        """Return the XCom of a command that has a result. Raise an exception if the result is a failure."""
        return report.xcom(outcome.result or {})

    def _succeeded(self, context: Context, result: Event) -> None:
        """Do what follows the success of the command. By default nothing."""

    def _exception(self, command: Command, outcome: Outcome) -> AirflowException:
        """Return the exception for a failed command: one that Airflow retries, unless a retry cannot help."""
        kind = None if outcome.error is None else outcome.error.get("kind")
        is_fenced = outcome.status == Exit.FENCED and "Fenced" in self.final_kinds
        permanent = outcome.status == Exit.USAGE or is_fenced or kind in self.final_kinds or outcome.not_installed
        final = permanent and outcome.ended is None
        message = report.failure_message(command, outcome, with_rows=self.rows_in_exceptions)
        return (AirflowFailException if final else AirflowException)(message)


class VerbOperator(ConcludingOperator):
    """Runs one verb of the command line. Subclasses name the verb and its options."""

    verb: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ("branch",)
    template_fields: Sequence[str] = (
        *("pipeline", "root", "python", "cwd", "conf", "env", "storage_options", "aws_conn_id", "spark_conn_id"),
        *options,
    )

    def __init__(
        self,
        *,
        pipeline: str,
        root: str,
        branch: str = "main",
        python: str | None = None,
        cwd: str | None = None,
        conf: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Mapping[str, Any]] | None = None,
        aws_conn_id: str | None = None,
        spark_conn_id: str | None = None,
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
        self.python = python
        self.cwd = cwd
        self.conf = hide(conf)
        self.env = hide(env)
        self.storage_options = hide(storage_options)
        self.aws_conn_id = aws_conn_id
        self.spark_conn_id = spark_conn_id
        self.stall_timeout = stall_timeout
        self.rows_in_exceptions = rows_in_exceptions
        self._child: Child | None = None

    def execute(self, context: Context) -> Mapping[str, Any]:
        """Run the command to its end, and return what becomes the XCom."""
        command = self._command(context)
        child = self._child = Child(
            command,
            self._log_event,
            self._log_line,
            python=None if is_absent(self.python) else self.python,
            env=self._variables(),
            stall_s=seconds_of("stall_timeout", self.stall_timeout),
        )
        try:
            outcome = self._run(child)
        except TidemillError as error:
            raise AirflowFailException(str(error)) from error
        except BaseException:
            self.log.warning("tidemill: interrupted after it had committed %s", versions_of(child.versions))
            raise
        return self._conclude(context, command, outcome)

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
                root=check_root_argument(self.root),
                options=self._options(context),
                conf={**spark_conf(self.spark_conn_id), **reveal(self.conf, mask_secret)},
                storage_options=reveal(self.storage_options, mask_secret),
                cwd=self._working_folder(folder),
                operands=self._operands(context),
            )
        except InvalidInput as error:
            raise AirflowFailException(str(error)) from error

    def _variables(self) -> dict[str, str]:
        """Return the environment variables of the command: those of the connection, and over them `env`."""
        try:
            return {**aws_variables(self.aws_conn_id), **reveal(self.env, mask_secret)}
        except InvalidInput as error:
            raise AirflowFailException(str(error)) from error

    def _options(self, context: Context) -> dict[str, Any]:
        """Return the options of the command by name."""
        del context
        return {name: getattr(self, name) for name in self.options}

    def _operands(self, context: Context) -> Sequence[str]:
        """Return the arguments that follow the pipeline."""
        del context
        return ()

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

    def _log_line(self, line: str, level: int) -> None:
        self.log.log(level, "%s", line)


class BatchOperator(VerbOperator):
    """Runs a verb that processes batches, on an engine."""

    options: ClassVar[tuple[str, ...]] = ("branch", "engine")
    template_fields = (*VerbOperator.template_fields, "engine")

    def __init__(self, *, engine: str | None = "auto", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.engine = engine


def fields_of(outcome: Outcome) -> dict[str, Any]:
    """Return the result of a command, as XCom."""
    fields = report.with_ranges(outcome.result or {})
    return {name: value for name, value in fields.items() if name not in ("event", "verb")}

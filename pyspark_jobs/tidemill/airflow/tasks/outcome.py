"""`TidemillOutcomeOperator`: apply the result of a job that another operator ran on another machine.

INVARIANT: the result file decides, not the state of the job's task. Without a file nothing is guessed: the task fails,
and says what the commits tell of the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.log import mask_secret

from ...counts import versions_of
from ...errors import Exit, InvalidInput, StoreUnavailable, TidemillError
from ...submit import SparkJob
from ..calls import report
from ..calls.checks import check_root_argument, check_storage_options, default_name, is_absent
from ..calls.command import Command, Event, Outcome, merged
from ..calls.connections import aws_variables
from ..calls.hidden import hide, reveal
from ..waiting.heads import Heads, event_of_result, root_options, tries_in
from .operators import AnnouncingOperator
from .remote import NOTE, TRY, mapped, results_folder_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class TidemillOutcomeOperator(AnnouncingOperator):
    """Read the result of a remote job, and end as `TidemillRunOperator` does: log, XCom, asset events, failure.

    - `job`: what `spark_job` returned. The result is that of the last try of the job's task.
    - `job_task_id`: the task that runs the job. Default: the only task before this one.
    - `result`: a result file, in place of that of `job`.
    - `name`: the name of the pipeline in its code, `tm.Pipeline(NAME)`, by which the commits of a job without a result
      are found. Default: that of the file or module.
    - `pipeline`, `root`, `branch`: default: those of `job`.
    - `assets`: make an event of the asset `tidemill://ASSETS/SINK` for each sink that the job changed. Default: none.
    - `env`, `storage_options`, `aws_conn_id`: credentials of this task, to read the result: variables of AWS, the
      section `root`, and an AWS connection of Airflow, over which the others win.
    - `rows_in_exceptions`: as in `Launch`.

    It runs when the job has ended, also after a failure (`trigger_rule` is `all_done`). If the job's task was skipped
    and left no result, it is skipped too. An error in the result fails the task without a retry, because the result
    stays as it is; clear the job's task to run again. A store that is away, and a result that is missing, are retried.
    The XCom is that of `TidemillRunOperator`.
    """

    template_fields = ("pipeline", "root", "branch", "result", "name", "env", "storage_options", "aws_conn_id")

    def __init__(
        self,
        *,
        job: SparkJob | None = None,
        job_task_id: str | None = None,
        result: str | None = None,
        name: str | None = None,
        pipeline: str | None = None,
        root: str | None = None,
        branch: str | None = None,
        env: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Mapping[str, Any]] | None = None,
        aws_conn_id: str | None = None,
        rows_in_exceptions: bool = False,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("trigger_rule", "all_done")
        super().__init__(**kwargs)
        check_storage_options(storage_options)
        if job is None and (result is None or pipeline is None or root is None):
            raise InvalidInput(
                "TidemillOutcomeOperator got no job", hint="pass `job=`, or `result`, `pipeline`, `root`"
            )
        if job is not None and job.result is None and result is None:
            raise InvalidInput("the job of TidemillOutcomeOperator writes no result", hint="make it with `spark_job`")
        self.pipeline = pipeline or (job.pipeline if job else "")
        self.root = root or (job.root if job else "")
        self.branch = branch or (job.branch if job else "main")
        self.job_task_id = job_task_id
        place = job.result if job else None
        is_by_try = place is not None and TRY in place
        self.result = result or (None if is_by_try else place)
        self.job_result = place
        self.name = name
        self.env = hide(env)
        self.storage_options = hide(storage_options)
        self.aws_conn_id = aws_conn_id
        self.rows_in_exceptions = rows_in_exceptions

    def execute(self, context: Context) -> Mapping[str, Any]:
        """Read the result and apply it."""
        command = Command(verb="run", pipeline=self.pipeline, root=self.root)
        try:
            place = self._place(context)
            found = None if place is None else event_of_result(place, self._options())
        except StoreUnavailable as error:
            raise AirflowException(str(error)) from error
        except TidemillError as error:
            raise AirflowFailException(str(error)) from error
        if found is None:
            self._skip_if_skipped(context)
            raise AirflowException(self._missing(context, place))
        self.log.info("tidemill: the result is `%s`", place)
        return self._conclude(context, command, outcome_of(found))

    def _place(self, context: Context) -> str | None:
        """Return the result that the last try of the job has left, or None if it has left none."""
        if not is_absent(self.result):
            return self.result
        ti, task_id = context["ti"], self._job_task()
        noted = ti.xcom_pull(task_ids=task_id, key=NOTE, map_indexes=mapped(ti.map_index))
        before = noted.get("before", ()) if isinstance(noted, Mapping) else ()
        folder = self._folder(context, task_id)
        new = [number for number in tries_in(folder, self._options()) if number not in before]
        return f"{folder}{new[-1]}.json" if new else None

    def _skip_if_skipped(self, context: Context) -> None:
        """Skip this task if that of the job was skipped, so that there is no job."""
        ti, task_id = context["ti"], self._job_task() if is_absent(self.result) else self.job_task_id
        if task_id is None:
            return
        run, index = context["dag_run"], mapped(ti.map_index)
        states = ti.get_task_states(dag_id=run.dag_id, task_ids=[task_id], run_ids=[run.run_id]).get(run.run_id, {})
        if states.get(task_id if index is None else f"{task_id}_{index}") == "skipped":
            raise AirflowSkipException(f"task `{task_id}`, which runs the job, was skipped")

    def _folder(self, context: Context, task_id: str) -> str:
        return str(self.render_template(results_folder_of(str(self.job_result), task_id), context))

    def _job_task(self) -> str:
        before = sorted(self.upstream_task_ids)
        if self.job_task_id is None and len(before) != 1:
            raise InvalidInput(
                f"task `{self.task_id}` follows {len(before)} tasks, expected the one that runs the job",
                hint="name it: `job_task_id=…`",
            )
        return self.job_task_id or before[0]

    def _options(self) -> dict[str, Any]:
        variables = {**aws_variables(self.aws_conn_id), **reveal(self.env, mask_secret)}
        return root_options(reveal(self.storage_options, mask_secret), variables)

    def _exception(self, command: Command, outcome: Outcome) -> AirflowException:
        return AirflowFailException(report.failure_message(command, outcome, with_rows=self.rows_in_exceptions))

    def _missing(self, context: Context, place: str | None) -> str:
        """Return the message for a job without a result, with what the commits tell of it."""
        task_id = self.job_task_id if not is_absent(self.result) else self._job_task()
        where = f"at `{place}`" if place or task_id is None else f"in `{self._folder(context, task_id)}`"
        lines = [f"the job of `{self.pipeline}` left no result {where}: it did not start, was killed, or still runs"]
        if task_id is not None:
            lines.append(self._by_commits(context, task_id))
        return "\n".join(
            [*lines, "hint: see the driver's log on its platform; commits are final, and a new try resumes after them"]
        )

    def _by_commits(self, context: Context, task_id: str) -> str:
        run = context["dag_run"]
        task = {"dag_id": str(run.dag_id), "task_id": task_id, "dag_run_id": str(run.run_id)}
        if run.logical_date is not None:
            task["logical_date"] = run.logical_date.isoformat()
        try:
            name = default_name(self.pipeline) if is_absent(self.name) else str(self.name)
            versions = Heads(check_root_argument(self.root), name, self.branch, self._options()).committed_by(task)
        except TidemillError as error:
            return f"its commits cannot be read: {error.message}"
        made = f"committed {versions_of(versions)}" if versions else "committed nothing"
        return f"by the commits of the repository, task `{task_id}` has {made} in this DAG run"


def outcome_of(found: Event) -> Outcome:
    """Return the outcome of the command that wrote a result file."""
    versions, earlier = (
        merged([one for one in found.get(key) or () if isinstance(one, int)]) for key in ("versions", "earlier")
    )
    if found["event"] == "error":
        status = Exit.FENCED if found.get("kind") == "Fenced" else Exit.FAILED
        return Outcome(status=status, error=found, versions=versions, earlier=earlier)
    status = Exit.NOTHING if found.get("status") == "nothing" else Exit.DONE
    return Outcome(status=status, result=found, versions=versions, earlier=earlier)

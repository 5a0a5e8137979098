"""The tasks of `NAME__replay`, a backfill as a pull request: branch, replay, diff, approve, promote, drop.

INVARIANT: nothing is promoted without the consent that the form asks for. "if equal" promotes exactly what was
compared. After an approval, versions that are not repeated yet are replayed first, also those committed meanwhile. A
failed run keeps its branch, so that a cleared task continues; any other end drops it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowSkipException

from ..calls.checks import seconds_of
from ..calls.options import OUTPUT_CHOICES, PROMOTE, Replay
from ..tasks.action_operators import TidemillPromoteOperator
from ..tasks.branching import (
    TidemillBranchOperator,
    TidemillDiffOperator,
    TidemillReplayOperator,
)
from .form import Form

if TYPE_CHECKING:
    from airflow.sdk import Context

_NEVER, _IF_EQUAL, _AFTER_APPROVAL = PROMOTE
_FAILED = ("failed", "upstream_failed")
_OF_DIFF = "{{{{ ti.xcom_pull(task_ids='diff')['{key}'] }}}}"
_REASON = (
    "{% set user = (ti.xcom_pull(task_ids='approve') or {}).get('responded_by_user') %}"
    "{{ params.reason or 'replay by ' ~ run_id }}{% if user %}; approved by {{ user.name }}{% endif %}"
)


def replay_fields(form: Form, replay: Replay, pipeline: str) -> dict[str, Any]:
    """Add the fields of the form, and return the template of each value."""
    return {
        "from_version": form.version("from_version", "First version to repeat.", is_required=True),
        "to_version": form.version("to_version", "Last version to repeat. Default: the newest, and all that follow."),
        "operators": form.text("operators", None, "Compute only these, with commas between them. Default: all."),
        "code": form.text("code", pipeline, "The code: `module:name` or `path.py:name`."),
        "engine": form.engine(replay.engine),
        "outputs": form.choice(
            "outputs", replay.outputs, OUTPUT_CHOICES, "`correct` replaces what was published, `keep` leaves it."
        ),
        "promote": form.choice("promote", replay.promote, PROMOTE, "When the pipeline takes over the branch."),
        "reason": form.text("reason", None, "Why. The promotion records it."),
        "keep_branch": form.flag("keep_branch", "Do not drop the branch at the end."),
    }


def replay_tasks(fields: Mapping[str, Any], replay: Replay, arguments: Mapping[str, Any]) -> None:
    """Create the tasks in the DAG at hand. `fields` are the templates that `replay_fields` returned."""
    ours = {**arguments, "pipeline": fields["code"]}
    branch = TidemillBranchOperator(
        task_id="branch", at="{{ params.from_version - 1 }}", reason="{{ run_id }} of {{ dag.dag_id }}", **ours
    )
    again = TidemillReplayOperator(
        task_id="replay",
        follow=True,
        **{name: fields[name] for name in ("from_version", "to_version", "operators", "engine")},
        **ours,
    )
    diff = TidemillDiffOperator(task_id="diff", largest_changes=replay.largest_changes, **ours)
    approve = Approval(
        task_id="approve",
        subject="Promote the replay from version {{ params.from_version }}?",
        body=_OF_DIFF.format(key="markdown"),
        promote=fields["promote"],
        is_equal=_OF_DIFF.format(key="is_equal"),
        behind=_OF_DIFF.format(key="behind"),
        defaults=ApprovalOperator.REJECT,
        response_timeout=timedelta(seconds=seconds_of("response_timeout", replay.response_timeout) or 0) or None,
        assigned_users=replay.assigned_users,
        retries=1,
    )
    promote = TidemillPromoteOperator(
        task_id="promote",
        outputs=fields["outputs"],
        engine=fields["engine"],
        catch_up="{{ params.promote != '" + _IF_EQUAL + "' }}",
        reason=_REASON,
        **ours,
    )
    drop = Drop(task_id="drop", drop=True, keep=fields["keep_branch"], **ours)
    branch >> again >> diff >> approve >> promote >> drop.as_teardown(setups=branch.as_setup())  # type: ignore[no-untyped-call]


class Approval(ApprovalOperator):
    """Decides on the promotion as the form says: never, if nothing differs, or by asking.

    It skips the promotion, or lets it follow. `promote` is one of `PROMOTE`. `is_equal` says whether nothing differs,
    and `behind` which versions were not repeated, and so not compared.
    """

    template_fields = (*ApprovalOperator.template_fields, "promote", "is_equal", "behind")

    def __init__(self, *, promote: str, is_equal: str | bool, behind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.promote = promote
        self.is_equal = is_equal
        self.behind = behind

    def execute(self, context: Context) -> Any:
        """Ask, unless the form has decided."""
        if self.promote == _AFTER_APPROVAL:
            return super().execute(context)
        why = self._why_not()
        if why is None:
            self.log.info("tidemill: nothing differs, so the branch is promoted")
            return None
        self.log.info("tidemill: nothing is promoted, because %s", why)
        following = [task for task in context["task"].get_direct_relatives(upstream=False) if not task.is_teardown]
        self.skip(ti=context["ti"], tasks=following)
        return None

    def _why_not(self) -> str | None:
        """Return why the form forbids the promotion, or None."""
        if self.promote == _NEVER:
            return "the form says `never`"
        if self.is_equal not in (True, "True"):
            return "the branch differs"
        if self.behind not in ("[]", "None", ""):
            return f"the versions {self.behind} were not compared; leave `to_version` empty, or trigger it again"
        return None


class Drop(TidemillBranchOperator):
    """Ends the branch of the DAG run, unless a task of the run has failed, or `keep` is true."""

    template_fields = (*TidemillBranchOperator.template_fields, "keep")

    def __init__(self, *, keep: str | bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep = keep

    def execute(self, context: Context) -> Mapping[str, Any]:
        """Drop the branch. Skip the task if the branch stays."""
        (name,) = self._operands(context)
        if self.keep in (True, "True"):
            raise AirflowSkipException(f"branch `{name}` stays, as the form says")
        dag_id, run_id = context["dag"].dag_id, str(context["run_id"])
        states = context["ti"].get_task_states(dag_id=dag_id, run_ids=[run_id]).get(run_id, {})
        failed = sorted(task for task, state in states.items() if state in _FAILED)
        if failed:
            tasks = ", ".join(f"`{task}`" for task in failed)
            raise AirflowSkipException(
                f"branch `{name}` stays, because {tasks} failed; clear the task to continue, or end the branch with "
                f"`tidemill branch {self.pipeline} {name} --drop --root {self.root}`"
            )
        return super().execute(context)

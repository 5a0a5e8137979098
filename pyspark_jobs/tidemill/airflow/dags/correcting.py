"""The tasks of `NAME__correct`: say what a correction would do, ask, and make it.

INVARIANT: nothing is corrected but what a dry run of the same DAG run has shown, and not without the consent that the
form asks for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException

from ..calls.checks import seconds_of
from ..calls.command import Command, Outcome
from ..calls.options import CARRY_OUT, Correct
from ..tasks.actions import CorrectionOperator
from ..tasks.correction_form import FIELDS, correction_markdown, fault_of, helps
from .form import Form

if TYPE_CHECKING:
    from airflow.sdk import Context

_NEVER, _AT_ONCE, _AFTER_APPROVAL = CARRY_OUT
_REASON = (
    "{% set user = (ti.xcom_pull(task_ids='approve') or {}).get('responded_by_user') %}"
    "{{ params.reason }}{% if user %}; approved by {{ user.name }}{% endif %}"
)
_EXPECT = "{{ ti.xcom_pull(task_ids='preview')['requires'] }}"


def correct_fields(form: Form, correct: Correct) -> dict[str, Any]:
    """Add the fields of the form, and return the template of each value."""
    return {
        "correction": form.required_choice("correction", tuple(FIELDS), "What to do."),
        "reason": form.required_text("reason", "Why. The commit records it."),
        **{
            name: form.lines(name, said) if has_lines else form.text(name, None, said)
            for name, (said, has_lines) in helps().items()
        },
        "carry_out": form.choice("carry_out", correct.carry_out, CARRY_OUT, "When the correction is made."),
    }


def correct_tasks(fields: Mapping[str, Any], correct: Correct, arguments: Mapping[str, Any]) -> None:
    """Create the tasks in the DAG at hand. `fields` are the templates that `correct_fields` returned."""
    given = {"correction": fields["correction"], "values": {name: fields[name] for name in helps()}}
    preview = Correction(task_id="preview", report_only=True, reason=fields["reason"], **given, **arguments)
    approve = Consent(
        task_id="approve",
        subject="Make this correction ({{ params.correction }})?",
        body="{{ ti.xcom_pull(task_ids='preview')['markdown'] }}",
        carry_out=fields["carry_out"],
        defaults=ApprovalOperator.REJECT,
        response_timeout=timedelta(seconds=seconds_of("response_timeout", correct.response_timeout) or 0) or None,
        assigned_users=correct.assigned_users,
        retries=1,
    )
    preview >> approve >> Correction(task_id="correct", reason=_REASON, expect=_EXPECT, **given, **arguments)


class Correction(CorrectionOperator):
    """Makes the correction that `correction` names, with the fields that belong to it. Any other field is refused.

    `values`: the fields of the form by name; null and `None` are absent.
    """

    verb = "correct"
    template_fields = (*CorrectionOperator.template_fields, "correction", "values")

    def __init__(self, *, correction: str, values: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.correction = correction
        self.values = values

    @property
    def _action(self) -> str:
        return self.correction

    def _values(self, context: Context) -> dict[str, Any]:
        del context
        found = {name: self.values[name] for name in FIELDS[self.correction]}
        return {**found, "file": str(found["file"]).strip()} if "file" in found else found

    def _command(self, context: Context) -> Command:
        problem = fault_of(self.correction, self.values)
        if problem is not None:
            raise AirflowFailException(problem)
        return dataclasses.replace(super()._command(context), verb=self.correction)

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        found = dict(super()._returned(outcome))
        return {**found, "markdown": correction_markdown(self.correction, found)}


class Consent(ApprovalOperator):
    """Decides on a correction as the form says: never, at once, or by asking. It skips it, or lets it follow."""

    template_fields = (*ApprovalOperator.template_fields, "carry_out")

    def __init__(self, *, carry_out: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.carry_out = carry_out

    def execute(self, context: Context) -> Any:
        """Ask, unless the form has decided."""
        if self.carry_out == _AFTER_APPROVAL:
            return super().execute(context)
        if self.carry_out == _NEVER:
            self.log.info("tidemill: nothing is corrected, because the form says `never`")
            self.skip(ti=context["ti"], tasks=context["task"].get_direct_relatives(upstream=False))
        return None

"""The base classes of the operators of actions. The operators themselves are in `action_operators.py`.

INVARIANT: every task may be retried and cleared. It does not repeat an action that an earlier try carried out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from ...actions.registry import ACTIONS
from ...counts import versions_of
from ...errors import Exit, InvalidInput
from ..calls.checks import is_absent, is_true
from ..calls.command import Command, Outcome
from .correction_form import ARGUMENTS, command_line, options_with_values
from .pull_request import name_of_branch
from .verb import VerbOperator, fields_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class ActionOperator(VerbOperator):
    """Runs an action. A subclass has the fields of its action as arguments."""

    template_fields = (*VerbOperator.template_fields, "report_only", "expect")

    def __init__(self, *, report_only: str | bool = False, expect: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.report_only = report_only  # the method `dry_run` is Airflow's
        self.expect = expect
        self._has_agreed = expect is not None

    @property
    def _is_dry(self) -> bool:
        return is_true("report_only", self.report_only)

    def _agreed(self) -> str | None:
        """Return what was agreed to. `InvalidInput` if it was given, but a template made nothing of it."""
        if self._has_agreed and (is_absent(self.expect) or not isinstance(self.expect, str)):
            raise InvalidInput(
                f"expect is {self.expect!r}, expected what a dry run requires; nothing was done",
                hint="give what a task with report_only returned: {{ ti.xcom_pull(task_ids='preview')['requires'] }}",
            )
        return self.expect

    @property
    def _action(self) -> str:
        """The verb of the action."""
        return self.verb

    def _values(self, context: Context) -> dict[str, Any]:
        """Return the values of the action's arguments."""
        del context
        return {name: getattr(self, name) for name in ARGUMENTS[self._action]}

    def _options(self, context: Context) -> dict[str, Any]:
        may_be_made = {"if_needed": True} if ACTIONS[self._action].knows_tries else {}
        how = {"dry_run": True} if self._is_dry else {**may_be_made, "yes": True}
        own, _ = command_line(self._action, self._values(context))
        return {**super()._options(context), **how, "expect": self._agreed(), **own}

    def _operands(self, context: Context) -> Sequence[str]:
        return command_line(self._action, self._values(context))[1]

    def _command(self, context: Context) -> Command:
        made = super()._command(context)
        return dataclasses.replace(made, texts=made.texts | options_with_values(self._action))

    def _exception(self, command: Command, outcome: Outcome) -> AirflowException:
        """Return the exception. With `expect`, a retry cannot help, because the repository never becomes as it was."""
        made = super()._exception(command, outcome)
        is_final = outcome.status == Exit.FENCED and not is_absent(self.expect) and outcome.ended is None
        return AirflowFailException(str(made)) if is_final else made


class CorrectionOperator(ActionOperator):
    """Runs a correction, which makes one commit with a reason."""

    final_kinds = frozenset(("InvalidInput", "CorruptState"))
    """If another run commits first (`Fenced`), nothing has changed, so the task is retried."""
    options: ClassVar[tuple[str, ...]] = ("branch", "reason")
    template_fields = (*VerbOperator.template_fields, "reason", "report_only", "expect")

    def __init__(
        self,
        *,
        reason: str,
        report_only: str | bool = False,
        expect: str | None = None,
        multiple_outputs: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(report_only=report_only, expect=expect, multiple_outputs=multiple_outputs, **kwargs)
        self.reason = reason

    def _summary(self, outcome: Outcome) -> list[str]:
        done = outcome.result or {}
        if done.get("already_committed"):
            return [f"tidemill: an earlier try made this correction, in {versions_of(done['already_committed'])}"]
        made = "nothing is changed yet" if self._is_dry else f"corrected in {versions_of(done.get('versions') or [])}"
        return [f"tidemill: {made}", *(f"tidemill: {line}" for line in done.get("changes") or ())]

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        return fields_of(outcome)


class PromotionOperator(ActionOperator):
    """Runs a promotion, on an engine if a replay comes first. Without a name, the branch is that of the DAG run.

    A promotion that was made already is a success, also if the branch was dropped since.
    """

    final_kinds = frozenset(("InvalidInput", "CorruptState"))
    options: ClassVar[tuple[str, ...]] = ("branch", "engine", "reason")
    template_fields = (*ActionOperator.template_fields, "engine", "reason")

    def __init__(
        self, *, engine: str | None = "auto", reason: str | None = None, multiple_outputs: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.engine = engine
        self.reason = reason

    def _values(self, context: Context) -> dict[str, Any]:
        found = super()._values(context)
        if not is_absent(self.expect):  # a dry run cannot show what a replay will make
            found["catch_up"] = False
        return {**found, "name": name_of_branch(found["name"], context)}

    def _summary(self, outcome: Outcome) -> list[str]:
        done = outcome.result or {}
        if done.get("already_committed"):
            before = versions_of(done["already_committed"])
            return [f"tidemill: `{done.get('branch')}` was promoted before, in {before}"]
        if self._is_dry:
            changes = done.get("changes") or ()
            return ["tidemill: nothing is changed yet", *(f"tidemill: {line}" for line in changes)]
        made = f"tidemill: promoted `{done.get('branch')}` in {versions_of(done.get('versions') or [])}"
        return [made, *([f"tidemill: replaced {versions_of(done['replaced'])}"] if done.get("replaced") else [])]

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        return fields_of(outcome)


class UpkeepOperator(ActionOperator):
    """Runs upkeep on an engine, by default in its own process. It is safe beside runs."""

    options: ClassVar[tuple[str, ...]] = ("branch", "engine", "reason")
    template_fields = (*ActionOperator.template_fields, "engine", "reason")

    def __init__(self, *, engine: str | None = "local", reason: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.engine = engine
        self.reason = reason

    def _summary(self, outcome: Outcome) -> list[str]:
        changes = (outcome.result or {}).get("changes") or () if self._is_dry else ()
        return [*super()._summary(outcome), *(f"tidemill: {line}" for line in changes)]

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        done = outcome.result or {}
        agreed = {name: done.get(name) for name in ("requires", "changes")} if self._is_dry else {}
        return {**super()._returned(outcome), **agreed}

"""What operators of corrections share, and the operator of verify. Those of actions are in `action_operators.py`.

INVARIANT: every task may be retried and cleared. A correction that an earlier try made, with the same reason, is not
made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from ...counts import count_of, versions_of
from ...errors import Exit
from ..calls.checks import is_absent
from ..calls.command import Command, Outcome
from .correction_form import ARGUMENTS, command_line
from .verb import VerbOperator, fields_of

if TYPE_CHECKING:
    from airflow.sdk import Context

_MOST_PROBLEMS = 20
"""How many problems an exception names. The log has all of them."""


class CorrectionOperator(VerbOperator):
    """Runs an action, which makes one commit with a reason. A subclass has the fields of its action as arguments."""

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
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.reason = reason
        self.report_only = report_only
        self.expect = expect

    @property
    def _is_dry(self) -> bool:
        return self.report_only in (True, "True", "true")

    @property
    def _action(self) -> str:
        """The verb of the action."""
        return self.verb

    @property
    def _values(self) -> dict[str, Any]:
        """The values of the action's fields."""
        return {name: getattr(self, name) for name in ARGUMENTS[self._action]}

    def _options(self, context: Context) -> dict[str, Any]:
        how = {"dry_run": True} if self._is_dry else {"if_needed": True, "yes": True}
        own, _ = command_line(self._action, self._values)
        return {**super()._options(context), **how, "expect": self.expect, **own}

    def _operands(self, context: Context) -> Sequence[str]:
        del context
        return command_line(self._action, self._values)[1]

    def _exception(self, command: Command, outcome: Outcome) -> AirflowException:
        """Return the exception. With `expect`, a retry cannot help, because the repository never becomes as it was."""
        made = super()._exception(command, outcome)
        is_final = outcome.status == Exit.FENCED and not is_absent(self.expect) and outcome.ended is None
        return AirflowFailException(str(made)) if is_final else made

    def _summary(self, outcome: Outcome) -> list[str]:
        done = outcome.result or {}
        if done.get("already_committed"):
            return [f"tidemill: an earlier try made this correction, in {versions_of(done['already_committed'])}"]
        made = "nothing is changed yet" if self._is_dry else f"corrected in {versions_of(done.get('versions') or [])}"
        return [f"tidemill: {made}", *(f"tidemill: {line}" for line in done.get("changes") or ())]

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        return fields_of(outcome)


class TidemillVerifyOperator(VerbOperator):
    """Run `tidemill verify` as a task: fail without a retry if anything that the repository holds is damaged.

    - `deep`: also read every byte, and count the rows of the newest state.
    - `forgotten`: also look for keys that `forget` removed.

    It changes nothing. The other arguments are those of `TidemillRunOperator`, without an engine. Returns (as XCom) the
    counts of the command's result: `commits`, `objects`, `bytes`, `published`, `unnamed`, `deep`, ….
    """

    verb = "verify"
    options = ("branch", "deep", "forgotten")
    template_fields = (*VerbOperator.template_fields, *options[1:])
    accepted = (Exit.DONE, Exit.FAILED)

    def __init__(
        self, *, deep: str | bool = False, forgotten: str | bool = False, multiple_outputs: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.deep = deep
        self.forgotten = forgotten

    def _summary(self, outcome: Outcome) -> list[str]:
        found = outcome.result or {}
        checked = f"{count_of(found['commits'], 'commit')} and {count_of(found['objects'], 'object')}"
        problems = [f"tidemill: {line}" for one in found["problems"] for line in _problem(one)]
        return [f"tidemill: checked {checked}: {count_of(len(found['problems']), 'problem')}", *problems]

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        found = outcome.result or {}
        if found["problems"]:
            lines = [line for one in found["problems"][:_MOST_PROBLEMS] for line in _problem(one)]
            raise AirflowFailException(
                "\n".join([f"{count_of(len(found['problems']), 'problem')}: {lines[0]}", *lines[1:]])
            )
        return fields_of(outcome)


def _problem(one: Mapping[str, str]) -> list[str]:
    return [f"{one['object']}: {one['what']}", f"  affects: {one['affects']}", f"  hint: {one['hint']}"]

"""A test-only action in one new file: a commit that changes nothing but says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.actions.contract import ActionPlan, CommitAction, Option, SeenBranch, option
from tidemill.values import dataclass

if TYPE_CHECKING:
    from tidemill.protocol.kinds import Changes
    from tidemill.protocol.records import Commit
    from tidemill.protocol.successor import Origin
    from tidemill.publishing.rest import Writing
    from tidemill.repo.opened import Opened


@dataclass(frozen=True, kw_only=True)
class NotePlan(ActionPlan):
    """What the note says."""

    text: str

    def lines(self) -> list[str]:
        return [f"a note will say {self.text}"]


@dataclass(frozen=True, kw_only=True)
class Note(CommitAction):
    """Write a note into the log."""

    verb = "note"
    kind = "void"
    operator_base = "CorrectionOperator"
    method = """Write a note into the log. `loud`: in capital letters. The commit records it as its `reason`."""

    loud: bool = option(Option("Use capital letters.", form="use capital letters.", parsed="flag"), False)
    reason: str = option(Option("What the note says."))

    @property
    def said_reason(self) -> str:
        return self.reason.upper() if self.loud else self.reason

    def look(self, repo: Opened, seen: SeenBranch) -> NotePlan:
        return NotePlan(verb=self.verb, seen=seen, text=self.said_reason)

    def prepare(self, repo: Opened, plan: NotePlan, origin: Origin, to: Writing) -> Changes:
        return {"reason": plan.text}

    def done(self, plan: NotePlan, made: Commit) -> str:
        return f"version {made.version} says {plan.text}"

"""`DropBranch`: end a branch. `maintain` then deletes the objects that only it needed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ..values import dataclass
from .contract import ActionPlan, EntryAction, MadeBefore, Option, SeenRefs, option

if TYPE_CHECKING:
    from ..branches.branch import BranchInfo
    from ..protocol.entries import Entry
    from ..protocol.refs import Refs
    from ..repo.opened import Opened


@dataclass(frozen=True, kw_only=True)
class DropBranchPlan(ActionPlan):
    """The branch that will end, as it is."""

    branch: BranchInfo

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        return [f"branch `{self.branch.name}` ends; its versions can no longer be read"]

    def content(self) -> Any:
        """Return all that will happen. With more versions, more can no longer be read."""
        return [self.branch.id, self.branch.head]

    def as_dict(self) -> dict[str, Any]:
        """Return what will happen, for machines."""
        return {**dataclasses.asdict(self.branch), **super().as_dict()}


@dataclass(frozen=True, kw_only=True)
class DropBranch(EntryAction):
    """End the branch NAME. `maintain` then deletes what only it needed."""

    verb = "drop_branch"
    flag = Option("End the branch.", flag="drop", parsed="flag")
    knows_tries = True
    none_if_made = True
    made_if = "the branch does not exist"
    method = """End the branch `name`, and return what it was. `maintain` then deletes the objects that only it needed.

    The entry records `reason`. `InvalidInput` for an unknown branch, for `main`, or while a tag or another branch
    needs its versions.
    """

    name: str = option(Option("The branch.", is_argument=True))
    reason: str = option(Option("Why. The entry records it."), "")

    def made_before(self, repo: Opened) -> MadeBefore | None:
        """Return that there is no such branch, if that is so."""
        if self.name in repo.refresh().branches:
            return None
        return MadeBefore(None, f"there is no branch `{self.name}`", fields={"name": self.name})

    def look(self, repo: Opened, seen: SeenRefs) -> DropBranchPlan:
        """Return what will happen. `InvalidInput` for an unknown branch, or one that is needed."""
        from ..branches.branch import droppable

        return DropBranchPlan(verb=self.verb, seen=seen, branch=droppable(repo, seen.refs, self.name))

    def is_done(self, plan: DropBranchPlan, refs: Refs) -> bool:
        """Whether another caller has dropped the branch in the meantime."""
        known = refs.branches.get(plan.branch.name)
        return known is None or known.id != plan.branch.id

    def entry(self, repo: Opened, plan: DropBranchPlan, refs: Refs) -> Entry:
        """Return the entry that ends the branch."""
        from ..clock import now_ms
        from ..protocol.entries import DropBranchEntry
        from ..protocol.refs_log import position

        del repo
        place = position(refs, now_ms())
        return DropBranchEntry(**place, name=plan.branch.name, id=plan.branch.id, reason=self.reason)

    def outcome(self, repo: Opened, plan: DropBranchPlan, made: Refs) -> BranchInfo:
        """Return what the branch was."""
        del repo, made
        return plan.branch

    def done(self, plan: DropBranchPlan, made: Refs) -> str:
        """Return what was done, in words."""
        del made
        return f"dropped {plan.branch.line()}"

"""`Replan`: abandon a plan that cannot run, because a file is missing, changed or unreadable.

A void commit takes the number of the plan. CRASH: one conditional create decides whether the void commit or a batch of
that plan is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..counts import count_of
from ..errors import InvalidInput
from ..values import dataclass
from .contract import ActionPlan, CommitAction, Option, SeenBranch, option

if TYPE_CHECKING:
    from ..protocol.kinds import Changes
    from ..protocol.records import Commit
    from ..protocol.successor import Origin
    from ..publishing.rest import Writing
    from ..repo.opened import Opened


@dataclass(frozen=True, kw_only=True)
class ReplanPlan(ActionPlan):
    """The version whose plan ends, and the number of its files."""

    number: int
    files: int

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        files = count_of(self.files, "file")
        return [f"the plan of version {self.number} ({files}) ends; the next run plans the files that are there then"]


@dataclass(frozen=True, kw_only=True)
class Replan(CommitAction):
    """Abandon a plan that cannot run, with a void commit that reads no files.

    Use it when a planned file is missing, changed or unreadable. The next run plans the files that exist then.
    """

    verb = "replan"
    kind = "void"
    short_help = "Abandon a plan that cannot run."
    operator_base = "CorrectionOperator"
    method = """Abandon a plan that cannot run, because a planned file is missing, changed or unreadable.

    A void commit takes the number of the plan. It reads no files and changes no state; the next run plans the files
    again. The commit records `reason`. `InvalidInput` if no plan waits, or if `reason` is empty.
    """

    reason: str = option(Option("Why you abandon the plan. The commit records it."))

    def begin(self, repo: Opened) -> bool:
        """Check the folders of sources and sinks."""
        from ..pipeline.places import check_places

        check_places(repo.pipeline, repo.root, repo.storage_options)
        return False

    def look(self, repo: Opened, seen: SeenBranch) -> ReplanPlan:
        """Return what will happen. `InvalidInput` if no plan is open."""
        if seen.plan is None:
            branch = repo.initialised().named(repo.branch)
            raise InvalidInput(
                f"replan: {branch} has no plan for version {seen.origin.number}, so there is nothing to abandon"
            )
        files = {(split.source, split.path) for split in seen.plan.splits}
        return ReplanPlan(verb=self.verb, seen=seen, number=seen.plan.number, files=len(files))

    def prepare(self, repo: Opened, plan: ReplanPlan, origin: Origin, to: Writing) -> Changes:
        """Return no changes: a void commit changes nothing."""
        del repo, plan, origin, to
        return {}

    def done(self, plan: Any, commit: Commit) -> str:
        """Return what was done, in words."""
        del plan
        return f"abandoned the plan of version {commit.version}: {self.reason}"

"""`Branch`: start a line of versions at a version of this one. Nothing is copied."""

from __future__ import annotations

import dataclasses
from datetime import date
from typing import TYPE_CHECKING, Any

from ..values import dataclass
from .contract import ActionPlan, EntryAction, MadeBefore, Option, SeenRefs, option

if TYPE_CHECKING:
    from ..branches.branch import BranchInfo
    from ..protocol.entries import Entry
    from ..protocol.records import Parent
    from ..protocol.refs import Refs
    from ..repo.opened import Opened


@dataclass(frozen=True, kw_only=True)
class BranchPlan(ActionPlan):
    """The name, the version from which the branch will start and the branch that has it, and the place of its sinks."""

    name: str
    fork: Parent
    fork_branch: str
    publish_to: str | None

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        lines = [f"branch `{self.name}` will start at version {self.fork.version} of `{self.fork_branch}`"]
        return lines + ([] if self.publish_to is None else [f"it will publish to `{self.publish_to}`"])

    def content(self) -> Any:
        """Return all that will happen."""
        return [self.name, self.fork.branch, self.fork.version, self.fork.checksum, self.publish_to]

    def as_dict(self) -> dict[str, Any]:
        """Return what will happen, for machines."""
        start = {"fork_branch": self.fork_branch, "fork_version": self.fork.version, "head": self.fork.version}
        return {"name": self.name, **start, "publish_to": self.publish_to, **super().as_dict()}


@dataclass(frozen=True, kw_only=True)
class Branch(EntryAction):
    """Start the branch NAME at a version of PIPELINE. Nothing is copied; `--branch NAME` then works on it.

    A branch has the versions up to its start in common with the other one, and numbers its own ones onwards. With
    --drop the branch ends, and `maintain` deletes what only it needed.
    """

    verb = "branch"
    short_help = "Start a branch at a version, or end one."
    asks = False
    knows_tries = True
    made_if = "the branch is there with this start"
    method = """Start a branch at a version of this one, and return what it is. Nothing is copied.

    `at`: a number, a tag, or a time (a datetime or ISO text), which means the newest version with a batch time up
    to then; default is the newest version. `tm.open(…, branch=name)` opens the branch: it has the
    versions of this one up to `at`, and its own ones after that, with the next numbers. It publishes nothing,
    unless `publish_to` gives its sinks a place of their own: each gets a folder with its `name` there. Functions of
    `foreachBatch` are not called for a branch. The entry records `reason`.

    `InvalidInput` for a name in use or not allowed, a version that is not kept, or a place with files of this
    pipeline. Then nothing has changed.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("tries")
    >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
    >>> r = tm.open(p, root="memory://docs-branch")
    >>> _ = r.init()
    >>> r.branch("fix").fork_version
    -1
    >>> tm.open(p, root="memory://docs-branch", branch="fix")
    Repository('memory://docs-branch/tries', branch='fix-1')
    """

    name: str = option(Option("The branch.", is_argument=True))
    at: int | str | date | None = option(
        Option(
            "Version at which it starts, or a batch time (ISO). Default: the newest version.",
            metavar="N|TAG|TIME",
            parsed="version",
        ),
        None,
    )
    publish_to: str | None = option(Option("Folder of its sinks. Default: it publishes nothing.", metavar="URI"), None)
    reason: str = option(Option("Why. The entry records it."), "")

    def made_before(self, repo: Opened) -> MadeBefore | None:
        """Return the branch of this name, if it has the same start and place."""
        from ..branches.branch import same_branch

        found = same_branch(repo, self.name, self.at, self.publish_to)
        if found is None:
            return None
        return MadeBefore(found, f"already there: {found.line()}", fields=dataclasses.asdict(found))

    def look(self, repo: Opened, seen: SeenRefs) -> BranchPlan:
        """Return what will happen. `InvalidInput` for a name or a place in use, or a version that is not kept."""
        from ..branches.branch import checked_fork, fork_name
        from ..repo.identity import check_root

        fork = checked_fork(repo, seen.refs, self.name, self.at, self.publish_to)
        check_root(repo)
        return BranchPlan(
            verb=self.verb,
            seen=seen,
            name=self.name,
            fork=fork,
            fork_branch=fork_name(seen.refs, fork),
            publish_to=self.publish_to,
        )

    def entry(self, repo: Opened, plan: BranchPlan, refs: Refs) -> Entry:
        """Return the entry that starts the branch."""
        from ..branches.branch import new_branch

        del repo
        return new_branch(refs, plan.name, plan.fork, plan.publish_to, self.reason)

    def outcome(self, repo: Opened, plan: BranchPlan, made: Refs) -> BranchInfo:
        """Return the branch."""
        from ..branches.branch import started

        del repo
        return started(made, plan.name)

    def fields(self, plan: BranchPlan, made: Refs) -> dict[str, Any]:
        """Return what was done, for machines."""
        from ..branches.branch import started

        return {**plan.as_dict(), **dataclasses.asdict(started(made, plan.name))}

    def done(self, plan: BranchPlan, made: Refs) -> str:
        """Return what was done, in words."""
        from ..branches.branch import started

        return f"started {started(made, plan.name).line()}"

"""`Untag`: remove a tag. Its version stays only if it is kept without the tag."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ..values import dataclass
from .contract import ActionPlan, EntryAction, Option, SeenRefs, option

if TYPE_CHECKING:
    from ..protocol.entries import Entry
    from ..protocol.refs import Refs
    from ..repo.opened import Opened
    from ..repo.versions import Tagged


@dataclass(frozen=True, kw_only=True)
class UntagPlan(ActionPlan):
    """The tag, and whether its version can no longer be read without it."""

    tag: Tagged
    is_last: bool

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        lines = [f"tag `{self.tag.name}` of version {self.tag.version} is removed"]
        if self.is_last:
            lines.append(f"version {self.tag.version} will no longer be readable, and cannot be tagged again")
        return lines

    def content(self) -> Any:
        """Return all that will happen."""
        return [self.tag.name, self.tag.branch, self.tag.version, self.is_last]

    def as_dict(self) -> dict[str, Any]:
        """Return what will happen, for machines."""
        return {"tag": self.tag.name, "version": self.tag.version, **super().as_dict()}


@dataclass(frozen=True, kw_only=True)
class Untag(EntryAction):
    """Remove the tag NAME. Its version stays readable only as long as retention keeps it."""

    verb = "untag"
    short_help = "Remove a tag."
    method = """Remove the tag `name`, and return what it named. The entry records `reason`.

    The version stays readable only as long as retention keeps it. `InvalidInput` for an unknown tag.
    """

    name: str = option(Option("The name.", is_argument=True))
    reason: str = option(Option("Why. The entry records it."), "")

    def look(self, repo: Opened, seen: SeenRefs) -> UntagPlan:
        """Return what will happen. `InvalidInput` for an unknown tag."""
        from ..protocol.records import VersionOf
        from ..protocol.retained import is_kept
        from ..repo.versions import Tagged
        from ..spelling import unknown

        del repo
        refs = seen.refs
        known = refs.tags.get(self.name)
        if known is None:
            raise unknown("tag", str(self.name), sorted(refs.tags))
        others = {name: one for name, one in refs.tags.items() if name != self.name}
        is_last = not is_kept(dataclasses.replace(refs, tags=others), VersionOf(known.branch, known.version))
        found = Tagged(self.name, known.branch, known.version)
        return UntagPlan(verb=self.verb, seen=seen, tag=found, is_last=is_last)

    def is_done(self, plan: UntagPlan, refs: Refs) -> bool:
        """Whether another caller has removed the tag in the meantime."""
        return plan.tag.name not in refs.tags

    def entry(self, repo: Opened, plan: UntagPlan, refs: Refs) -> Entry:
        """Return the entry that removes the tag."""
        from ..clock import now_ms
        from ..protocol.entries import TagEntry
        from ..protocol.refs_log import position

        del repo
        place = position(refs, now_ms())
        return TagEntry(**place, name=plan.tag.name, branch=plan.tag.branch, version=None, reason=self.reason)

    def outcome(self, repo: Opened, plan: UntagPlan, made: Refs) -> Tagged:
        """Return the tag that was removed."""
        del repo, made
        return plan.tag

    def done(self, plan: UntagPlan, made: Refs) -> str:
        """Return what was done, in words."""
        del made
        return f"removed tag `{plan.tag.name}`, which named version {plan.tag.version}"

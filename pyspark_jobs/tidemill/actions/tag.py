"""`Tag`: name a version. A tag keeps its version, also when retention discards its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..values import dataclass
from .contract import ActionPlan, EntryAction, Option, SeenRefs, option

if TYPE_CHECKING:
    from ..protocol.entries import Entry
    from ..protocol.records import VersionOf
    from ..protocol.refs import Refs
    from ..repo.opened import Opened
    from ..repo.versions import Tagged


@dataclass(frozen=True, kw_only=True)
class TagPlan(ActionPlan):
    """The name, the version that it will name, and the one that it names now."""

    name: str
    at: VersionOf
    before: VersionOf | None

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        if self.before == self.at:
            return [f"tag `{self.name}` names version {self.at.version} already"]
        until_now = "" if self.before is None else f", and no longer version {self.before.version}"
        return [f"tag `{self.name}` will name version {self.at.version}{until_now}"]

    def content(self) -> Any:
        """Return all that will happen."""
        before = None if self.before is None else [self.before.branch, self.before.version]
        return [self.name, self.at.branch, self.at.version, before]

    def as_dict(self) -> dict[str, Any]:
        """Return what will happen, for machines."""
        return {"tag": self.name, "version": self.at.version, **super().as_dict()}


@dataclass(frozen=True, kw_only=True)
class Tag(EntryAction):
    """Call VERSION (default: the newest) NAME. Without NAME, list all tags.

    A tag can be given wherever a version is expected, for example `state --version month-end`. A tagged version stays
    readable when `maintain` discards older versions.
    """

    verb = "tag"
    short_help = "Name a version, or list the names."
    asks = False
    argument_order = ("name", "version", "reason", "move")
    method = """Name a version; default: the newest. A tag can stand for the number of a version everywhere.

    `name` names `version`, a number or another tag. A tagged version stays readable when retention discards its
    neighbours. `move`: let the name, which has another version now, name this one. The entry records `reason`.
    `InvalidInput` for a version that does not exist or is not kept, for a name that is in use, or is a number.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("tagged")
    >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
    >>> r = tm.open(p, root="memory://docs-tag")
    >>> _ = r.init()
    >>> r.tags()
    []
    """

    name: str = option(Option("The name.", is_argument=True))
    version: int | str | None = option(Option("The version.", is_argument=True, parsed="version"), None)
    move: bool = option(Option("Let NAME, which names another version now, name this one.", parsed="flag"), False)
    reason: str = option(Option("Why. The entry records it."), "")

    def look(self, repo: Opened, seen: SeenRefs) -> TagPlan:
        """Return what will happen. `InvalidInput` for a version that is not kept, or a name in use."""
        from ..names import check_name
        from ..protocol.records import VersionOf
        from ..protocol.retained import refuse_if_gone
        from ..repo.versions import is_number

        name, refs = self.name, seen.refs
        if is_number(check_name(name, "tag")):
            raise InvalidInput(f"tag `{name}`: a number is not a valid name, because it would name a version already")
        at = repo.version_of(self._number(repo))
        if name in refs.branches:
            raise InvalidInput(f"tag `{name}`: a branch has this name", hint="choose another name")
        known = refs.tags.get(name)
        before = None if known is None else VersionOf(known.branch, known.version)
        if before is not None and before != at and not self.move:
            raise InvalidInput(
                f"tag `{name}`: it names version {before.version} already",
                hint="choose another name, or move it: tag(…, move=True) or --move",
            )
        if before != at:
            refuse_if_gone(refs, at, "tag", whole=True)
        return TagPlan(verb=self.verb, seen=seen, name=name, at=at, before=before)

    def _number(self, repo: Opened) -> int:
        from ..repo.versions import number_of_version

        if self.version is None:
            head = repo.head()
            if head is None:
                raise InvalidInput(f"tag: pipeline `{repo.job.pipeline}` has no version yet", hint="run a batch first")
            return head.version
        number = number_of_version(repo, self.version)
        if number < 0:
            raise InvalidInput("tag: version -1 cannot be tagged; it is what `init` made, and always kept")
        return repo.log.commit(number).version

    def is_done(self, plan: TagPlan, refs: Refs) -> bool:
        """Whether the name names the version."""
        known = refs.tags.get(plan.name)
        return known is not None and (known.branch, known.version) == (plan.at.branch, plan.at.version)

    def entry(self, repo: Opened, plan: TagPlan, refs: Refs) -> Entry:
        """Return the entry that names the version."""
        from ..clock import now_ms
        from ..protocol.entries import TagEntry
        from ..protocol.refs_log import position

        del repo
        at, place = plan.at, position(refs, now_ms())
        return TagEntry(**place, name=plan.name, branch=at.branch, version=at.version, reason=self.reason)

    def outcome(self, repo: Opened, plan: TagPlan, made: Refs) -> Tagged:
        """Return the tag."""
        from ..repo.versions import Tagged

        del repo, made
        return Tagged(plan.name, plan.at.branch, plan.at.version)

    def done(self, plan: TagPlan, made: Refs) -> str:
        """Return what was done, in words."""
        del made
        return f"tag `{plan.name}` names version {plan.at.version}"

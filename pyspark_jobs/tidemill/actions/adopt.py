"""`Adopt`: confirm that a repository was moved or copied on purpose, or that the folder of a source changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..values import dataclass
from .contract import ActionPlan, EntryAction, Option, SeenRefs, option

if TYPE_CHECKING:
    from ..protocol.entries import Entry
    from ..protocol.refs import Refs
    from ..repo.fence import Fence
    from ..repo.opened import Opened


@dataclass(frozen=True, kw_only=True)
class AdoptPlan(ActionPlan):
    """The repository's place before and after, its uuid, whether it gets another one, and folders of sources.

    `sources`: by source, the folder before and the folder that this code declares.
    """

    root_before: str
    root: str
    uuid: str
    is_copy: bool
    sources: dict[str, tuple[str | None, str]]
    fence: Fence | None = field(default=None, repr=False)
    """The commits that are made first at the place before, so that no other ones are made there."""

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        lines = [f"repository {self.root_before} -> {self.root}"] if self.root != self.root_before else []
        lines += [f"uuid {self.uuid} -> a new uuid"] if self.is_copy else []
        lines += [] if self.fence is None else [f"{self.fence.place} is fenced: nothing is committed there any more"]
        return lines + [f"source `{name}`: {before} -> {after}" for name, (before, after) in self.sources.items()]


@dataclass(frozen=True, kw_only=True)
class Adopt(EntryAction):
    """Confirm that the repository was moved or copied on purpose, or that the folder of a source changed.

    Until then, commands that write are refused, because two repositories that take each other for themselves would
    publish twice.
    """

    verb = "adopt"
    short_help = "Confirm that the repository or a source has moved."
    may_move = True
    argument_order = ("reason", "moved", "copy", "sources")
    method = """Confirm that this repository was moved or copied on purpose, or that the folder of a source changed.

    `moved`: this is the repository now, and the place where it was made is dead. It keeps its uuid. If that place
    can still be reached, it is fenced first: a batch that is at work there cannot commit. `copy`: both
    remain. This one gets a new uuid, and files that were published stay those of the other one. `sources`: names of
    sources whose files may be read again from the folder that this code declares. The entry records `reason`.
    Returns what the repository records about itself then.

    `InvalidInput` if nothing is to be confirmed, without `moved` or `copy` at another place, or if the place where
    it was made has versions that this one lacks. A crash leaves the repository adopted or not.
    """

    moved: bool = option(
        Option("This is the repository now; the place where it was made is dead.", parsed="flag"), False
    )
    copy: bool = option(Option("Both repositories remain. This one gets a uuid of its own.", parsed="flag"), False)
    sources: Sequence[str] = option(
        Option(
            "Read files from this source's new folder. Repeatable.", flag="source", metavar="NAME", is_repeated=True
        ),
        (),
    )
    reason: str = option(Option("Why. The entry records it."), "")

    def begin(self, repo: Opened) -> bool:
        """Check the newest version: a repository that does not fit together cannot be adopted."""
        repo.head()
        return False

    def look(self, repo: Opened, seen: SeenRefs) -> AdoptPlan:
        """Return what will happen. `InvalidInput` if there is nothing to confirm, or versions were not copied."""
        from ..repo.fence import fence_of

        refs, place = seen.refs, repo.place
        elsewhere = refs.root != place
        if self.moved and self.copy:
            raise InvalidInput("adopt: found both moved and copy, expected one of them")
        if elsewhere and not (self.moved or self.copy):
            raise InvalidInput(
                f"adopt `{place}`: it was made at `{refs.root}`; say whether it moved or is a copy",
                hint="give --moved if the other place is dead, or --copy if both remain",
            )
        confirmed = self._confirmed(repo)
        unchanged = all(before == after for before, after in confirmed.values())
        if not elsewhere and (self.moved or (not self.copy and unchanged)):
            raise InvalidInput(
                f"adopt `{place}`: the repository is where it was made, and sources read the folders that it "
                "knows, so there is nothing to adopt"
            )
        return AdoptPlan(
            verb=self.verb,
            seen=seen,
            root_before=refs.root,
            root=place,
            uuid=refs.uuid,
            is_copy=self.copy,
            sources=confirmed,
            fence=fence_of(repo, refs) if self.moved else None,
        )

    def _confirmed(self, repo: Opened) -> dict[str, tuple[str | None, str]]:
        """Return the folder of each source, before and now."""
        from ..repo.identity import folders
        from ..spelling import unknown

        if isinstance(self.sources, str):
            raise InvalidInput(
                f"adopt: sources={self.sources!r}, expected a list of sources", hint=f"write [{self.sources!r}]"
            )
        before = folders(repo, repo.log.head())
        found = {}
        for name in self.sources:
            source = repo.job.sources.get(name)
            if source is None or source.place is None:
                raise unknown("source", name, list(repo.job.sources))
            found[name] = (before.get(name), source.place)
        return found

    def entry(self, repo: Opened, plan: AdoptPlan, refs: Refs) -> Entry:
        """Fence the place before, and return the entry with the place, the uuid and the folders.

        A copy draws its uuid here.
        """
        import uuid

        from ..clock import now_ms
        from ..protocol.entries import AdoptEntry
        from ..protocol.refs_log import position

        del repo
        if plan.fence is not None:
            plan.fence.create()
        confirmed = {name: after for name, (_, after) in plan.sources.items()}
        new_uuid = uuid.uuid4().hex if plan.is_copy else plan.uuid
        place = position(refs, now_ms())
        return AdoptEntry(**place, reason=self.reason, root=plan.root, new_uuid=new_uuid, sources=confirmed)

    def outcome(self, repo: Opened, plan: AdoptPlan, made: Refs) -> Refs:
        """Return what the repository records about itself."""
        del repo, plan
        return made

    def fields(self, plan: AdoptPlan, made: Refs) -> dict[str, Any]:
        """Return what was done, for machines."""
        return {**plan.as_dict(), "uuid": made.uuid, "root": made.root}

    def done(self, plan: AdoptPlan, made: Refs) -> str:
        """Return what was done, in words."""
        del plan
        return f"adopted: {made.root}"

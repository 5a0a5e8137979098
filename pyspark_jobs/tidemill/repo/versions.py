"""Versions as users write them: a number, a tag, or one of another branch, as `fix@12`, `fix@tag`, `fix` (its newest).

A number or a tag alone is of the branch that is open. Reading verbs also take versions of other branches. Corrections
do not, because they change the branch that is open. INVARIANT: `hold` makes a version unreachable for garbage
collection before a correction names its objects again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..clock import now_ms
from ..errors import CorruptState, InvalidInput
from ..notebook import NotebookResult
from ..protocol.compatible import first_name
from ..protocol.entries import Hold
from ..protocol.records import Commit, VersionOf
from ..protocol.refs import HeldVersions, Refs
from ..protocol.refs_log import position
from ..protocol.retained import floor, refuse_if_gone
from ..spelling import nearest, unknown
from ..values import dataclass
from .open import on_branch
from .opened import Opened

_T = TypeVar("_T")
VersionSpec = int | str
"""A version by its number, or a tag."""
_NUMBER = re.compile(r"-?[0-9]+")


def is_number(text: str) -> bool:
    """Whether a text is the number of a version, so that it cannot be the name of a tag or a branch."""
    return _NUMBER.fullmatch(text) is not None


def number_of_version(repo: Opened, version: VersionSpec) -> int:
    """Return the number of a version. `InvalidInput` for an unknown tag, or a number that is not one of a version."""
    if isinstance(version, str) and not is_number(version):
        return _tagged(repo, version)
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInput(f"version={version!r}, expected a whole number or a tag; -1 is before the first batch")
    if version < -1:
        raise InvalidInput(f"version={version}, expected at least -1, which is before the first batch")
    return version


def _tagged(repo: Opened, name: str) -> int:
    tags = repo.initialised().tags
    if name not in tags:
        tags = repo.refresh().tags
    if name not in tags:
        _refuse_other_branch(repo, name)
        near = nearest(name, tags)
        known = ", ".join(f"`{one}`" for one in sorted(tags)) or "there is none"
        raise InvalidInput(
            f"unknown tag `{name}`" + (f"; did you mean `{near}`?" if near else f"; tags: {known}"),
            hint="give the number of a version, or the name of a tag; `tidemill tag PIPELINE` lists them",
        )
    tagged = tags[name]
    if VersionOf(tagged.branch, tagged.version) != repo.version_of(tagged.version):
        branch = repo.initialised().named(tagged.branch)
        raise InvalidInput(f"tag `{name}` names version {tagged.version} of {branch}, not of this one")
    return tagged.version


def _refuse_other_branch(repo: Opened, name: str) -> None:
    """Raise `InvalidInput` if a version of another branch is given where only one of the open branch is possible."""
    branch, at, _ = name.partition("@")
    if at or branch in repo.initialised().branches:
        raise InvalidInput(
            f"version `{name}`: expected a number or a tag of the branch that is open, found "
            + ("a version of another branch" if at else "the name of a branch"),
            hint=f"open branch `{branch}`: branch={branch!r} of tm.open, or --branch {branch}",
        )


def kept_commit(repo: Opened, version: int, verb: str = "read", operator: str | None = None) -> Commit | None:
    """Return the commit of a version, None for -1. `InvalidInput` if the version is no longer kept, or never existed.

    With `operator`, only the state of that operator must be kept.
    """
    if version < 0:
        return None
    at, verb = repo.version_of(version), f"{verb} `{repo.store.uri}`,"
    kept = floor(repo.initialised(), at.branch)
    if operator is None or not kept.operators:
        refuse_if_gone(repo.initialised(), at, verb, operator)
        return repo.log.commit(version)
    commit = repo.log.commit(version)  # floors have the names in `refs/`, and migrations may have renamed it
    refuse_if_gone(repo.initialised(), at, verb, first_name(operator, commit.renamed))
    return commit


def unless_given_up(repo: Opened, read: Callable[[], _T]) -> _T:
    """Return what `read` returns. If an object is missing because versions were given up meanwhile, read again."""
    while True:
        known = repo.initialised().through
        try:
            return read()
        except CorruptState:
            if repo.refresh().through == known:
                raise


@dataclass(frozen=True)
class Needed:
    """What a correction restores: a version, and other versions whose outputs it publishes again."""

    version: int
    outputs: Sequence[int]


def _covers(one: HeldVersions, other: HeldVersions) -> bool:
    """Whether a hold keeps all that another one keeps, and as long."""
    return (
        (one.branch, one.by_branch) == (other.branch, other.by_branch)
        and one.first <= other.first
        and one.version >= other.version
        and one.by_version >= other.by_version
    )


def hold(repo: Opened, needed: Needed, number: int, verb: str, reason: str, by: str = "") -> Refs:
    """Keep versions until version `number` of this branch, or of the branch `by`, is committed.

    `InvalidInput` if they are no longer kept.

    The entry is appended only while the versions are kept, so a floor that is raised later leaves their objects alone.
    """
    at = repo.version_of(needed.version)
    first = min([needed.version, *needed.outputs])

    def make(refs: Refs, entry: int) -> Hold | None:
        del entry
        refuse_if_gone(refs, at, f"{verb} to", whole=True)
        for version in needed.outputs:
            refuse_if_gone(refs, repo.version_of(version), f"{verb}: publish again")
        known = HeldVersions(at.branch, first, at.version, by or repo.branch, number)
        if any(_covers(one, known) for one in refs.holds):
            return None
        return Hold(**position(refs, now_ms()), **dataclasses.asdict(known), reason=reason)

    repo.refs_log.append(make)
    return repo.refresh()


def opened_at(repo: Opened, spec: VersionSpec) -> tuple[Opened, int]:
    """Return the branch to which `spec` belongs, opened, and the number of the version.

    `InvalidInput` for an unknown branch or tag, or a number that is not one of a version.
    """
    if not isinstance(spec, str) or is_number(spec):
        return repo, number_of_version(repo, spec)
    name, at, version = spec.partition("@")
    if at:
        if not name or not version:
            raise InvalidInput(f"version `{spec}`: expected BRANCH@VERSION, such as `fix@12`")
        opened = _on(repo, name)
        return opened, number_of_version(opened, int(version) if is_number(version) else version)
    refs = repo.initialised()
    if spec not in refs.tags and spec not in refs.branches:
        refs = repo.refresh()
    if spec not in refs.tags and spec not in refs.branches:
        raise unknown("tag or branch", spec, [*refs.tags, *refs.branches])
    if spec not in refs.tags:
        opened = _on(repo, spec)
        head = opened.head()
        return opened, -1 if head is None else head.version
    return repo, number_of_version(repo, spec)


def commit_at(
    repo: Opened, spec: VersionSpec, verb: str = "read", operator: str | None = None
) -> tuple[Opened, Commit | None]:
    """Return the branch to which `spec` belongs, opened, and the commit of the version; None for version -1.

    `InvalidInput` also for a version that does not exist or is no longer kept.
    """
    opened, version = opened_at(repo, spec)
    return opened, kept_commit(opened, version, verb, operator)


def branch_name(repo: Opened, branch: str) -> str:
    """Return the name of a branch by its id, or the id of a branch that was dropped."""
    return next((one.name for one in repo.initialised().branches.values() if one.id == branch), branch)


def label(repo: Opened, version: int) -> str:
    """Return how a user writes a version of this branch: `main@5`."""
    return f"{branch_name(repo, repo.branch)}@{version}"


def _on(repo: Opened, name: str) -> Opened:
    """Return a branch, opened; this one, if it is the branch that is open."""
    known = repo.initialised().branches
    if name not in known:
        known = repo.refresh().branches
    if name not in known:
        raise unknown("branch", name, sorted(known))
    return repo if known[name].id == repo.branch else on_branch(repo, name)


@dataclass(frozen=True)
class Tagged(NotebookResult):
    """A tag: its name, and the branch and number of the version that it names."""

    name: str
    branch: str
    version: int

    def in_notebook(self) -> dict[str, Any]:
        """Return all fields."""
        return dict(vars(self))


def tags(repo: Opened) -> list[Tagged]:
    """Return all tags, by name."""
    refs = repo.refresh()
    return [Tagged(name, one.branch, one.version) for name, one in sorted(refs.tags.items())]

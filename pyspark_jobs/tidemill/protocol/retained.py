"""Which versions are kept: those from the floor on, and those that tags, forks and holds name. Pure.

INVARIANT: whoever makes a version reachable again (a tag, a fork, a hold) appends an entry that is checked against the
floors of the same `refs/`, so a version that is not kept can never be named again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from ..errors import InvalidInput
from ..units import iso
from .compatible import first_name
from .named import Object, named
from .records import Commit, Parent, VersionOf
from .refs import Kept, Refs

ALL = Kept(-1, 0)
"""The floor of a branch without a floor."""


def floor(refs: Refs, branch: str) -> Kept:
    """Return from which version on a branch is kept, of the versions that are its own."""
    return refs.floors.get(branch, ALL)


def fork_of(refs: Refs, branch: str) -> Parent | None:
    """Return the version from which a branch starts; None for `main`, and for a branch that was dropped."""
    return next((one.fork for one in refs.branches.values() if one.id == branch), None)


def version_of(refs: Refs, branch: str, version: int) -> VersionOf:
    """Return the branch to which a version of a branch belongs. Up to its fork, it has the versions of another one."""
    fork = fork_of(refs, branch)
    while fork is not None and version <= fork.version and fork.branch:
        branch, fork = fork.branch, fork_of(refs, fork.branch)
    return VersionOf(branch, version)


def seen_floor(refs: Refs, branch: str) -> Kept:
    """Return from which version on a branch and the versions before its fork are kept, without a gap up to its head."""
    own, fork = floor(refs, branch), fork_of(refs, branch)
    if fork is None or own.version > fork.version or not fork.branch:
        return own
    before = seen_floor(refs, fork.branch)
    return Kept(min(before.version, fork.version), before.since_ms, before.operators | own.operators)


def names_for(refs: Refs, step: VersionOf) -> list[str]:
    """Return what keeps a version apart from its floor: tags and branches, in words."""
    tags = [f"tag `{name}`" for name, one in sorted(refs.tags.items()) if VersionOf(one.branch, one.version) == step]
    forks = [
        f"branch `{branch.name}`"
        for branch in refs.branches.values()
        if branch.fork is not None and VersionOf(branch.fork.branch, branch.fork.version) == step
    ]
    return tags + forks


def is_kept(refs: Refs, step: VersionOf, operator: str | None = None) -> bool:
    """Whether a version can be read: for an operator its state, otherwise everything else."""
    return step.version < 0 or step.version >= floor(refs, step.branch).of(operator) or bool(names_for(refs, step))


def is_whole(refs: Refs, step: VersionOf) -> bool:
    """Whether everything of a version is kept, so that it can be restored, tagged or forked."""
    return step.version < 0 or step.version >= floor(refs, step.branch).highest or bool(names_for(refs, step))


def refuse_if_gone(refs: Refs, step: VersionOf, verb: str, operator: str | None = None, whole: bool = False) -> None:
    """Raise `InvalidInput` for a version that is not kept, naming what is kept and since when."""
    if is_whole(refs, step) if whole else is_kept(refs, step, operator):
        return
    kept = floor(refs, step.branch)
    since = kept.highest if whole else kept.of(operator)
    of_operator = f" of operator `{operator}`" if operator is not None and operator in kept.operators else ""
    tags = ", ".join(f"`{name}` ({one.version})" for name, one in refs.tags.items() if one.branch == step.branch)
    raise InvalidInput(
        f"{verb} version {step.version} of {refs.named(step.branch)}: it is no longer kept; versions{of_operator} from "
        f"{since} on are kept, since {iso(kept.since_ms)}" + (f", and the tags {tags}" if tags else ""),
        hint="a floor cannot be lowered; tag a version to keep it for longer",
    )


def pinned(refs: Refs, heads: Mapping[str, int] | None = None) -> set[VersionOf]:
    """Return the versions that tags and forks keep, and with the `heads` of branches also those that holds keep."""
    found = {VersionOf(one.branch, one.version) for one in refs.tags.values()}
    found |= {VersionOf(one.fork.branch, one.fork.version) for one in refs.branches.values() if one.fork is not None}
    if heads is not None:
        at_work = (one for one in refs.holds if one.by_branch not in refs.dropped)
        held = [one for one in at_work if one.by_version > heads.get(one.by_branch, -1)]
        found |= {VersionOf(one.branch, version) for one in held for version in range(one.first, one.version + 1)}
    return {at for at in found if at.version >= 0}


def kept_objects(refs: Refs, commit: Commit, is_pinned: bool) -> frozenset[Object]:
    """Return the objects of a version that are kept. `is_pinned`: a tag, fork or hold keeps all of them."""
    return named(kept_part(refs, commit, is_pinned))


def kept_part(refs: Refs, commit: Commit, is_pinned: bool) -> Commit:
    """Return a commit with the objects that are kept.

    Below the floor of the branch, only the state of operators with a lower floor is kept; and the state of an operator
    is not kept below its own.
    """
    at, kept = commit.version, floor(refs, commit.branch)
    if is_pinned or at >= kept.highest:
        return commit
    state = {name: maps for name, maps in commit.state.items() if at >= kept.of(first_name(name, commit.renamed))}
    if at >= kept.version:
        return dataclasses.replace(commit, state=state)
    return dataclasses.replace(commit, state=state, ledger=[], outputs={}, quarantine=[], adds={})


def first_kept(kept: Kept) -> int:
    """Return the lowest version of which something is kept by a floor."""
    return max(0, min([kept.version, *kept.operators.values()]))


def kept_versions(refs: Refs, branch: str, head: int) -> Iterator[int]:
    """Yield the versions of a branch of which its floors keep something, oldest first."""
    yield from range(first_kept(floor(refs, branch)), head + 1)

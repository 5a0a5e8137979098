"""A version as users write it, also one of another branch: `fix@12`, `fix@tag`, or `fix` for its newest version.

A number or a tag alone is of the branch that is open. Reading verbs resolve versions here. Corrections do not, because
they change the branch that is open.
"""

from __future__ import annotations

from ..errors import InvalidInput
from ..protocol.records import Commit
from ..spelling import unknown
from .open import on_branch
from .opened import Context
from .versions import VersionSpec, is_number, kept_commit, resolve


def opened_at(context: Context, spec: VersionSpec) -> tuple[Context, int]:
    """Return the branch to which `spec` belongs, opened, and the number of the version.

    `InvalidInput` for an unknown branch or tag, or a number that is not one of a version.
    """
    if not isinstance(spec, str) or is_number(spec):
        return context, resolve(context, spec)
    name, at, version = spec.partition("@")
    if at:
        if not name or not version:
            raise InvalidInput(f"version `{spec}`: expected BRANCH@VERSION, such as `fix@12`")
        opened = _on(context, name)
        return opened, resolve(opened, int(version) if is_number(version) else version)
    refs = context.initialised()
    if spec not in refs.tags and spec not in refs.branches:
        refs = context.refresh()
    if spec not in refs.tags and spec not in refs.branches:
        raise unknown("tag or branch", spec, [*refs.tags, *refs.branches])
    if spec not in refs.tags:
        opened = _on(context, spec)
        head = opened.head()
        return opened, -1 if head is None else head.version
    return context, resolve(context, spec)


def commit_at(
    context: Context, spec: VersionSpec, verb: str = "read", operator: str | None = None
) -> tuple[Context, Commit | None]:
    """Return the branch to which `spec` belongs, opened, and the commit of the version; None for version -1.

    `InvalidInput` also for a version that does not exist or is no longer kept.
    """
    opened, version = opened_at(context, spec)
    return opened, kept_commit(opened, version, verb, operator)


def branch_name(context: Context, branch: str) -> str:
    """Return the name of a branch by its id, or the id of a branch that was dropped."""
    return next((one.name for one in context.initialised().branches.values() if one.id == branch), branch)


def label(context: Context, version: int) -> str:
    """Return how a user writes a version of this branch: `main@5`."""
    return f"{branch_name(context, context.branch)}@{version}"


def _on(context: Context, name: str) -> Context:
    """Return the context of a branch; this one, if it is the branch that is open."""
    known = context.initialised().branches
    if name not in known:
        known = context.refresh().branches
    if name not in known:
        raise unknown("branch", name, sorted(known))
    return context if known[name].id == context.branch else on_branch(context, name)

"""What users may write for a version: a number or a tag. Resolves it, and refuses versions that are no longer kept.

INVARIANT: `hold` makes a version unreachable for garbage collection before a correction names its objects again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..clock import now_ms
from ..errors import CorruptState, InvalidInput
from ..protocol.compatible import first_name
from ..protocol.entries import Hold
from ..protocol.records import Commit
from ..protocol.refs import Held, Refs
from ..protocol.refs_log import position
from ..protocol.retained import At, floor, refuse_if_gone
from ..spelling import nearest
from .opened import Context

T = TypeVar("T")
VersionSpec = int | str
"""A version by its number, or a tag."""
_NUMBER = re.compile(r"-?[0-9]+")


def is_number(text: str) -> bool:
    """Whether a text is the number of a version, so that it cannot be the name of a tag or a branch."""
    return _NUMBER.fullmatch(text) is not None


def resolve(context: Context, version: VersionSpec) -> int:
    """Return the number of a version. `InvalidInput` for an unknown tag, or a number that is not one of a version."""
    if isinstance(version, str) and not is_number(version):
        return _tagged(context, version)
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInput(f"version={version!r}, expected a whole number or a tag; -1 is before the first batch")
    if version < -1:
        raise InvalidInput(f"version={version}, expected at least -1, which is before the first batch")
    return version


def _tagged(context: Context, name: str) -> int:
    tags = context.initialised().tags
    if name not in tags:
        tags = context.refresh().tags
    if name not in tags:
        _refuse_other_branch(context, name)
        near = nearest(name, tags)
        known = ", ".join(f"`{one}`" for one in sorted(tags)) or "there is none"
        raise InvalidInput(
            f"unknown tag `{name}`" + (f"; did you mean `{near}`?" if near else f"; tags: {known}"),
            hint="give the number of a version, or the name of a tag; `tidemill tag PIPELINE` lists them",
        )
    tagged = tags[name]
    if At(tagged.branch, tagged.version) != context.at(tagged.version):
        branch = context.initialised().named(tagged.branch)
        raise InvalidInput(f"tag `{name}` names version {tagged.version} of {branch}, not of this one")
    return tagged.version


def _refuse_other_branch(context: Context, name: str) -> None:
    """Raise `InvalidInput` if a version of another branch is given where only one of the open branch is possible."""
    branch, at, _ = name.partition("@")
    if at or branch in context.initialised().branches:
        raise InvalidInput(
            f"version `{name}`: expected a number or a tag of the branch that is open, found "
            + ("a version of another branch" if at else "the name of a branch"),
            hint=f"open branch `{branch}`: branch={branch!r} of tm.open, or --branch {branch}",
        )


def kept_commit(context: Context, version: int, verb: str = "read", operator: str | None = None) -> Commit | None:
    """Return the commit of a version, None for -1. `InvalidInput` if the version is no longer kept, or never existed.

    With `operator`, only the state of that operator must be kept.
    """
    if version < 0:
        return None
    at, verb = context.at(version), f"{verb} `{context.store.uri}`,"
    kept = floor(context.initialised(), at.branch)
    if operator is None or not kept.operators:
        refuse_if_gone(context.initialised(), at, verb, operator)
        return context.log.commit(version)
    commit = context.log.commit(version)  # floors have the names in `refs/`, and migrations may have renamed it
    refuse_if_gone(context.initialised(), at, verb, first_name(operator, commit.renamed))
    return commit


def unless_given_up(context: Context, read: Callable[[], T]) -> T:
    """Return what `read` returns. If an object is missing because versions were given up meanwhile, read again."""
    while True:
        known = context.initialised().through
        try:
            return read()
        except CorruptState:
            if context.refresh().through == known:
                raise


@dataclass(frozen=True)
class Needed:
    """What a correction restores: a version, and other versions whose outputs it publishes again."""

    version: int
    outputs: Sequence[int]


def _covers(one: Held, other: Held) -> bool:
    """Whether a hold keeps all that another one keeps, and as long."""
    return (
        (one.branch, one.by_branch) == (other.branch, other.by_branch)
        and one.first <= other.first
        and one.version >= other.version
        and one.by_version >= other.by_version
    )


def hold(context: Context, needed: Needed, number: int, verb: str, reason: str, by: str = "") -> Refs:
    """Keep versions until version `number` of this branch, or of the branch `by`, is committed.

    `InvalidInput` if they are no longer kept.

    The entry is appended only while the versions are kept, so a floor that is raised later leaves their objects alone.
    """
    at = context.at(needed.version)
    first = min([needed.version, *needed.outputs])

    def make(refs: Refs, entry: int) -> Hold | None:
        del entry
        refuse_if_gone(refs, at, f"{verb} to", whole=True)
        for version in needed.outputs:
            refuse_if_gone(refs, context.at(version), f"{verb}: publish again")
        known = Held(at.branch, first, at.version, by or context.branch, number)
        if any(_covers(one, known) for one in refs.holds):
            return None
        return Hold(**position(refs, now_ms()), **dataclasses.asdict(known), reason=reason)

    context.refs_log.append(make)
    return context.refresh()

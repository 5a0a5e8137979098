"""Which objects are garbage: a function of refs, heads, the names that kept versions have, and a listing. Pure.

INVARIANT: an object of a branch is numbered by the version for which it was stored. Numbers only grow by commits, so an
object numbered at or below the head that no kept version names is never named again. Objects above the head may belong
to a batch at work and are left alone, however old they are. No clock decides. Objects of `refs/` are numbered by their
entry, in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from .. import names
from ..values import dataclass
from .refs import BaseOf, Refs
from .retained import floor

COLLECTED = ("state/", "output/", "quarantine/", names.REQUEUED_FOLDER)
"""The prefixes of objects that are collected. Records are never deleted, and published files belong to the sinks."""


@dataclass(frozen=True)
class Stored:
    """An object in a listing."""

    name: str
    size: int


@dataclass(frozen=True)
class Garbage:
    """An object that nothing needs, and why. `number` is the version, or the entry of `refs/`, it was stored for."""

    name: str
    size: int
    number: int
    why: str


def garbage(
    refs: Refs, heads: Mapping[str, int], kept: Collection[str], listing: Iterable[Stored], refs_through: int = 0
) -> list[Garbage]:
    """Return the objects that may be deleted, oldest first.

    `heads` has the newest version of each branch, also of dropped ones; -1 if it has none. `kept` are the names that
    `refs` and all kept versions of all branches have. `refs_through` is the least of the heads of all branches that
    are not dropped: whoever commits next has read the entries up to it.
    """
    ends_are_known = refs_through >= refs.bases_ended
    found = [
        Garbage(one.name, one.size, number, why)
        for one in listing
        if one.name.startswith(COLLECTED) and one.name not in kept
        for number, why in _reason(refs, heads, one.name)
        if ends_are_known or not one.name.rpartition("/")[2].startswith(names.SEEDS)
    ]
    return sorted(found, key=lambda one: (one.number, one.name))


def _reason(refs: Refs, heads: Mapping[str, int], name: str) -> Iterable[tuple[int, str]]:
    """Yield the number of an object that is not kept and why it can go; nothing if it must stay."""
    owner = names.owner(name)
    if owner is None:
        return
    if owner.is_ref:
        if owner.number <= refs.through:
            yield owner.number, f"no entry of `refs/` and no kept version names it, and entry {owner.number} exists"
    elif owner.branch in heads and owner.number <= heads[owner.branch]:
        below = floor(refs, owner.branch).highest
        if owner.number < below:
            yield owner.number, f"of version {owner.number}, and no version that is kept names it"
        else:
            yield owner.number, f"left by an attempt at version {owner.number} that was not committed"


def dead_bases(bases: Sequence[BaseOf], kept: Collection[str]) -> list[int]:
    """Return the numbers of entries of merged segments that no kept version can use.

    A version uses merged segments only while all their inputs are live. `kept` are the names that kept versions have;
    an input may also be the output of an earlier entry that can be used.
    """
    alive, dead = set(kept), []
    for base in sorted(bases, key=lambda one: one.number):
        if all(one.name in alive for one in base.inputs):
            alive |= {one.name for one in base.outputs}
        else:
            dead.append(base.number)
    return dead

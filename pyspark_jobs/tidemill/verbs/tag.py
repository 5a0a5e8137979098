"""`tag` and `untag`: names for versions. A tag keeps its version, also when retention lets its neighbours go.

CRASH: a tag is one entry of `refs/`, so it is there or not.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..clock import now_ms
from ..driver.context import Context
from ..driver.identity import check_root
from ..driver.versions import VersionSpec, is_number, resolve
from ..errors import InvalidInput
from ..names import check_name
from ..protocol.entries import Tag
from ..protocol.refs import Refs
from ..protocol.refs_log import position
from ..protocol.retained import At, is_kept, refuse_if_gone
from ..spelling import unknown
from ..store.probe import probe


@dataclass(frozen=True)
class Tagged:
    """A tag: its name, and the branch and number of the version that it names."""

    name: str
    branch: str
    version: int


def tag(
    context: Context, name: str, version: VersionSpec | None = None, reason: str = "", move: bool = False
) -> Tagged:
    """Name a version; default: the newest. `InvalidInput` for a version that is not kept, or a name in use.

    With `move`, the name may be that of another version before.
    """
    if is_number(check_name(name, "tag")):
        raise InvalidInput(f"tag `{name}`: a number is not a valid name, because it would name a version already")
    check_root(context)
    number = _number(context, version)
    found = context.at(number)

    def make(refs: Refs, entry: int) -> Tag | None:
        del entry
        if name in refs.branches:
            raise InvalidInput(f"tag `{name}`: a branch has this name", hint="choose another name")
        known = refs.tags.get(name)
        if known is not None and At(known.branch, known.version) == found:
            return None
        if known is not None and not move:
            raise InvalidInput(
                f"tag `{name}`: it names version {known.version} already",
                hint="choose another name, or move it: tag(…, move=True) or --move",
            )
        refuse_if_gone(refs, found, "tag", whole=True)
        return Tag(**position(refs, now_ms()), name=name, branch=found.branch, version=number, reason=reason)

    probe(context.store)
    context.refs_log.append(make)
    context.refresh()
    return Tagged(name, found.branch, number)


def untag(context: Context, name: str, reason: str = "") -> Tagged:
    """Remove a tag, and return what it named. Its version stays only if it is kept without the tag."""
    check_root(context)
    removed: list[Tagged] = []

    def make(refs: Refs, entry: int) -> Tag | None:
        del entry
        known = refs.tags.get(name)
        if known is None:
            if removed:
                return None  # another caller removed it meanwhile
            raise unknown("tag", str(name), sorted(refs.tags))
        removed[:] = [Tagged(name, known.branch, known.version)]
        return Tag(**position(refs, now_ms()), name=name, branch=known.branch, version=None, reason=reason)

    probe(context.store)
    context.initialised()
    context.refs_log.append(make)
    context.refresh()
    return removed[0]


def is_last_to_keep(context: Context, name: str) -> bool:
    """Whether a version can no longer be read without a tag."""
    refs = context.initialised()
    one = refs.tags[name]
    others = {other: tagged for other, tagged in refs.tags.items() if other != name}
    return not is_kept(dataclasses.replace(refs, tags=others), At(one.branch, one.version))


def tags(context: Context) -> list[Tagged]:
    """Return all tags, by name."""
    refs = context.refresh()
    return [Tagged(name, one.branch, one.version) for name, one in sorted(refs.tags.items())]


def _number(context: Context, version: VersionSpec | None) -> int:
    if version is None:
        head = context.head()
        if head is None:
            raise InvalidInput(f"tag: pipeline `{context.job.pipeline}` has no version yet", hint="run a batch first")
        return head.version
    number = resolve(context, version)
    if number < 0:
        raise InvalidInput("tag: version -1 cannot be tagged; it is what `init` made, and always kept")
    context.initialised()
    return context.log.commit(number).version

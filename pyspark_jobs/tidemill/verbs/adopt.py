"""`adopt`: confirm that a repository was moved or copied on purpose, or that the folder of a source changed.

CRASH: one conditional create of an entry of `refs/` is the whole confirmation.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from ..clock import now_ms
from ..driver.context import Context
from ..driver.identity import folders
from ..errors import InvalidInput
from ..protocol.entries import Adopt
from ..protocol.refs import Refs
from ..protocol.refs_log import position
from ..spelling import unknown
from ..store.probe import probe


@dataclass(frozen=True)
class Adoption:
    """What `adopt` changes: the repository's place before and after, its uuid, and the folders that it confirms."""

    root_before: str
    root: str
    uuid_before: str
    uuid: str
    sources: dict[str, tuple[str | None, str]]
    """By source: the folder before and the folder that this code declares."""


def adopt(
    context: Context, reason: str = "", moved: bool = False, copy: bool = False, sources: Sequence[str] = ()
) -> Refs:
    """Record the adoption and return what `refs/` says then. `InvalidInput` if there is nothing to confirm."""
    probe(context.store)
    new_uuid = uuid.uuid4().hex

    def make(refs: Refs, number: int) -> Adopt:
        del number
        found = _planned(context, refs, moved, copy, sources, new_uuid)
        confirmed = {name: after for name, (_, after) in found.sources.items()}
        return Adopt(**position(refs, now_ms()), reason=reason, root=found.root, new_uuid=found.uuid, sources=confirmed)

    context.head()  # a repository that does not fit together cannot be adopted
    context.refs_log.append(make)
    return context.refresh()


def planned(context: Context, moved: bool = False, copy: bool = False, sources: Sequence[str] = ()) -> Adoption:
    """Return what `adopt` would change. Writes nothing. The uuid of a copy is drawn by `adopt` itself."""
    return _planned(context, context.refresh(), moved, copy, sources, "a new uuid")


def _planned(context: Context, refs: Refs, moved: bool, copy: bool, sources: Sequence[str], new_uuid: str) -> Adoption:
    elsewhere = refs.root != context.place
    if moved and copy:
        raise InvalidInput("adopt: found both moved and copy, expected one of them")
    if elsewhere and not (moved or copy):
        raise InvalidInput(
            f"adopt `{context.place}`: it was made at `{refs.root}`; say whether it moved or is a copy",
            hint="give --moved if the other place is dead, or --copy if both remain",
        )
    confirmed = _confirmed(context, sources)
    unchanged = all(before == after for before, after in confirmed.values())
    if not elsewhere and (moved or (not copy and unchanged)):
        raise InvalidInput(
            f"adopt `{context.place}`: the repository is where it was made, and sources read the folders that it "
            "knows, so there is nothing to adopt"
        )
    return Adoption(refs.root, context.place, refs.uuid, new_uuid if copy else refs.uuid, confirmed)


def _confirmed(context: Context, sources: Sequence[str]) -> dict[str, tuple[str | None, str]]:
    """Return the folder of each source, before and now."""
    if isinstance(sources, str):
        raise InvalidInput(f"adopt: sources={sources!r}, expected a list of sources", hint=f"write [{sources!r}]")
    before = folders(context, context.log.head())
    found = {}
    for name in sources:
        source = context.job.sources.get(name)
        if source is None or source.place is None:
            raise unknown("source", name, list(context.job.sources))
        found[name] = (before.get(name), source.place)
    return found

"""The names of versions, as they are recorded. Reads only; `actions/tag.py` and `actions/untag.py` change them."""

from __future__ import annotations

from dataclasses import dataclass

from .opened import Context


@dataclass(frozen=True)
class Tagged:
    """A tag: its name, and the branch and number of the version that it names."""

    name: str
    branch: str
    version: int


def tags(context: Context) -> list[Tagged]:
    """Return all tags, by name."""
    refs = context.refresh()
    return [Tagged(name, one.branch, one.version) for name, one in sorted(refs.tags.items())]

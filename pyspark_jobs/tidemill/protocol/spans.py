"""The versions of an effective history as ranges of branches, and those that two histories do not share. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..values import dataclass
from .records import Commit
from .refs import MAIN, Refs
from .retained import fork_of


@dataclass(frozen=True, order=True)
class Span:
    """Versions `first..last` (inclusive) of a branch, by the branch's id."""

    first: int
    last: int
    branch: str


def effective_spans(refs: Refs, branch: str, head: Commit | None) -> list[Span]:
    """Return the effective history of a version of `branch`, oldest first. None: version -1."""
    if head is None:
        return []
    free, found = head.version, []
    fork = fork_of(refs, branch)
    while True:
        first = 0 if fork is None else fork.version + 1
        if first <= free:
            found.append(Span(first, free, branch))
            free = first - 1
        if fork is None:
            break
        branch = fork.branch or MAIN
        fork = fork_of(refs, branch)
    cut = [Span(first, last, "") for first, last in head.replaced]
    return sorted(one for span in found for one in _cut(span, cut))


def without(spans: Iterable[Span], others: Sequence[Span]) -> list[Span]:
    """Return the versions of `spans` that `others` do not have."""
    return [one for span in spans for one in _cut(span, [other for other in others if other.branch == span.branch])]


def _cut(span: Span, others: Iterable[Span]) -> list[Span]:
    found, free = [], span.first
    for other in sorted(others):
        if other.first > free and free <= span.last:
            found.append(Span(free, min(other.first - 1, span.last), span.branch))
        free = max(free, other.last + 1)
    if free <= span.last:
        found.append(Span(free, span.last, span.branch))
    return found

"""`commits_since` and `log`: the commits of a branch that are kept, oldest or newest first, and what they read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ..errors import InvalidInput
from ..notebook import NotebookResult
from ..protocol.records import Commit
from ..protocol.retained import first_kept, refuse_if_gone, seen_floor
from ..repo.identity import warn_if_moved
from ..repo.opened import Opened
from ..repo.versions import VersionSpec, number_of_version
from ..values import dataclass


def commits_since(repo: Opened, since: VersionSpec | None = None) -> list[Commit]:
    """Return the commits from a version to the newest, oldest first, each checked to follow the one before."""
    refs = repo.initialised()
    first = first_kept(seen_floor(refs, repo.branch)) if since is None else max(number_of_version(repo, since), 0)
    if since is not None and first < first_kept(seen_floor(refs, repo.branch)):
        refuse_if_gone(refs, repo.version_of(first), "read the commits since")
    return list(repo.log.commits(first, refs.start if first == 0 else None))


def log(repo: Opened, limit: int | None = None) -> list[Commit]:
    """Return the commits that are kept, newest first; with `limit`, only so many."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidInput(f"log: limit={limit!r}, expected a whole number of at least 0")
    warn_if_moved(repo)
    return list(itertools.islice(newest_first(repo), limit))


@dataclass(frozen=True)
class InputFile(NotebookResult):
    """A file that a version read. `requeued`: rows that this version had quarantined, in place of a file."""

    source: str
    path: str | None
    size: int | None
    requeued: int | None = None

    def in_notebook(self) -> dict[str, Any]:
        """Return all fields."""
        return dict(vars(self))

    def line(self) -> str:
        """Return the same in words."""
        what = f"`{self.path}`" if self.requeued is None else f"rows of version {self.requeued}, requeued"
        return f"{what} of source `{self.source}`"


def input_files(repo: Opened, commit: Commit) -> list[InputFile]:
    """Return what a version read, in the order of its plan. Nothing for other kinds of commits."""
    plan = repo.log.plan_of(commit)
    splits = () if plan is None else plan.splits
    found = (
        InputFile(split.source, split.path, split.size)
        if split.requeued is None
        else InputFile(split.source, None, None, split.requeued.version)
        for split in splits
    )
    return list(dict.fromkeys(found))


def newest_first(repo: Opened) -> Iterator[Commit]:
    """Yield the commits that are kept, newest first. Each is read when it is asked for."""
    head, first = repo.head(), first_kept(seen_floor(repo.initialised(), repo.branch))
    for version in range(-1 if head is None else head.version, first - 1, -1):
        yield repo.log.commit(version)

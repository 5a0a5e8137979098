"""`commits_since` and `log`: the commits of a branch that are kept, oldest or newest first, and what they read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..counts import count_of
from ..errors import InvalidInput
from ..notebook import NotebookResult
from ..protocol.history import is_effective
from ..protocol.records import Commit
from ..protocol.refs import Refs
from ..protocol.retained import first_kept, refuse_if_gone, seen_floor
from ..repo.identity import warn_if_moved
from ..repo.opened import Opened
from ..repo.versions import Tagged, VersionSpec, number_of_version, tags
from ..units import iso
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
    return list(itertools.islice(_newest_first(repo), limit))


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


def log_row(commit: Commit, newest: Commit | None, tagged: Sequence[Tagged], refs: Refs | None) -> dict[str, Any]:
    """Return what the log says of a commit, as plain values. `newest` is the newest one, `refs` is needed for names."""
    return {
        "version": commit.version,
        "kind": commit.kind,
        "undone": newest is not None and not is_effective(newest, commit.version),
        "tags": [one.name for one in tagged if (one.branch, one.version) == (commit.branch, commit.version)],
        "batch_time": iso(commit.batch_time_ms),
        "committed": iso(commit.committed_ms),
        "input_rows": commit.counts.input_rows,
        "input_files": commit.counts.input_files,
        "late_rows": commit.counts.late_rows,
        "quarantined_rows": commit.counts.quarantined_rows,
        "quarantined_files": commit.counts.quarantined_files,
        "lost_behind": commit.lost_behind,
        "restores": None if commit.restores is None else commit.restores.version,
        "promoted": None
        if commit.promoted is None or refs is None
        else {"branch": refs.name_of(commit.promoted.branch), "version": commit.promoted.version},
        "reason": commit.reason,
    }


def remarks(row: Mapping[str, Any]) -> list[str]:
    """Return what the log remarks on a commit besides its counts and its reason, from its row of `log_row`."""
    found = [f"tag {name}" for name in row["tags"]]
    found += ["undone"] if row["undone"] else []
    found += [f"{count_of(row['quarantined_files'], 'file')} in quarantine"] if row["quarantined_files"] else []
    found += row["lost_behind"]
    is_own = row["promoted"] is None
    found += [f"to version {row['restores']}"] if row["restores"] is not None and is_own else []
    if not is_own:
        found.append(f"version {row['promoted']['version']} of `{row['promoted']['branch']}`")
    return found


def remarks_on(repo: Opened, commits: Sequence[Commit]) -> list[str]:
    """Return what the log remarks on some commits besides what each of them shows itself."""
    newest, tagged, refs = repo.head(), tags(repo), repo.initialised()
    rows = (log_row(commit, newest, tagged, refs) for commit in commits)
    return ["; ".join(remarks({**row, "lost_behind": []})) for row in rows]


def _newest_first(repo: Opened) -> Iterator[Commit]:
    """Yield the commits that are kept, newest first. Each is read when it is asked for."""
    head, first = repo.head(), first_kept(seen_floor(repo.initialised(), repo.branch))
    for version in range(-1 if head is None else head.version, first - 1, -1):
        yield repo.log.commit(version)

"""Branches: lines of versions that start from a version of another one. Nothing is copied.

Here is what there is, and whether a branch can start or end. `actions/branch.py` and `actions/drop_branch.py` do it.
CRASH: each is one entry of `refs/`, so it is there or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from ..clock import now_ms
from ..counts import count_of
from ..errors import CorruptState, InvalidInput
from ..names import check_name
from ..notebook import NotebookResult
from ..pipeline.places import check_branch_place, overlap
from ..protocol.entries import NewBranch
from ..protocol.log import log_of
from ..protocol.records import Parent
from ..protocol.refs import MAIN, BranchRef, Refs, branch_id
from ..protocol.refs_log import position
from ..protocol.retained import refuse_if_gone
from ..publishing.works import place_of
from ..reading.read import version_as_of
from ..repo.identity import check_root
from ..repo.open import publishing_to
from ..repo.opened import Opened
from ..repo.versions import VersionSpec, is_number, number_of_version
from ..sinks.asked import seen
from ..spelling import unknown
from ..store import Store
from ..store.probe import probe
from ..values import dataclass


@dataclass(frozen=True)
class BranchInfo(NotebookResult):
    """A branch: its name and id, the branch (by name) and version from which it starts, and its newest version.

    `main` starts at version -1 of no branch. `publish_to`: the place of its sinks, None if it publishes nothing.
    """

    name: str
    id: str
    fork_branch: str | None
    fork_version: int
    head: int
    publish_to: str | None = None

    def in_notebook(self) -> dict[str, Any]:
        """Return all fields."""
        return dict(vars(self))

    def line(self) -> str:
        """Return the same in words."""
        start = "" if self.fork_branch is None else f", from version {self.fork_version} of `{self.fork_branch}`"
        place = "" if self.publish_to is None else f", publishes to {self.publish_to}"
        return f"branch `{self.name}`: version {self.head}{start}{place}"


def start_branch(repo: Opened, name: str, at: VersionSpec, reason: str) -> None:
    """Start a branch that publishes nothing, as a step of a replay. `InvalidInput` for a name in use."""
    check_root(repo)

    def make(refs: Refs, number: int) -> NewBranch:
        del number
        return new_branch(refs, name, checked_fork(repo, refs, name, at), None, reason)

    probe(repo.store)
    repo.session.refs = repo.refs_log.append(make)


def checked_fork(
    repo: Opened, refs: Refs, name: str, at: VersionSpec | date | None = None, publish_to: str | None = None
) -> Parent:
    """Return the version at which a new branch starts. `InvalidInput` for a name or place in use. Writes nothing."""
    if is_number(check_name(name, "branch")):
        raise InvalidInput(f"branch `{name}`: a number is not a valid name, because it would name a version")
    fork = _version_at(repo, at)
    found = repo.version_of(fork.version)
    if publish_to is not None:
        check_branch_place(repo.pipeline, publish_to, repo.root, repo.storage_options)
        _refuse_used_place(publishing_to(repo, publish_to))
    if name in refs.branches:
        known = refs.branches[name].fork
        of = "" if known is None else f"; it starts at version {known.version}"
        hint = "choose another name" if name == MAIN else "choose another name, or drop it first"
        raise InvalidInput(f"branch `{name}` exists already{of}", hint=hint)
    if name in refs.tags:
        raise InvalidInput(f"branch `{name}`: a tag has this name", hint="choose another name")
    if publish_to is not None:
        _check_place(refs, name, publish_to, repo.storage_options.get("sink"))
    if fork.branch not in {"", *(one.id for one in refs.branches.values())}:
        raise InvalidInput(f"branch `{name}`: it would start from {refs.named(fork.branch)}")
    refuse_if_gone(refs, found, "start a branch at", whole=True)
    _refuse_unfinished(repo, refs, found.version)
    return fork


def _refuse_unfinished(repo: Opened, refs: Refs, version: int) -> None:
    """Raise `InvalidInput` for a version that a `forget` has rewritten, before its entry says so to all branches."""
    rewrote = repo.log.rewrites.at
    if rewrote is not None and version < rewrote and rewrote > (refs.rewrote_at or -1):
        raise InvalidInput(
            f"start a branch at version {version}: the `forget` of version {rewrote} has not ended",
            hint="run `tidemill maintain`, or the same `forget` again",
        )


def new_branch(refs: Refs, name: str, fork: Parent, publish_to: str | None, reason: str) -> NewBranch:
    """Return the entry that starts a branch."""
    place = position(refs, now_ms())
    return NewBranch(
        **place, name=name, id=branch_id(name, place["number"]), fork_branch=fork.branch, fork_version=fork.version,
        fork_checksum=fork.checksum, publish_to=publish_to, reason=reason,
    )  # fmt: skip


def same_branch(repo: Opened, name: str, at: VersionSpec | date | None, publish_to: str | None) -> BranchInfo | None:
    """Return the branch of a name if it has this start and place."""
    refs = repo.refresh()
    known = refs.branches.get(name)
    if known is None or (known.fork, known.publish_to) != (_version_at(repo, at), publish_to):
        return None
    return _found(repo.store, refs, known)[0]


def started(refs: Refs, name: str) -> BranchInfo:
    """Return a branch that has no versions of its own yet."""
    one = refs.branches[name]
    return _info(refs, one, -1 if one.fork is None else one.fork.version)


def branches(repo: Opened) -> list[BranchInfo]:
    """Return all branches, `main` first, in the order in which they were made.

    `CorruptState` for a branch whose commits are lost.
    """
    found = branches_found(repo)
    for _, lost in found:
        if lost is not None:
            raise lost
    return [one for one, _ in found]


def branches_found(repo: Opened) -> list[tuple[BranchInfo, CorruptState | None]]:
    """Return all branches. One whose commits are lost has the version from which it starts as `head`, and the error."""
    refs = repo.refresh()
    return [_found(repo.store, refs, one) for one in refs.branches.values()]


def _found(store: Store, refs: Refs, one: BranchRef) -> tuple[BranchInfo, CorruptState | None]:
    try:
        return _info(refs, one, log_of(store, refs, one.id).newest_version()), None
    except CorruptState as error:
        return started(refs, one.name), error


def droppable(repo: Opened, refs: Refs, name: str) -> BranchInfo:
    """Return a branch that can be dropped. `InvalidInput` if it is unknown or needed. Writes nothing.

    Damaged commits are no obstacle, because dropping a branch is how to go on without them.
    """
    if name == MAIN:
        raise InvalidInput("drop branch `main`: it cannot be dropped")
    if name not in refs.branches:
        raise unknown("branch", name, sorted(refs.branches.keys() - {MAIN}))
    known, _ = _found(repo.store, refs, refs.branches[name])
    _refuse_needed(refs, known)
    return known


def _version_at(repo: Opened, at: VersionSpec | date | None) -> Parent:
    """Return the version from which a branch starts, as its first commit names it."""
    if at is None:
        head = repo.head()
    else:
        number = version_as_of(repo, at, "at") if _is_time(repo, at) else number_of_version(repo, at)  # type: ignore[arg-type]
        repo.initialised()
        head = None if number < 0 else repo.log.commit(number)
    return repo.initialised().start if head is None else head.as_parent


def _is_time(repo: Opened, at: VersionSpec | date) -> bool:
    """Whether a point in time is given: a date, a datetime, or ISO text that is not the name of a tag."""
    if isinstance(at, date):
        return True
    if not isinstance(at, str) or is_number(at) or at in repo.refresh().tags:
        return False
    try:
        datetime.fromisoformat(at)
    except ValueError:
        return False
    return True


def _check_place(refs: Refs, name: str, publish_to: str, options: Mapping[str, Any] | None) -> None:
    """Raise `InvalidInput` if another branch publishes to the same place, inside of it or above it."""
    for one in refs.branches.values():
        if one.publish_to is not None and overlap(one.publish_to, publish_to, options):
            raise InvalidInput(
                f"branch `{name}` would publish to `{publish_to}`, and branch `{one.name}` publishes to "
                f"`{one.publish_to}`; readers would find the rows of both",
                hint="choose a place that is neither inside of the other one nor above it",
            )


def _refuse_needed(refs: Refs, branch: BranchInfo) -> None:
    """Raise `InvalidInput` if a tag or another branch needs a branch."""
    tags = [f"tag `{name}` (version {one.version})" for name, one in refs.tags.items() if one.branch == branch.id]
    others = [
        f"branch `{one.name}` (version {one.fork.version})"
        for one in refs.branches.values()
        if one.fork is not None and one.fork.branch == branch.id
    ]
    if tags or others:
        raise InvalidInput(
            f"drop branch `{branch.name}`: {', '.join(tags + others)} needs its versions",
            hint="remove these tags and drop these branches first",
        )


def fork_name(refs: Refs, fork: Parent) -> str:
    """Return the name of the branch from which another one starts, or its id if it was dropped."""
    by_id = {branch.id: branch.name for branch in refs.branches.values()}
    return by_id.get(fork.branch or MAIN, fork.branch)


def _info(refs: Refs, one: BranchRef, head: int) -> BranchInfo:
    fork_branch = None if one.fork is None else fork_name(refs, one.fork)
    return BranchInfo(one.name, one.id, fork_branch, -1 if one.fork is None else one.fork.version, head, one.publish_to)


def _refuse_used_place(repo: Opened) -> None:
    """Raise `InvalidInput` if files of this pipeline are in a place to which a new branch would publish."""
    for output in repo.job.outputs.values():
        if output.sink is not None and output.sink.path:
            there = list(seen(output.sink, place_of(repo, output.name)))
            if there:
                raise InvalidInput(
                    f"sink `{output.name}` at `{output.sink.path}` has {count_of(len(there), 'file')} of this pipeline "
                    f"already, for example `{there[0].name}`",
                    hint="let the branch publish to an empty place",
                )

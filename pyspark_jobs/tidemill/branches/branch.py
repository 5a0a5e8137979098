"""`branch`, `branches`, `drop_branch`: lines of versions that start from a version of another one. Nothing is copied.

CRASH: each is one entry of `refs/`, so it is there or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from ..clock import now_ms
from ..counts import count_of
from ..errors import CorruptState, InvalidInput
from ..names import check_name
from ..pipeline.places import check_branch_place, overlap
from ..protocol.entries import DropBranch, NewBranch
from ..protocol.log import log_of
from ..protocol.records import Parent
from ..protocol.refs import MAIN, Branch, Refs, branch_id
from ..protocol.refs_log import position
from ..protocol.retained import refuse_if_gone
from ..publishing.publish import place_of
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
class BranchInfo:
    """A branch: its name and id, the branch (by name) and version from which it starts, and its newest version.

    `main` starts at version -1 of no branch. `publish_to`: the place of its sinks, None if it publishes nothing.
    """

    name: str
    id: str
    fork_branch: str | None
    fork_version: int
    head: int
    publish_to: str | None = None


def branch(
    repo: Opened,
    name: str,
    at: VersionSpec | date | None = None,
    publish_to: str | None = None,
    reason: str = "",
    *,
    if_needed: bool = False,
) -> BranchInfo:
    """Start a branch at a version or a time of this one; default: the newest. `InvalidInput` for a name in use.

    With `if_needed` a branch of this name, start and place is left as it is, so that a caller may repeat the call.
    """
    if if_needed and _is_same(repo.refresh(), name, _fork(repo, at), publish_to):
        return _found(repo.store, repo.initialised(), repo.initialised().branches[name])[0]
    make = _entry(repo, name, at, publish_to, reason, if_needed)
    probe(repo.store)
    refs = repo.refs_log.append(make)
    repo.session.refs = refs
    return _info(refs, refs.branches[name], refs.branches[name].fork.version)  # type: ignore[union-attr]


def fork_point(repo: Opened, name: str, at: VersionSpec | date | None = None, publish_to: str | None = None) -> int:
    """Return the version at which `branch` would start one. `InvalidInput` as there. Writes nothing."""
    refs = repo.refresh()
    made = _entry(repo, name, at, publish_to, "")(refs, refs.through + 1)
    assert made is not None  # because no branch of this name is accepted
    return made.fork_version


def _is_same(refs: Refs, name: str, fork: Parent, publish_to: str | None) -> bool:
    """Whether there is a branch of a name with this start and place."""
    known = refs.branches.get(name)
    return known is not None and (known.fork, known.publish_to) == (fork, publish_to)


def _entry(
    repo: Opened, name: str, at: VersionSpec | date | None, publish_to: str | None, reason: str,
    if_needed: bool = False,
) -> Callable[[Refs, int], NewBranch | None]:  # fmt: skip
    """Check the arguments, and return what makes the entry of a branch, or raises `InvalidInput`."""
    if is_number(check_name(name, "branch")):
        raise InvalidInput(f"branch `{name}`: a number is not a valid name, because it would name a version")
    check_root(repo)
    fork = _fork(repo, at)
    found = repo.version_of(fork.version)
    if publish_to is not None:
        check_branch_place(repo.pipeline, publish_to, repo.root, repo.storage_options)
        _refuse_used_place(publishing_to(repo, publish_to))

    def make(refs: Refs, number: int) -> NewBranch | None:
        if if_needed and _is_same(refs, name, fork, publish_to):
            return None  # another caller started it meanwhile
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
        return NewBranch(
            **position(refs, now_ms()), name=name, id=branch_id(name, number), fork_branch=fork.branch,
            fork_version=fork.version, fork_checksum=fork.checksum, publish_to=publish_to, reason=reason,
        )  # fmt: skip

    return make


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


def _found(store: Store, refs: Refs, one: Branch) -> tuple[BranchInfo, CorruptState | None]:
    try:
        return _info(refs, one, log_of(store, refs, one.id).newest_version()), None
    except CorruptState as error:
        return _info(refs, one, -1 if one.fork is None else one.fork.version), error


def drop_branch(repo: Opened, name: str, reason: str = "") -> BranchInfo:
    """End a branch, and return what it was. `maintain` deletes what only it needed. `InvalidInput` if it is unknown."""
    check_root(repo)
    known = droppable(repo, name)

    def make(refs: Refs, number: int) -> DropBranch | None:
        del number
        if name not in refs.branches or refs.branches[name].id != known.id:
            return None  # another caller dropped it meanwhile
        _refuse_needed(refs, known)
        return DropBranch(**position(refs, now_ms()), name=name, id=known.id, reason=reason)

    probe(repo.store)
    repo.refs_log.append(make)
    repo.refresh()
    return known


def droppable(repo: Opened, name: str) -> BranchInfo:
    """Return the branch that `drop_branch` would end. `InvalidInput` if it cannot. Writes nothing.

    Damaged commits are no obstacle, because dropping a branch is how to go on without them.
    """
    if name == MAIN:
        raise InvalidInput("drop branch `main`: it cannot be dropped")
    refs = repo.refresh()
    if name not in refs.branches:
        raise unknown("branch", name, sorted(refs.branches.keys() - {MAIN}))
    known, _ = _found(repo.store, refs, refs.branches[name])
    _refuse_needed(refs, known)
    return known


def _fork(repo: Opened, at: VersionSpec | date | None) -> Parent:
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


def _info(refs: Refs, one: Branch, head: int) -> BranchInfo:
    by_id = {branch.id: branch.name for branch in refs.branches.values()}
    fork_branch = None if one.fork is None else by_id.get(one.fork.branch or MAIN, one.fork.branch)
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

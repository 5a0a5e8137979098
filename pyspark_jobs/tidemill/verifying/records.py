"""Reads all records of a repository, one by one, and notes those that are missing, damaged or out of place.

INVARIANT: a damaged record does not end the search. What follows it is checked as far as that is possible without it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from .. import names
from ..errors import CorruptState
from ..protocol import entries, hint
from ..protocol.codec import decode, decode_entry
from ..protocol.records import Commit, Parent, Plan
from ..protocol.refs import MAIN, BranchRef, Refs, begin, follow
from ..protocol.retained import first_kept, floor, pinned
from ..store import ListedObject, ObjectMissing, Store
from ..values import dataclass
from .findings import Findings

_ONE_BACKUP = "restore `branches/` and `refs/` from one backup"
_HINT = "delete it; it only says where a search begins, and is written again"


@dataclass
class Records:
    """The records of the repository in `store`, of which `listing` has all objects."""

    store: Store
    listing: Mapping[str, ListedObject]
    found: Findings
    as_rewritten: Callable[[Commit], Commit]
    """Returns a commit as a later `forget` has left it."""
    checksums: dict[int, str] = field(default_factory=dict)
    """Of each entry of `refs/` that could be read."""

    def refs(self) -> Refs | None:
        """Return what the entries say, up to the first damaged one. None if the init record cannot be read."""
        refs: Refs | None = None
        snapshot = self._snapshot()
        for number in range(max(self._last_entry, 0 if snapshot is None else snapshot.through) + 1):
            name, affects = names.ref(number), "identity, operators, branches and tags from this entry on"
            with self.found.of(name, affects):
                entry = decode_entry(self._data(name), name)
                if refs is not None:
                    refs = _follow(refs, entry)
                elif isinstance(entry, entries.Init) and entry.number == 0:
                    refs = begin(entry)
                else:
                    raise CorruptState(f"read entry `{name}`: expected the init record, found entry {entry.number}")
                self.checksums[number] = refs.refs_checksum
                continue
            break
        if snapshot is not None and snapshot.refs_checksum != self.checksums.get(snapshot.through):
            what = f"it ends at an entry with checksum {snapshot.refs_checksum}, which is not there"
            self.found.add(names.REFS_HEAD, what, "nothing: it is a copy of what the entries say", _HINT)
        return refs

    def commits(self, refs: Refs, branch: BranchRef, since: int) -> Iterator[Commit]:
        """Yield the commits of a branch from a version on that can be read, oldest first. Plans are checked, too."""
        first = max(0 if branch.fork is None else branch.fork.version + 1, since)
        parent = refs.start if first == 0 else branch.fork if branch.fork and first == branch.fork.version + 1 else None
        committed, planned = self._numbers(names.commits(branch.id)), self._numbers(names.plans(branch.id))
        last_plan = max(planned, default=-1)  # it is written only after the commit of the plan before it
        top = max(committed | {self._hinted(branch), last_plan - 1})
        for version in range(first, max(top, last_plan) + 1):
            plan = self._plan(refs, branch, version, parent) if version in planned else None
            if version > top:
                break
            commit = self._commit(refs, branch, version, parent)
            if commit is not None:
                self._compare(commit, plan)
                yield commit
            parent = None if commit is None else commit.as_parent

    def pinned(self, refs: Refs) -> Iterator[Commit]:
        """Yield the commits of versions below a floor that tags or forks keep, if they can be read."""
        for at in sorted(pinned(refs)):
            if at.version < first_kept(floor(refs, at.branch)):
                commit = self._commit(refs, BranchRef("", at.branch), at.version, None)
                if commit is not None:
                    yield commit

    def _commit(self, refs: Refs, branch: BranchRef, version: int, parent: Parent | None) -> Commit | None:
        name = names.commit(branch.id, version)
        with self.found.of(name, f"version {version}, and what follows it"):
            commit = decode(Commit, self._data(name), name)
            _check_place(name, (commit.branch, commit.version), (branch.id, version))
            with self.found.of(name, f"version {version}, and what follows it"):
                _check_parent(name, commit.parent, parent)
                self._check_origin(name, commit, refs)
            return self.as_rewritten(commit)
        return None

    def _plan(self, refs: Refs, branch: BranchRef, number: int, parent: Parent | None) -> Plan | None:
        name = names.plan(branch.id, number)
        with self.found.of(name, f"what the batch of version {number} read"):
            plan = decode(Plan, self._data(name), name)
            _check_place(name, (plan.branch, plan.number), (branch.id, number))
            _check_parent(name, plan.parent, parent)
            if plan.pipeline_uuid not in refs.uuids:
                raise CorruptState(f"read plan `{name}`: it was made by repository {plan.pipeline_uuid}")
            return plan
        return None

    def _compare(self, commit: Commit, plan: Plan | None) -> None:
        """Note a plan that is lost, or is not the one that the commit was made of."""
        name = names.plan(commit.branch, commit.version)
        if commit.plan_id and name not in self.listing:
            self.found.add(name, "the plan is missing, but a commit was made of it", f"replay of {commit.version}")
        if commit.plan_id and plan is not None and plan.plan_id != commit.plan_id:
            what = f"it was made of plan {commit.plan_id}, but `{name}` is plan {plan.plan_id}"
            self.found.add(names.commit(commit.branch, commit.version), what, f"version {commit.version}", _ONE_BACKUP)

    def _check_origin(self, name: str, commit: Commit, refs: Refs) -> None:
        """Raise `CorruptState` if a commit was made by another repository, or after entries that are lost."""
        if commit.pipeline_uuid not in refs.uuids:
            raise CorruptState(f"read commit `{name}`: it was made by repository {commit.pipeline_uuid}")
        expected = self.checksums.get(commit.refs_through)
        if commit.refs_through <= refs.through and commit.refs_checksum != expected:
            raise CorruptState(
                f"read commit `{name}`: it was made after entry {commit.refs_through} with checksum "
                f"{commit.refs_checksum}, found {expected}",
                hint=_ONE_BACKUP,
            )
        if commit.refs_through > self._last_entry:
            raise CorruptState(
                f"read commit `{name}`: it was made after entry {commit.refs_through} of `refs/`, which is missing",
                hint="restore `refs/` from the newest backup",
            )

    def _snapshot(self) -> Refs | None:
        """Return the snapshot of the entries, or None if there is none, or none that can be read."""
        name = names.REFS_HEAD
        if name not in self.listing:
            return None
        with self.found.of(name, "nothing: it is a copy of what the entries say"):
            return decode(Refs, self.store.get(name), name)
        return None

    @functools.cached_property
    def _last_entry(self) -> int:
        return max(self._numbers(names.REFS), default=-1)

    def _hinted(self, branch: BranchRef) -> int:
        name = names.head_hint(branch.id)
        if name not in self.listing:
            return -1
        hinted = hint.read_hint(self.store, name)
        if hinted < 0:
            self.found.add(name, "not a hint to a version", "nothing: it says where a search begins", _HINT)
        return hinted

    def _numbers(self, prefix: str) -> set[int]:
        found = (names.number_in(prefix, name) for name in self.listing if name.startswith(prefix))
        return {number for number in found if number is not None}

    def _data(self, name: str) -> bytes:
        try:
            return self.store.get(name)
        except ObjectMissing as error:
            raise CorruptState(f"read `{name}`: the record is missing, but later ones show that it was made") from error


def _follow(refs: Refs, entry: entries.Entry) -> Refs:
    try:
        return follow(refs, entry)
    except CorruptState as error:
        raise CorruptState(
            f"it does not follow `{names.ref(refs.through)}`: {error.message}", hint=error.hint
        ) from error


def live_branches(refs: Refs) -> list[BranchRef]:
    """Return all branches that are not dropped, `main` first."""
    return sorted(refs.branches.values(), key=lambda branch: branch.id != MAIN)


def _check_place(name: str, found: tuple[str, int], expected: tuple[str, int]) -> None:
    if found != expected:
        raise CorruptState(
            f"read `{name}`: expected number {expected[1]} of branch `{expected[0]}`, found number {found[1]} of "
            f"branch `{found[0]}`"
        )


def _check_parent(name: str, found: Parent, expected: Parent | None) -> None:
    if expected is not None and found != expected:
        raise CorruptState(
            f"read `{name}`: it is based on version {found.version} with checksum {found.checksum}, expected version "
            f"{expected.version} with checksum {expected.checksum}",
            hint=_ONE_BACKUP,
        )

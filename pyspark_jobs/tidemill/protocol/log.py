"""The log of one branch: its plans, its commits, and the versions of another branch up to its fork.

INVARIANT: each commit names its parent by branch, version and checksum, and each plan the commit on which it is based.
So records that come from elsewhere, or from an older backup, are found by whoever reads the next one. What a `forget`
has replaced in earlier versions is applied to each that is read. CRASH: one conditional create is the whole commit
(`numbered`).
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, TypeVar

from .. import names
from ..errors import CorruptState, Fenced, InternalError, InvalidInput
from ..store import Store, side_by_side
from ..values import dataclass
from . import decide
from .codec import checksum_of, decode, encode
from .history import last_forget
from .kinds import rules_of
from .numbered import Numbered
from .records import REWRITE, Commit, Forgotten, Parent, Plan
from .refs import MAIN, Refs
from .rewrites import Rewrites

Attached = TypeVar("Attached", Plan, Commit)
MEMORY = 1000
"""How many commits a log with a memory keeps."""


@dataclass(frozen=True)
class Committed:
    """The commit that is stored under a version. `created`: by this call. `already`: by another attempt at the plan."""

    commit: Commit
    outcome: Literal["created", "already"]


@dataclass(frozen=True)
class Looked:
    """The newest commit when it was looked for, and what was stored as the plan `number` then: its bytes, or None.

    `is_news`: this process did not know the commit before.
    """

    head: Commit
    number: int
    planned: bytes | None
    is_news: bool


@dataclass(frozen=True)
class Fork:
    """The version of another log from which a branch starts. `parent` is its commit, as the branch's entry names it."""

    log: Log
    parent: Parent


class Log:
    """The plans and commits of the branch with the id `branch`. `store` is opened at the repository's folder.

    `fork` is where the branch starts; versions up to it are those of the other log. None: the branch starts at version
    -1, whose record, the init record, is `start`. `rewrites` are applied to all versions that are read.
    """

    def __init__(
        self,
        store: Store,
        branch: str = MAIN,
        fork: Fork | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store, self._branch, self._fork = store, branch, fork
        self.rewrites: Rewrites = Rewrites(store) if fork is None else fork.log.rewrites
        self._first = 0 if fork is None else fork.parent.version + 1
        hint_name = names.head_hint(branch)
        self._commits = Numbered(store, names.commits(branch), "commit", hint_name, self._first, pause)
        self._plans = Numbered(store, names.plans(branch), "plan", None, self._first, pause)
        self._newest: Commit | None = None
        self._confirmed = -1  # the newest version that this process has compared with the one before it
        self._memory: OrderedDict[int, Commit] | None = None

    @property
    def branch(self) -> str:
        """The id of the branch whose log this is."""
        return self._branch

    @property
    def first(self) -> int:
        """The first version of the branch itself: 0, or the one after the fork."""
        return self._first

    def remembering(self) -> Log:
        """Return this log with a memory of the commits that it has read last, for a call that reads them repeatedly.

        Commits never change, so the result is the same. Damage after the first read is not noticed.
        """
        if self._memory is not None:
            return self
        made = copy.copy(self)
        made._memory = OrderedDict()
        made._fork = None if self._fork is None else dataclasses.replace(self._fork, log=self._fork.log.remembering())
        return made

    @property
    def knows_head(self) -> bool:
        """Whether this process has read a commit of the branch itself, so that `look` asks for news only."""
        return self._newest is not None

    def newest_version(self) -> int:
        """Return the number of the newest version, -1 if there is none. Does not read its record.

        A branch without commits of its own has that of its fork. `CorruptState` if records of the branch are missing.
        """
        newest = self._commits.newest()
        if newest is None:
            self._refuse_lost_commits()
            return self._first - 1
        return newest

    def head(self) -> Commit | None:
        """Return the newest commit, or None if there is none (version -1).

        A branch without commits of its own has that of its fork. The first call costs three requests, later calls cost
        one. `CorruptState` if records of the branch are missing, or the head does not follow the commit before it.
        """
        newest = self._commits.newest()
        if newest is None:
            self._refuse_lost_commits()
            return None if self._fork is None else self._fork_commit(self._fork)
        before = self._newest
        if before is not None and before.version == newest:
            return self.rewrites.commit(before)
        found = self._commit(newest)
        if before is not None and before.version + 1 == newest:
            self._check_parent(found, before.as_parent)
            self._confirmed = newest
        self._newest = found
        self.rewrites.learn(found)
        return found

    def look(self) -> Looked:
        """Ask side by side for a newer commit, and for the plan after the one that this process knows.

        Call it only if the log `knows_head`.
        """
        if (known := self._newest) is None:
            raise InternalError(f"look for news of branch `{self._branch}`: no commit is known")
        reads: list[Callable[[], Any]] = [self.head, partial(self._plans.read, known.version + 1)]
        head, planned = side_by_side(self._store, reads)
        return Looked(head, known.version + 1, planned, is_news=head is not known)

    def confirm(self, head: Commit, start: Parent) -> None:
        """Raise `CorruptState` if `head` does not follow the commit before it, or `start` as version 0.

        Whoever writes after `head` calls this. It costs one request, and none if this process knows both commits.
        """
        if head.branch != self._branch or head.version == self._confirmed:
            return
        if head.version > self._first:
            before = self._find(head.version - 1)
            parent = None if before is None else before.as_parent
        else:
            parent = start if self._fork is None else self._fork.parent
        if parent is not None:
            self._check_parent(head, parent)
        self._confirmed = head.version

    def commit(self, version: int) -> Commit:
        """Return the commit that made `version`. `InvalidInput` for any other number names the versions that exist."""
        if self._fork is not None and 0 <= version < self._first:
            return self._fork.log.commit(version)
        if self._newest is not None and self._newest.version == version:
            return self.rewrites.commit(self._newest)
        found = self._find(version) if self._first <= version <= names.LAST_NUMBER else None
        if found is not None:
            return found
        head = self.head()
        if head is not None and 0 <= version <= head.version:
            return self._commit(version)
        there = "the branch has no version yet" if head is None else f"versions go from 0 to {head.version}"
        raise InvalidInput(f"read version {version} of branch `{self._branch}` in `{self._store.uri}`: {there}")

    def commits(self, since: int = 0, start: Parent | None = None, through: Commit | None = None) -> Iterator[Commit]:
        """Yield every commit from version `since` to `through`, in order, each checked to follow the one before.

        `start` is the parent that version 0 must have. `through` is the head, if the caller has it. `CorruptState` if a
        commit is missing or follows another one.
        """
        head = self.head() if through is None else through
        parent = start if since <= 0 else None
        for version in range(max(since, 0), 0 if head is None else head.version + 1):
            found = self.commit(version)
            if parent is not None:
                self._check_parent(found, parent)
            parent = found.as_parent
            yield found

    def forgotten(self, head: Commit | None) -> list[Forgotten]:
        """Return the keys of every `forget` up to `head`, oldest first. Reads the commit of each but the last.

        Commits of the first releases repeat all keys that were forgotten before them, so these end the search.
        """
        found: list[list[Forgotten]] = []
        commit = head
        while commit is not None:
            found.append(commit.forgotten)
            commit = None if commit.forgotten_at is None else self.forget_commit(commit.forgotten_at)
        return [one for those in reversed(found) for one in those]

    def given_up_by(self, head: Commit | None) -> int | None:
        """Return the last `forget` up to `head` that has given up the versions before it, or None.

        Reads the commits of later ones, which have rewritten these versions instead.
        """
        at = last_forget(head)
        while at is not None and (commit := self.forget_commit(at)) is not None and REWRITE in commit.requires:
            at = commit.forgotten_at
        return at

    def forget_commit(self, version: int) -> Commit:
        """Return the commit of a `forget`. `CorruptState` if it is another one, or refers to one after it."""
        found = self.commit(version)
        if any(one.version == version for one in found.forgotten) and (found.forgotten_at or -1) < version:
            return found
        raise CorruptState(
            f"read commit `{self._store.uri}/{self._commits.name(version)}`: expected a `forget`, of which later "
            f"commits tell, found `{found.kind}`",
            hint="restore the object from a backup",
        )

    def plan(self, number: int, parent: Parent | None = None, looked: Looked | None = None) -> Plan | None:
        """Return the plan of batch `number`, or None. `CorruptState` if it is not based on `parent`, if given.

        If it was `looked` for just now, it is not read again.

        `CorruptState` also if its commit was lost. The next plan is written only after the commit, so that is certain
        if the next plan exists and the commit, looked for after it, does not. Plans up to the fork are those of the
        other branch.
        """
        if self._fork is not None and 0 <= number < self._first:
            return self._fork.log.plan(number, parent)
        is_read = looked is not None and looked.number == number
        found = looked.planned if looked is not None and is_read else self._plans.read(number)
        if found is None:
            return None
        if self._plans.exists(number + 1) and not self._commits.exists(number):
            raise self._commits.lost(number, f"`{self._plans.name(number + 1)}` shows that it was made")
        name = self._plans.name(number)
        plan = self._checked(decode(Plan, found, name), name, number)
        if parent is not None:
            self._check_parent(plan, parent)
        return self.rewrites.plan(plan)

    def plan_of(self, commit: Commit) -> Plan | None:
        """Return the plan that a commit carried out. None for other kinds of commits, and if the plan is missing."""
        if not rules_of(commit).carries_out:
            return None
        plan = self.plan(commit.version)
        return plan if plan is not None and plan.plan_id == commit.plan_id else None

    def create_plan(self, plan: Plan) -> Plan:
        """Write the plan, or return the plan that is already stored under its number.

        INVARIANT: all planners of a batch get the same plan. The caller runs the plan that is returned, not its own.
        """
        self._check_branch(plan)
        name = self._plans.name(plan.number)
        found = self._checked(decode(Plan, self._plans.claim(plan.number, encode(plan)), name), name, plan.number)
        self._check_parent(found, plan.parent)
        return found

    def create_commit(self, commit: Commit) -> Committed:
        """Commit, or return the commit that another attempt made of the same plan. `Fenced` for any other commit.

        `StoreUnavailable` means that the outcome is unknown. Nothing is lost: the next run of the batch reads the
        outcome back. CRASH: after a crash, the commit either exists as a whole or does not exist.
        """
        self._check_branch(commit)
        name, data = self._commits.name(commit.version), encode(commit)
        found = self._commits.claim(commit.version, data)
        if found == data:
            there = _sealed(commit, data)
        else:
            there = self._checked(decode(Commit, found, name), name, commit.version)
            self._check_parent(there, commit.parent)
        self._commits.reached(commit.version)
        if self._newest is None or self._newest.version < there.version:
            self._newest = there
            self._confirmed = there.version
            self.rewrites.learn(there)
        outcome = decide.commit_outcome(commit, there)
        if outcome == "fenced":
            raise Fenced(decide.fenced_reason(commit, there), hint=decide.fenced_hint(there))
        return Committed(there, "created" if outcome == "ours" else "already")

    def _find(self, version: int) -> Commit | None:
        if self._memory is not None and version in self._memory:
            return self.rewrites.commit(self._memory[version])
        data, name = self._commits.read(version), self._commits.name(version)
        if data is None:
            return None
        found = self._checked(decode(Commit, data, name), name, version)
        if self._memory is not None:
            if len(self._memory) >= MEMORY:
                self._memory.popitem(last=False)  # threads may read at once, and this is one step
            self._memory[version] = found
        return self.rewrites.commit(found)

    def _commit(self, version: int) -> Commit:
        found = self._find(version)
        if found is None:
            raise self._commits.lost(version, "it was made")
        return found

    def _fork_commit(self, fork: Fork) -> Commit | None:
        """Return the commit from which the branch starts. `CorruptState` if it is not the one that its entry names."""
        if fork.parent.version < 0:
            return None
        found = fork.log.commit(fork.parent.version)
        if found.as_parent != fork.parent:
            raise CorruptState(
                f"read version {found.version}, from which branch `{self._branch}` in `{self._store.uri}` starts: "
                f"expected the record with checksum {fork.parent.checksum} of branch `{fork.parent.branch}`, found "
                f"{found.checksum} of branch `{found.branch}`",
                hint="restore the commits of both branches and `refs/` from one backup",
            )
        return found

    def _refuse_lost_commits(self) -> None:
        """Raise `CorruptState` if the branch has no commit although one was made.

        Objects of a batch are written after its plan. So if the first plan is missing too, any object was made by a
        commit that is lost. Only a branch without commits pays for these requests. INVARIANT: the record that proves a
        loss by its absence is looked for after the trace was found, because another run may be making the first batch.
        """
        planned = self._plans.exists(self._first)
        if not planned:
            trace = trace_of_batch(self._store, self._branch)
        elif self._plans.exists(self._first + 1):
            trace = self._plans.name(self._first + 1)
        else:
            trace = trace_of_batch(self._store, self._branch, "published/")
        if trace is None or self._commits.exists(self._first):
            return
        if planned or not self._plans.exists(self._first):
            raise self._commits.lost(self._first, f"`{trace}` shows that it was made")

    def _check_parent(self, record: Attached, parent: Parent) -> None:
        """Raise `CorruptState` if a record is not based on `parent`."""
        if record.parent == parent:
            return
        what, number = _named(record)
        raise CorruptState(
            f"read {what} {number} of branch `{self._branch}` in `{self._store.uri}`: it is based on "
            f"{_shown(record.parent)}, expected {_shown(parent)}",
            hint="the records come from different backups or repositories; restore `branches/` and `refs/` from one "
            "backup",
        )

    def _checked(self, record: Attached, name: str, number: int) -> Attached:
        """Return `record` if its branch and number are those of its name; otherwise raise `CorruptState`."""
        what, found = _named(record)
        if (record.branch, found) != (self._branch, number):
            raise CorruptState(
                f"read {what} `{self._store.uri}/{name}`: expected number {number} of branch `{self._branch}`, "
                f"found number {found} of branch `{record.branch}`",
                hint="restore the object from a backup",
            )
        return record

    def _check_branch(self, record: Plan | Commit) -> None:
        if record.branch != self._branch:
            raise InternalError(f"write a record of branch `{record.branch}` to the log of branch `{self._branch}`")


def trace_of_batch(store: Store, branch: str, *folders: str) -> str | None:
    """Return the name of an object that only a batch of the branch writes, or None. An empty `branch` means any."""
    part = f"/{branch}/" if branch else "/"
    for folder in folders or ("output/", "quarantine/", "published/", "state/"):
        for entry in store.list(folder):
            if part in entry.name and names.needs_plan(entry.name):
                return entry.name
    return None


def _sealed(commit: Commit, data: bytes) -> Commit:
    """Return our own commit with the checksum that its encoded form has."""
    return dataclasses.replace(commit, checksum=checksum_of(data))


def _named(record: Plan | Commit) -> tuple[str, int]:
    return ("commit", record.version) if isinstance(record, Commit) else ("plan", record.number)


def _shown(parent: Parent) -> str:
    if parent.version < 0:
        return f"the init record with checksum {parent.checksum}"
    return f"version {parent.version} of branch `{parent.branch}` with checksum {parent.checksum}"


def log_of(store: Store, refs: Refs, branch: str) -> Log:
    """Return the log of a branch that is not dropped, by its id, with those of the branches that it comes from."""
    fork = next(one.fork for one in refs.branches.values() if one.id == branch)
    made = Log(store, branch, None if fork is None else Fork(log_of(store, refs, fork.branch or MAIN), fork))
    made.rewrites.know(refs.rewrote_at)
    return made

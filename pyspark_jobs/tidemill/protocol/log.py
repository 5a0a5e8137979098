"""The log of one branch: init, plans, commits, and the hint to the newest commit.

Every name is created once and never changed or deleted, so versions have no gaps and a name that exists proves all
below it. CRASH: one conditional create is the whole commit; whatever the answer to it, what counts is what is read
back under the name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from .. import names
from ..errors import CorruptState, Fenced, InternalError, InvalidInput, StoreUnavailable
from ..store import ObjectMissing, Store
from . import decide, hint
from .codec import decode, decode_entry, encode
from .records import Added, Commit, Init, Plan

PAUSES_S = (0.05, 0.2, 0.5, 1.0)
"""How long to wait before each further try of a create whose outcome could not be read back."""

Numbered = TypeVar("Numbered", Plan, Commit)


@dataclass(frozen=True)
class Committed:
    """The commit that counts: `created` by this call, or there `already` by another attempt at the same plan."""

    commit: Commit
    outcome: Literal["created", "already"]


class Log:
    """Plans and commits of `branch` in a pipeline's repository, which `store` is opened at."""

    def __init__(self, store: Store, branch: str = "main", pause: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._branch = names.check_name(branch, "branch")
        self._pause = pause
        self._newest: Commit | None = None  # the newest commit seen: heads never go back, so probing starts there

    @property
    def branch(self) -> str:
        """The branch whose log this is."""
        return self._branch

    def init(self, record: Init) -> Init:
        """Makes the repository, or gives back the record that made it; `InvalidInput` if it is another pipeline's."""
        found = self._claim(names.ref(0), encode(record))
        there = decode(Init, found, names.ref(0))
        if there.pipeline != record.pipeline:
            raise InvalidInput(
                f"init pipeline `{record.pipeline}` in `{self._store.uri}`: it holds the pipeline `{there.pipeline}`",
                hint="choose another root or another name",
            )
        return there

    def read_init(self) -> Init | None:
        """The record that `init` wrote; None if there is no repository yet."""
        found = self._read(names.ref(0))
        return None if found is None else decode(Init, found, names.ref(0))

    def entries(self) -> Iterator[Added]:
        """What was entered into `refs/` after `init`, oldest first; `CorruptState` for a kind that is not known."""
        number = 1
        while (data := self._read(names.ref(number))) is not None:
            yield decode_entry(data, names.ref(number))
            number += 1

    def added(self) -> list[Added]:
        """The operators that `init` was told of after the first time, oldest first."""
        return [entry for entry in self.entries() if isinstance(entry, Added)]

    def add(self, record: Added) -> None:
        """Appends an entry; told by several at once, each finds the next free number."""
        number, data = sum(1 for _ in self.entries()) + 1, encode(record)
        while self._claim(names.ref(number), data) != data:
            number += 1

    def head(self) -> Commit | None:
        """The newest commit; None if there is none (version −1).

        Starts at the hint, or at the newest commit this log has seen, and probes. With a good hint that is three
        requests, later one; with a bad one their number grows with the logarithm of the versions.
        """
        if self._newest is None:
            self._newest = self._verified(hint.read(self._store, names.head_hint(self._branch)))
        newest = self._newest
        for version in self._above(-1 if newest is None else newest.version):
            newest = self._commit(version)
        if newest is None and self._read(names.plan(self._branch, 1)) is not None:
            raise CorruptState(
                f"read the head of branch `{self._branch}` in `{self._store.uri}`: there is a plan 1, and no commit 0",
                hint=f"restore `{names.commits(self._branch)}` from a backup; nothing starts empty by accident",
            )
        self._newest = newest
        return newest

    def commit(self, version: int) -> Commit:
        """The commit that made `version`; `InvalidInput` naming what versions there are if there is none."""
        found = self._find(version) if 0 <= version <= names.LAST_NUMBER else None
        if found is not None:
            return found
        head = self.head()
        if head is not None and 0 <= version <= head.version:
            return self._commit(version)
        there = "there is none yet" if head is None else f"versions go from 0 to {head.version}"
        raise InvalidInput(f"read version {version} of branch `{self._branch}` in `{self._store.uri}`: {there}")

    def commits(self, since: int = 0) -> Iterator[Commit]:
        """Every commit from version `since` up to the head, in order; `CorruptState` for one that is lost."""
        head = self.head()
        for version in range(max(since, 0), 0 if head is None else head.version + 1):
            yield self._commit(version)

    def plan(self, number: int) -> Plan | None:
        """The plan of batch `number`; None if there is none."""
        name = names.plan(self._branch, number)
        found = self._read(name)
        return None if found is None else self._checked(decode(Plan, found, name), name, number)

    def create_plan(self, plan: Plan) -> Plan:
        """Writes the plan, or gives back the one that is there: two planners never disagree. Run the one returned."""
        self._check_branch(plan)
        name = names.plan(self._branch, plan.number)
        found = self._claim(name, encode(plan))
        return self._checked(decode(Plan, found, name), name, plan.number)

    def create_commit(self, commit: Commit) -> Committed:
        """Commits, or finds that another attempt at the same plan did; else `Fenced`.

        `StoreUnavailable`: unknown, and nothing is lost: run the batch again, it will find out. A crash leaves the
        commit there or not, nothing between.
        """
        self._check_branch(commit)
        name, data = names.commit(self._branch, commit.version), encode(commit)
        found = self._claim(name, data)
        there = commit if found == data else self._checked(decode(Commit, found, name), name, commit.version)
        outcome = decide.commit_outcome(commit, there)
        if outcome == "fenced":
            raise Fenced(decide.fenced_reason(commit, there))
        if self._newest is None or self._newest.version < there.version:
            self._newest = there
        hint.write(self._store, names.head_hint(self._branch), there.version)
        return Committed(there, "created" if outcome == "ours" else "already")

    def _claim(self, name: str, data: bytes) -> bytes:
        """Creates `name` if it is free, and gives back what stands there then: ours, or somebody else's.

        After any error or refusal the name is read: the answer may have been lost, or our own write may have come
        late. Absent is not final until the name is taken, so the same bytes are sent again.
        """
        failed: StoreUnavailable | None = None
        for pause_s in (0.0, *PAUSES_S):
            if pause_s:
                self._pause(pause_s)
            try:
                if self._store.create(name, data):
                    return data
                found = self._read(name)
            except Exception as error:
                found = self._read_if_possible(name)
                if found is None and not isinstance(error, StoreUnavailable):
                    raise
                failed = error if isinstance(error, StoreUnavailable) else None
            if found is not None:
                return found
        raise StoreUnavailable(
            f"create `{self._store.uri}/{name}`: {len(PAUSES_S) + 1} tries had no answer, and nothing is there "
            f"to read back ({failed.first_line if failed else 'refused as taken'}); it may still arrive",
            hint=failed.hint if failed and failed.hint else "run again: it reads what became of it",
        ) from failed

    def _read(self, name: str) -> bytes | None:
        try:
            return self._store.get(name)
        except ObjectMissing:
            return None

    def _read_if_possible(self, name: str) -> bytes | None:
        try:
            return self._read(name)
        except StoreUnavailable:
            return None

    def _verified(self, hinted: int) -> Commit | None:
        """The hint's commit. A hint is written after its commit, so one without it tells of a loss."""
        if hinted < 0:
            return None
        found = self._find(hinted)
        if found is None:
            raise CorruptState(
                f"read the head of branch `{self._branch}` in `{self._store.uri}`: the hint says version {hinted}, "
                "and its commit is not there; commits are never deleted",
                hint=f"restore `{names.commits(self._branch)}` from a backup; nothing starts empty by accident",
            )
        return found

    def _above(self, version: int) -> Iterator[int]:
        """The head's version, if it is above `version`: one probe where nothing was added, else a gallop."""
        there, absent = version, version + 1
        while absent <= names.LAST_NUMBER and self._exists(absent):
            there, absent = absent, version + 2 * (absent - version)
        last = self._last(there, min(absent, names.LAST_NUMBER + 1))
        if last > version:
            yield last

    def _last(self, there: int, absent: int) -> int:
        """The last version that exists, given one that does (or −1) and one that does not."""
        while absent - there > 1:
            middle = (there + absent) // 2
            there, absent = (middle, absent) if self._exists(middle) else (there, middle)
        return there

    def _exists(self, version: int) -> bool:
        return self._store.stat(names.commit(self._branch, version)) is not None

    def _find(self, version: int) -> Commit | None:
        name = names.commit(self._branch, version)
        found = self._read(name)
        return None if found is None else self._checked(decode(Commit, found, name), name, version)

    def _commit(self, version: int) -> Commit:
        found = self._find(version)
        if found is None:
            raise CorruptState(
                f"read `{self._store.uri}/{names.commit(self._branch, version)}`: it was there and is gone; "
                "commits are never deleted",
                hint="restore it from a backup",
            )
        return found

    def _checked(self, record: Numbered, name: str, number: int) -> Numbered:
        """`record` if it says of itself what its name says."""
        found = record.version if isinstance(record, Commit) else record.number
        if (record.branch, found) != (self._branch, number):
            raise CorruptState(
                f"read `{self._store.uri}/{name}`: it says number {found} of branch `{record.branch}`",
                hint="restore the object from a backup",
            )
        return record

    def _check_branch(self, record: Plan | Commit) -> None:
        if record.branch != self._branch:
            raise InternalError(f"a record of branch `{record.branch}` was given to the log of `{self._branch}`")

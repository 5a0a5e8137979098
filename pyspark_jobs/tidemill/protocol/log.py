"""The log of one branch: the init record, plans, commits, and the hint to the newest commit.

INVARIANT: each name is created once and never changed or deleted. So versions have no gaps, and a commit that exists
proves that all lower ones were made. CRASH: one conditional create is the whole commit. After a doubtful answer, the
log reads the name back, and the record that is stored there counts.
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
"""Seconds to wait before each retry of a create whose outcome could not be read back."""

Numbered = TypeVar("Numbered", Plan, Commit)


@dataclass(frozen=True)
class Committed:
    """The commit that is stored under a version. `created`: by this call. `already`: by another attempt at the plan."""

    commit: Commit
    outcome: Literal["created", "already"]


class Log:
    """The plans and commits of `branch` in a pipeline's repository. `store` is opened at the repository's folder."""

    def __init__(self, store: Store, branch: str = "main", pause: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._branch = names.check_name(branch, "branch")
        self._pause = pause
        self._newest: Commit | None = None  # newest commit seen; a head never goes back, so probing starts here

    @property
    def branch(self) -> str:
        """The branch whose log this is."""
        return self._branch

    def init(self, record: Init) -> Init:
        """Make the repository, or return the record that made it. `InvalidInput` if it belongs to another pipeline."""
        found = self._claim(names.ref(0), encode(record))
        there = decode(Init, found, names.ref(0))
        if there.pipeline != record.pipeline:
            raise InvalidInput(
                f"init pipeline `{record.pipeline}` in `{self._store.uri}`: found the pipeline "
                f"`{there.pipeline}` there",
                hint="choose another root or another name",
            )
        return there

    def read_init(self) -> Init | None:
        """Return the record that `init` wrote, or None if there is no repository yet."""
        found = self._read(names.ref(0))
        return None if found is None else decode(Init, found, names.ref(0))

    def entries(self) -> Iterator[Added]:
        """Yield the entries of `refs/` after the init record, oldest first. `CorruptState` for an unknown kind."""
        number = 1
        while (data := self._read(names.ref(number))) is not None:
            yield decode_entry(data, names.ref(number))
            number += 1

    def added(self) -> list[Added]:
        """Return the entries by which later calls of `init` added and removed operators, oldest first."""
        return [entry for entry in self.entries() if isinstance(entry, Added)]

    def add(self, record: Added) -> None:
        """Append an entry to `refs/`. Concurrent callers each get the next free number."""
        number, data = sum(1 for _ in self.entries()) + 1, encode(record)
        while self._claim(names.ref(number), data) != data:
            number += 1

    def head(self) -> Commit | None:
        """Return the newest commit, or None if the branch is empty (version -1).

        The search starts at the hint, or at the newest commit that this log has seen, and probes upward. With a good
        hint the first call costs three requests and later calls cost one. With a bad hint the number of requests grows
        with the logarithm of the number of versions.
        """
        if self._newest is None:
            self._newest = self._verified(hint.read(self._store, names.head_hint(self._branch)))
        newest = self._newest
        for version in self._above(-1 if newest is None else newest.version):
            newest = self._commit(version)
        if newest is None and self._read(names.plan(self._branch, 1)) is not None:
            raise CorruptState(
                f"read the head of branch `{self._branch}` in `{self._store.uri}`: found plan 1, but no commit 0",
                hint=f"restore `{names.commits(self._branch)}` from a backup; Tidemill never starts empty by accident",
            )
        self._newest = newest
        return newest

    def commit(self, version: int) -> Commit:
        """Return the commit that made `version`. `InvalidInput` for any other number names the versions that exist."""
        found = self._find(version) if 0 <= version <= names.LAST_NUMBER else None
        if found is not None:
            return found
        head = self.head()
        if head is not None and 0 <= version <= head.version:
            return self._commit(version)
        there = "the branch has no version yet" if head is None else f"versions go from 0 to {head.version}"
        raise InvalidInput(f"read version {version} of branch `{self._branch}` in `{self._store.uri}`: {there}")

    def commits(self, since: int = 0) -> Iterator[Commit]:
        """Yield every commit from version `since` to the head, in order. `CorruptState` if one of them is missing."""
        head = self.head()
        for version in range(max(since, 0), 0 if head is None else head.version + 1):
            yield self._commit(version)

    def plan(self, number: int) -> Plan | None:
        """Return the plan of batch `number`, or None if that batch has no plan."""
        name = names.plan(self._branch, number)
        found = self._read(name)
        return None if found is None else self._checked(decode(Plan, found, name), name, number)

    def create_plan(self, plan: Plan) -> Plan:
        """Write the plan, or return the plan that is already stored under its number.

        INVARIANT: all planners of a batch get the same plan. The caller runs the plan that is returned, not its own.
        """
        self._check_branch(plan)
        name = names.plan(self._branch, plan.number)
        found = self._claim(name, encode(plan))
        return self._checked(decode(Plan, found, name), name, plan.number)

    def create_commit(self, commit: Commit) -> Committed:
        """Commit, or return the commit that another attempt made of the same plan. `Fenced` for any other commit.

        `StoreUnavailable` means that the outcome is unknown. Nothing is lost: the next run of the batch reads the
        outcome back. CRASH: after a crash, the commit either exists as a whole or does not exist.
        """
        self._check_branch(commit)
        name, data = names.commit(self._branch, commit.version), encode(commit)
        found = self._claim(name, data)
        there = commit if found == data else self._checked(decode(Commit, found, name), name, commit.version)
        outcome = decide.commit_outcome(commit, there)
        if outcome == "fenced":
            raise Fenced(decide.fenced_reason(commit, there), hint=decide.fenced_hint(there))
        if self._newest is None or self._newest.version < there.version:
            self._newest = there
        hint.write(self._store, names.head_hint(self._branch), there.version)
        return Committed(there, "created" if outcome == "ours" else "already")

    def _claim(self, name: str, data: bytes) -> bytes:
        """Create `name` if it does not exist, and return the bytes that are stored under it: ours or another run's.

        INVARIANT: after an error or a refusal, the name is read back, because our own write may have succeeded although
        its answer was lost. If the name is still missing, an earlier write may yet arrive, so the same bytes are sent
        again.
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
            f"create `{self._store.uri}/{name}`: outcome unknown after {len(PAUSES_S) + 1} attempts "
            f"({failed.first_line if failed else 'the store said that the name exists, but it is missing'}); "
            "the write may still complete",
            hint=failed.hint if failed and failed.hint else "run again; the next run finds out whether it completed",
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
        """Return the commit that the hint names. A hint is written after its commit, so a missing commit was lost."""
        if hinted < 0:
            return None
        found = self._find(hinted)
        if found is None:
            raise CorruptState(
                f"read the head of branch `{self._branch}` in `{self._store.uri}`: the hint names version {hinted}, "
                "but its commit is missing; commits are never deleted",
                hint=f"restore `{names.commits(self._branch)}` from a backup; Tidemill never starts empty by accident",
            )
        return found

    def _above(self, version: int) -> Iterator[int]:
        """Yield the head's version if it is above `version`: one probe if nothing was added, else a gallop."""
        there, absent = version, version + 1
        while absent <= names.LAST_NUMBER and self._exists(absent):
            there, absent = absent, version + 2 * (absent - version)
        last = self._last(there, min(absent, names.LAST_NUMBER + 1))
        if last > version:
            yield last

    def _last(self, there: int, absent: int) -> int:
        """Return the last version that exists. `there` exists or is -1, `absent` does not exist."""
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
                f"read `{self._store.uri}/{names.commit(self._branch, version)}`: the commit is missing, although it "
                "was made; commits are never deleted",
                hint="restore it from a backup",
            )
        return found

    def _checked(self, record: Numbered, name: str, number: int) -> Numbered:
        """Return `record` if its branch and number are those of its name; otherwise raise `CorruptState`."""
        found = record.version if isinstance(record, Commit) else record.number
        if (record.branch, found) != (self._branch, number):
            raise CorruptState(
                f"read `{self._store.uri}/{name}`: expected number {number} of branch `{self._branch}`, "
                f"found number {found} of branch `{record.branch}`",
                hint="restore the object from a backup",
            )
        return record

    def _check_branch(self, record: Plan | Commit) -> None:
        if record.branch != self._branch:
            raise InternalError(f"write a record of branch `{record.branch}` to the log of branch `{self._branch}`")

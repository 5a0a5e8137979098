"""`Steps`: the recorded versions that made a branch what it is, oldest first.

`replay` carries them out again, and `changes` shows what each of them changed.

A promotion took over the versions of another branch, so these stand in its place. INVARIANT: steps come from records
alone, and a version of the effective history has a beginning of the steps of each later one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal

from .. import names
from ..errors import InternalError
from ..protocol.history import effective, is_effective
from ..protocol.kinds import rules_of
from ..protocol.log import Log
from ..protocol.records import Commit, Plan, VersionOf
from ..protocol.retained import fork_of
from ..values import dataclass
from .opened import Opened


def leaves_nothing(commit: Commit) -> bool:
    """Whether a commit leaves nothing to repeat. A rewind may have taken files out of the input."""
    return rules_of(commit).replayed == "nothing" and not commit.skipped


def made_again(commit: Commit) -> Literal["skips", "requeues"]:
    """Return how a replay makes a correction again. `InternalError` for a commit that is not made again.

    Files that a rewind took out of the input are skipped again, too.
    """
    replayed = rules_of(commit).replayed
    if replayed in ("skips", "requeues"):
        return replayed
    if commit.skipped and replayed != "plan":
        return "skips"
    raise InternalError(f"replay version {commit.version}: no rule says how to repeat a commit of kind `{commit.kind}`")


@dataclass(frozen=True)
class Steps:
    """The steps of a branch up to `head`, its commit.

    `kept_only`: a promotion of a branch that was dropped is a step itself, because the state of its versions is no
    longer kept.
    """

    repo: Opened
    head: Commit | None
    kept_only: bool = False

    @cached_property
    def _found(self) -> tuple[list[VersionOf], dict[int, int]]:
        found: list[VersionOf] = []
        ends: dict[int, int] = {}
        if self.head is not None:
            self._add(found, ends, self.head, 0, lambda version: self.repo.version_of(version).branch)
        return found, ends

    @cached_property
    def _others(self) -> dict[str, Log]:
        return {}

    @cached_property
    def _places(self) -> dict[VersionOf, int]:
        return {step: place for place, step in enumerate(self.all)}

    @property
    def all(self) -> list[VersionOf]:
        """All steps, oldest first."""
        return self._found[0]

    @property
    def ends(self) -> dict[int, int]:
        """How many steps led to each version of the effective history of the branch."""
        return self._found[1]

    def after(self, step: VersionOf) -> int | None:
        """Return the place of the next step to repeat; None if the history does not have this one."""
        place = self._places.get(step)
        return None if place is None else self._next(place + 1)

    def after_version(self, version: int) -> int | None:
        """Return the place of the first step to repeat after a version; None if the version does not count."""
        place = 0 if version < 0 else self.ends.get(version)
        return None if place is None else self._next(place)

    def _next(self, place: int) -> int:
        """Return the first place from here on with a step that leaves something to repeat."""
        while place < len(self.all) and leaves_nothing(self.commit(self.all[place])):
            place += 1
        return place

    def commit(self, step: VersionOf) -> Commit:
        """Return the commit of a step."""
        return self._log(step).commit(step.version)

    def plan_of(self, step: VersionOf, commit: Commit) -> Plan | None:
        """Return the plan that a step carried out; None if it is a correction, or the plan is missing."""
        return self._log(step).plan_of(commit)

    def is_own(self, step: VersionOf) -> bool:
        """Whether the branch itself, or one from which it starts, made a step; not one that was promoted."""
        return self.repo.version_of(step.version).branch == step.branch

    def knowing(self, step: VersionOf, commit: Commit) -> Commit | None:
        """Return a version of the branch whose ledger knows the files that a step read."""
        return commit if self.is_own(step) else self.head

    def _log(self, step: VersionOf) -> Log:
        """Return the log of a step's branch. That of a dropped branch still has its records."""
        if self.is_own(step):
            return self.repo.log
        return self._others.setdefault(step.branch, self.repo.own_log(step.branch).remembering())

    def _add(
        self, found: list[VersionOf], ends: dict[int, int], head: Commit, first: int, branch: Callable[[int], str]
    ) -> None:
        """Add the effective versions of `head` from `first` on to the steps. `branch` says to which one each belongs.

        The steps of a promoted branch replace all after its start.
        """
        for version in effective(head, first):
            step = VersionOf(branch(version), version)
            promoted = self.commit(step).promoted if version in head.promotions else None
            if promoted is None or (self.kept_only and promoted.branch in self.repo.initialised().dropped):
                found.append(step)
            else:
                start = first_own(self.repo, promoted.branch, promoted.version)
                theirs = self.commit(VersionOf(promoted.branch, promoted.version))
                # the branch may have been rewound to before its start
                shared = max((one for one in ends if one < start and is_effective(theirs, one)), default=-1)
                del found[ends.get(shared, 0) :]
                for later in [one for one in ends if one > shared]:
                    del ends[later]
                self._add(found, dict(ends), theirs, start, lambda _, its=promoted.branch: its)  # type: ignore[misc]
                found += [step] if self.commit(step).skipped else []
            ends[version] = len(found)


def first_own(repo: Opened, branch: str, newest: int) -> int:
    """Return the first version that is a branch's own, also of one that was dropped.

    `newest` is one of its versions. From the first one on, the branch has commits without a gap.
    """
    fork = fork_of(repo.initialised(), branch)
    if fork is not None:
        return fork.version + 1
    low, high = 0, newest
    while low < high:
        middle = (low + high) // 2
        if repo.store.stat(names.commit(branch, middle)) is None:
            low = middle + 1
        else:
            high = middle
    return low


def last_repeated(branch: Opened, head: Commit | None) -> VersionOf | None:
    """Return the step that a branch has repeated last, or None."""
    for version in () if head is None else reversed(list(effective(head, branch.log.first))):
        replays = branch.log.commit(version).replays
        if replays is not None:
            return replays
    return None

"""`Rewrites`: reads what each `forget` has replaced, and applies it to the versions before it that a log reads.

INVARIANT: whoever reads a version learns of every `forget` that has rewritten it from what it reads anyway: from the
head of `main`, or from the folded `refs/`. Without such a `forget`, nothing is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import names
from ..errors import CorruptState
from ..store import ObjectMissing, Store
from .codec import decode
from .history import last_rewrite
from .records import REWRITE, Commit, Plan
from .refs import MAIN
from .replacing import Replacements


class Rewrites:
    """What the logs of a process apply to versions. `at` is the last `forget` that is known to have replaced objects.

    A log and those of its forks share it, and so do their copies.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at = -1
        self._forgets: Sequence[Commit] = ()
        self._replacements = Replacements()

    @property
    def at(self) -> int | None:
        """The version of the last `forget` that is known, or None."""
        return None if self._at < 0 else self._at

    def know(self, at: int | None) -> None:
        """Apply from here on what the `forget` of version `at`, and those before it, have replaced."""
        self._at = max(self._at, -1 if at is None else at)

    def learn(self, head: Commit) -> None:
        """The same, by the head of `main`. The heads of branches say nothing."""
        if head.branch == MAIN:
            self.know(last_rewrite(head))

    @property
    def forgets(self) -> Sequence[Commit]:
        """The commits of every `forget` that is known, newest first, as written. Each is read once."""
        at = self.at
        if at is not None and (not self._forgets or self._forgets[0].version != at):
            found: list[Commit] = []
            while at is not None:
                found.append(self._read(at))
                at = found[-1].rewrote_at
            self._replacements, self._forgets = Replacements.of(reversed(found)), found
        return self._forgets

    @property
    def replacements(self) -> Replacements:
        """What every `forget` that is known has replaced."""
        return self._replacements if self.forgets else Replacements()

    def commit(self, commit: Commit) -> Commit:
        """Return a commit that was read as every later `forget` has left it.

        INVARIANT: the commit is as written. Applied twice, rows would be subtracted twice.
        """
        is_later = commit.branch == MAIN and commit.version >= self._at
        return commit if self._at < 0 or is_later else self.replacements.commit(commit)

    def plan(self, plan: Plan) -> Plan:
        """The same for a plan."""
        return plan if self._at < 0 else self.replacements.plan(plan)

    def _read(self, version: int) -> Commit:
        name = names.commit(MAIN, version)
        try:
            found = decode(Commit, self._store.get(name), name)
        except ObjectMissing as error:
            raise CorruptState(
                f"read commit `{self._store.uri}/{name}`: it is missing, and says what a `forget` has replaced",
                hint="restore the object from a backup",
            ) from error
        if found.version != version or REWRITE not in found.requires:
            raise CorruptState(
                f"read commit `{self._store.uri}/{name}`: expected a `forget` that has replaced objects, found "
                f"`{found.kind}` of version {found.version}",
                hint="restore the object from a backup",
            )
        return found

"""`Ahead`: what a run has read before it needs it, while other requests were waiting.

INVARIANT: each answer counts once. Whoever takes it removes it, so that a later step asks again.
"""

from __future__ import annotations

from ..protocol.log import Looked
from ..protocol.records import Commit, Plan
from ..repo.opened import Context
from .beside_plan import Created


class Ahead:
    """The answers that wait to be taken: a look at the log, and what was read while a plan was created."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.looked: Looked | None = None
        self.created: Created | None = None

    def head(self) -> Commit | None:
        """Return the newest commit, from the look at the log if there is one. The look stays, for `take_looked`."""
        return self.context.head() if self.looked is None else self.context.ours(self.looked.head)

    def take_looked(self) -> Looked | None:
        """Take the look at the log; None if the log must be asked."""
        looked, self.looked = self.looked, None
        return looked

    def take_created(self, plan: Plan) -> Created | None:
        """Take what was read while this run created the plan; None if `refs/` and the head must be asked for."""
        created, self.created = self.created, None
        return created if created is not None and created.is_checked and created.plan is plan else None

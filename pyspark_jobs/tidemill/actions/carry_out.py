"""`carry_out`: the one way in which every action happens: begin, look, hold, prepare, commit, publish, finish.

CRASH: one conditional create is the whole action. INVARIANT: with `expect`, what was agreed to is done, or nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from ..driver.context import Context
from ..driver.correct import correct, required
from ..driver.discard import discard_names
from ..driver.identity import check_root
from ..driver.overtaken import fenced_if_overtaken
from ..errors import Fenced, InvalidInput
from ..protocol.kinds import Changes
from ..protocol.records import Commit, Kind
from ..upkeep.rest_published import Writing
from ..verbs.tries import earlier_tries
from .contract import Action, ActionPlan, Seen

Expect = ActionPlan | Commit | str
"""A plan, what it requires as text, or the commit of the head, which says only that no other commit came since."""


@dataclass(frozen=True)
class Done:
    """The commit of an action, and the plan that it carried out."""

    commit: Commit
    plan: ActionPlan


def look(context: Context, action: Action) -> ActionPlan:
    """Return what an action would do. Writes nothing."""
    head = context.head()
    with fenced_if_overtaken(context, head, action.verb):
        origin = context.origin(head)
        return action.look(context, Seen(origin, context.log.plan(origin.number, origin.parent)))


def carry_out(context: Context, action: Action, expect: Expect | None = None) -> Done:
    """Carry an action out, and return its commit.

    `Fenced` if the repository is not as expected, or another run commits first; then nothing has changed.
    """
    required(action.verb, action.said_reason)
    check_root(context)
    if expect is not None:  # before anything is written
        refuse_unexpected(action, expect, look(context, action))
    action.begin(context)
    plan = look(context, action)
    if expect is not None:
        refuse_unexpected(action, expect, plan)
    action.hold(context, plan)
    origin = context.origin(plan.seen.origin.head)
    to = Writing(origin.number, uuid.uuid4().hex[:12])
    try:
        with fenced_if_overtaken(context, origin.head, action.verb):
            changes = action.prepare(context, plan, origin, to)
        said: Changes = {"attempt": to.attempt, "reason": action.said_reason}
        commit = correct(context, origin, action.kind, changes | said)
    except Fenced:
        discard_names(context.store, to.stored, to.attempt)
        raise
    action.finish(context, commit)
    return Done(commit, plan)


def act(context: Context, action: Action, dry_run: bool, expect: Expect | None, if_needed: bool) -> Any:
    """Carry an action out, and return its outcome; or return its plan, if it is a dry run."""
    if dry_run:
        plan = look(context, action)
        if expect is not None:
            refuse_unexpected(action, expect, plan)
        return plan
    before = made_before(context, action.kind, action.said_reason) if if_needed else []
    if before:
        return before[-1]
    done = carry_out(context, action, expect)
    return action.outcome(context, done.plan, done.commit)


def made_before(context: Context, kind: Kind, reason: str) -> list[Commit]:
    """Return the commits by which earlier tries of this Airflow task made the same correction, oldest first.

    One with the same kind and reason counts. If that try died before it had published, the next run publishes.
    """
    made = [context.log.commit(version) for version in earlier_tries(context)]
    return [one for one in made if (one.kind, one.reason) == (kind, reason)]


def refuse_unexpected(action: Action, expect: Expect, plan: ActionPlan) -> None:
    """Raise `Fenced` unless the repository is as it was when the plan was made that the caller agreed to."""
    if not isinstance(expect, ActionPlan | Commit | str) or not expect:
        raise InvalidInput(
            f"{action.verb}: expect={expect!r}, expected a plan, what it requires as text, or the commit of the head"
        )
    found = plan.requires
    if isinstance(expect, Commit):
        is_same, wanted = plan.seen.origin.parent == expect.as_parent, f"version {expect.version}"
    else:
        wanted = expect.requires if isinstance(expect, ActionPlan) else expect
        is_same = found == wanted
    if not is_same:
        raise Fenced(
            f"{action.verb}: what would happen now is not what was expected: found `{found}`, expected `{wanted}`; "
            "nothing has changed",
            hint="do a dry run again, and agree to what would happen now",
        )

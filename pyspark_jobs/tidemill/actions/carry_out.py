"""`carry_out`: the one way in which every action happens: begin, look, and then one commit, one entry, or steps.

CRASH: one conditional create is the whole action, or each step may be repeated. INVARIANT: with `expect`, what was
agreed to is done, or nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import CorruptState, Fenced, InvalidInput, StoreUnavailable
from ..protocol.entries import Entry
from ..protocol.kinds import Changes
from ..protocol.records import Commit
from ..protocol.refs import Refs
from ..publishing.correct import correct, required
from ..publishing.rest import Writing
from ..repo.discard import discard_unless_named
from ..repo.identity import check_root
from ..repo.opened import Opened, airflow
from ..repo.overtaken import fenced_if_overtaken
from ..run.drain import OnProgress
from ..store.full import is_full
from ..store.probe import probe
from ..values import dataclass
from .contract import Action, ActionPlan, CommitAction, EntryAction, MadeBefore, SeenBranch, SeenRefs, StepsAction

ROUNDS = 5
"""How often what precedes an action is repeated beside a pipeline that goes on."""
Result = TypeVar("Result")
Expect = ActionPlan | Commit | str
"""A plan, what it requires as text, or the commit of the head, which says only that no other commit came since."""


@dataclass(frozen=True)
class Done:
    """What an action has made, a commit or `refs/` with one more entry, and the plan that it carried out.

    Steps make nothing else; their plan says what they did.
    """

    made: Any
    plan: ActionPlan


def look(repo: Opened, action: Action, expect: Expect | None = None) -> ActionPlan:
    """Return what an action would do; a look needs no reason. Writes nothing. `Fenced` if that was not expected."""
    plan = _look(repo, action)
    if expect is not None:
        refuse_unexpected(action, expect, plan)
    return plan


def _look(repo: Opened, action: Action) -> ActionPlan:
    if not isinstance(action, CommitAction):
        return action.look(repo, SeenRefs(repo.refresh()))
    head = repo.head()
    with fenced_if_overtaken(repo, head, action.verb):
        origin = repo.origin(head)
        return action.look(repo, SeenBranch(origin, repo.log.plan(origin.number, origin.parent)))


def carry_out(repo: Opened, action: Action, expect: Expect | None = None, looked: ActionPlan | None = None) -> Done:
    """Carry an action out. `looked`: what a look of the caller has just found; without it, this function looks.

    `Fenced` if the repository is not as expected, or another run commits first; then nothing has changed.
    """
    _check_reason(action)
    if isinstance(action, CommitAction):
        repo = repo.remembering()
    if not action.may_move:
        check_root(repo)
    if expect is not None and looked is None:  # before anything is written
        looked = look(repo, action, expect)
    if isinstance(action, StepsAction):
        return _stepped(repo, action, looked)
    changed = action.begin(repo)
    if isinstance(action, EntryAction) and expect is None and looked is None:
        return _appended(repo, action, _look_at_known(repo, action), None)
    plan = look(repo, action, expect) if looked is None or changed else looked
    if isinstance(action, CommitAction):
        return _committed(repo, action, plan)
    assert isinstance(action, EntryAction)
    return _appended(repo, action, plan, expect)


def _look_at_known(repo: Opened, action: EntryAction) -> ActionPlan:
    """Return the plan by the entries that are known. If there are newer ones, `_appended` looks again.

    What known entries refuse is looked at with all of them.
    """
    try:
        return action.look(repo, SeenRefs(repo.initialised()))
    except InvalidInput:
        return action.look(repo, SeenRefs(repo.refresh()))


def _committed(repo: Opened, action: CommitAction, plan: ActionPlan) -> Done:
    """Make the commit of an action."""
    assert isinstance(plan.seen, SeenBranch)
    earlier = action.earlier(plan)
    if earlier is not None:
        return Done(earlier, action.finish(repo, plan, earlier))
    action.hold(repo, plan)
    origin = repo.origin(plan.seen.origin.head)
    unneeded = action.unneeded(plan)
    for empty in action.first(plan):
        origin = repo.origin(correct(repo, origin, "void", empty, unneeded))
    to = Writing(origin.number, uuid.uuid4().hex[:12])
    try:
        with fenced_if_overtaken(repo, origin.head, action.verb):
            changes = action.prepare(repo, plan, origin, to)
        said: Changes = {"attempt": to.attempt, "reason": action.said_reason or None}
        if airflow():
            said["asked"] = action.asked()
        commit = correct(repo, origin, action.kind, said | changes, unneeded)
    except (InvalidInput, CorruptState, Fenced):  # of another error, the outcome may be unknown
        discard_unless_named(repo, to.number, to.attempt, to.stored)
        raise
    return Done(commit, action.finish(repo, plan, commit))


def _appended(repo: Opened, action: EntryAction, plan: ActionPlan, expect: Expect | None) -> Done:
    """Append the entry of an action. If another entry comes first, look again, and compare again."""

    def make(refs: Refs, number: int) -> Entry | None:
        nonlocal plan
        del number
        assert isinstance(plan.seen, SeenRefs)
        if action.is_done(plan, refs):
            return None
        if refs.through != plan.seen.refs.through:
            plan = action.look(repo, SeenRefs(refs))
            if expect is not None:
                refuse_unexpected(action, expect, plan)
        return action.entry(repo, plan, refs)

    probe(repo.store)
    repo.session.refs = repo.refs_log.append(make)
    return Done(repo.session.refs, plan)


def _stepped(repo: Opened, action: StepsAction, agreed: ActionPlan | None) -> Done:
    """Take the steps of an action. If the disk is full and room can be made, take all of them once more."""
    try:
        return _all_steps(repo, action, agreed)
    except StoreUnavailable as error:
        if not is_full(error) or not action.make_room(repo):
            raise
    return _all_steps(repo, action, agreed)


def _all_steps(repo: Opened, action: StepsAction, agreed: ActionPlan | None) -> Done:
    action.begin(repo)
    plan = action.start(repo, SeenRefs(repo.refresh()))
    for step in action.steps(repo, agreed):
        plan = step(plan)
    return Done(None, plan)


def act(repo: Opened, action: Action, dry_run: bool, expect: Expect | None, if_needed: bool) -> Any:
    """Carry an action out, and return its outcome; or return its plan, if it is a dry run."""
    if dry_run:
        return look(repo, action, expect)

    def do(action: Action) -> Any:
        done = carry_out(repo, action, expect)
        return action.outcome(repo, done.plan, done.made)

    def make() -> Any:
        return after_what_precedes(repo, action, expect, lambda _: contextlib.nullcontext(), do)

    return unless_made(repo, action, make, lambda before: before.outcome) if if_needed else make()


def unless_made(
    repo: Opened, action: Action, make: Callable[[], Result], found: Callable[[MadeBefore], Result]
) -> Result:
    """Call `make`, or `found` with what made the action before, also if another caller makes it meanwhile."""
    before = action.made_before(repo)
    if before is not None:
        return found(before)
    try:
        return make()
    except InvalidInput:
        before = action.made_before(repo)
        if before is None:
            raise
    return found(before)


def after_what_precedes(
    repo: Opened,
    action: Action,
    expect: Expect | None,
    watched: Callable[[str], contextlib.AbstractContextManager[OnProgress | None]],
    do: Callable[[Action], Result],
) -> Result:
    """Run what precedes an action, and call `do` with the action that follows. `watched` shows the progress.

    Both are repeated if another run commits in between, so an action succeeds beside a pipeline that commits all the
    time. After a few rounds the error is raised.
    """
    _check_reason(action)
    words = action.precedes(repo)
    if not words:
        return do(action)
    if expect is not None:
        raise InvalidInput(
            f"{action.verb}: {words} comes first, so what will happen cannot be expected yet",
            hint="let that happen; then do a dry run, and agree to what would happen then",
        )
    for rounds_left in reversed(range(ROUNDS)):
        before = repo.head()
        with watched(words) as on_progress:
            following = action.after_what_precedes(repo, on_progress)
        try:
            return do(following)
        except (Fenced, InvalidInput):
            if not rounds_left or repo.head() == before:
                raise
    raise AssertionError("the last round returns or raises")


def refuse_unexpected(action: Action, expect: Expect, plan: ActionPlan) -> None:
    """Raise `Fenced` unless the repository is as it was when the plan was made that the caller agreed to."""
    commits = isinstance(plan.seen, SeenBranch)
    if not isinstance(expect, ActionPlan | Commit | str) or not expect or (isinstance(expect, Commit) and not commits):
        expected = (
            "a plan, what it requires as text, or the commit of the head" if commits else "a plan or its requires"
        )
        raise InvalidInput(f"{action.verb}: expect={expect!r}, expected {expected}")
    found = plan.requires
    if isinstance(expect, Commit):
        assert isinstance(plan.seen, SeenBranch)
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


def _check_reason(action: Action) -> None:
    """Raise `InvalidInput` if the reason is no text, or is empty although it has no default."""
    default = next((one.default for one in dataclasses.fields(action) if one.name == "reason"), "")
    reason = getattr(action, "reason", "")
    if default is dataclasses.MISSING:
        required(action.verb, reason)
    elif not isinstance(reason, str):
        raise InvalidInput(f"{action.verb}: found reason={reason!r}, expected text")

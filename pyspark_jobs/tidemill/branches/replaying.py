"""Replaying: carries out on a branch what another branch has done since the fork, with the code at hand.

Each recorded plan is copied into the log of the branch, with the same files, blocks and batch time, and then runs like
any other. INVARIANT: the same code gives the same rows, because a batch depends on nothing but its plan, the version
before it and the code. CRASH: a commit says which version it replays, so the next call goes on after the head.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence

from ..clock import now_ms
from ..errors import InvalidInput
from ..names import LEDGER
from ..pipeline.part import Part
from ..protocol.kinds import Changes, rules_of
from ..protocol.records import Commit, Plan, SinkRead, SkippedFile, Split, VersionOf
from ..publishing.correct import correct
from ..repo.discard import discard
from ..repo.ledger import store_left_out, store_requeued, store_skipped
from ..repo.opened import Opened
from ..repo.steps import Steps, leaves_nothing, made_again
from ..repo.versions import Needed, hold
from ..run.drain import Drain, Limits, OnProgress
from ..run.engine import Choice
from ..run.execute import Way
from ..sources.contract import SourceFile
from ..sources.ledger import READ, look_up_files
from .given_again import given_again
from .inputs import RecordedFile, missing_from
from .outlook import Outlook, recorded_plan
from .partial import Partial


class ReplayDrain(Drain):
    """One call of `replay`: `repo` is the branch, and `steps` are of the branch whose plans are carried out."""

    def __init__(
        self,
        repo: Opened,
        steps: Steps,
        outlook: Outlook,
        choice: Choice,
        limits: Limits,
        on_progress: OnProgress | None,
        part: Part | None = None,
    ) -> None:
        super().__init__(repo, choice, limits, on_progress)
        self.source = steps.repo
        self.partial = None if part is None else Partial(repo, part)
        self.outlook, self.inputs = outlook, outlook.inputs
        self._steps = steps
        self.repeating: Steps | None = None
        self._following: VersionOf | None = None
        self.replayed: list[VersionOf] = []
        self.left_out: list[RecordedFile] = []
        self.changed: list[RecordedFile] = []

    @property
    def computing(self) -> Opened:
        """The branch with the operators that run."""
        return self.repo if self.partial is None else self.partial.computing

    @property
    def _name(self) -> str:
        """The branch, for a message."""
        return self.repo.initialised().named(self.repo.branch)

    def steps(self) -> Steps:
        """Return the steps of the source up to its newest version."""
        head = self.source.head()
        if head != self._steps.head:
            self._steps = Steps(self.source, head)
        return self._steps

    def left(self, head: Commit | None, steps: Steps, end: int | None) -> list[VersionOf]:
        """Return the steps that are left to replay, up to place `end`. `InvalidInput` if some cannot be.

        The branch must have no batches of its own, and what it has repeated must still count.
        """
        fork = self.repo.log.first - 1
        if head is None or head.branch != self.repo.branch:
            after, at = steps.after_version(fork), self.source.version_of(fork)
        elif head.replays is None:
            raise InvalidInput(
                f"replay into {self._name}: its version {head.version} repeats none of "
                f"{self.repo.initialised().named(self.source.branch)}",
                hint="replay into a new branch",
            )
        else:
            after, at = steps.after(head.replays), head.replays
        if after is None:
            raise InvalidInput(
                f"replay into {self._name}: it follows version {at.version} of "
                f"{self.repo.initialised().named(at.branch)}, which was rewound, or a promotion replaced it",
                hint="replay into a new branch, from an earlier version",
            )
        return steps.all[after:end]

    def replay(self, end: int | None) -> None:
        """Carry out what is left, up to place `end` of the steps, within the limits."""
        head, steps = self.open(), self.steps()
        left = self.left(head, steps, end)
        self.outlook.look(steps, left)
        self._hold(head, steps, left)
        while left and self._may_continue():
            step, commit = left[0], steps.commit(left[0])
            self._following = left[1] if len(left) > 1 else None
            if leaves_nothing(commit):
                left = left[1:]
                continue
            head = self._repeated(head, steps, step, commit)
            if head.replays == step:
                left = left[1:]
                self.replayed.append(step)
            else:  # another replay into this branch came first
                steps = self.steps()
                left = self.left(head, steps, end)
                self.outlook.look(steps, left)

    def _repeated(self, head: Commit | None, steps: Steps, step: VersionOf, commit: Commit) -> Commit:
        """Repeat a step after `head`, and return the newest commit of the branch."""
        self.repeating = steps
        planned = self._planned(head)
        if planned is None and rules_of(commit).carries_out:
            planned = self._copied(head, steps, step, commit)
        if planned is not None and planned.replays != step:
            of = (
                "a batch of its own"
                if planned.replays is None
                else f"version {planned.replays.version}, which was rewound"
            )
            raise InvalidInput(
                f"replay into {self._name}: its plan {planned.number} is of {of}",
                hint="replay into a new branch",
            )
        return self._corrected(head, commit) if planned is None else self._run_batch(head, planned)

    def _hold(self, head: Commit | None, steps: Steps, left: Sequence[VersionOf]) -> None:
        """Keep the versions of which objects will be taken, until the branch has commits that name them."""
        todo = [step for step in left if not leaves_nothing(steps.commit(step))]
        last = self.repo.origin(head).number + len(todo) - 1
        if self.partial is None:
            todo = [step for step in todo if steps.commit(step).requeued]
        for branch in dict.fromkeys(step.branch for step in todo):
            versions = [step.version for step in todo if step.branch == branch]
            needed = Needed(max(versions), [min(versions)])
            theirs = dataclasses.replace(self.source, branch=branch)
            hold(theirs, needed, last, "replay", "replay", by=self.repo.branch)
        self.repo.refresh()

    def _upcoming(self, plan: Plan) -> list[Split]:
        """Return the splits of the step after this one, if its files have the ETags that its plan says."""
        del plan
        steps, step, found = self.repeating, self._following, []
        recorded = None if steps is None or step is None else steps.plan_of(step, steps.commit(step))
        for split in () if recorded is None else recorded.splits:
            now = self.inputs.there.get((split.source, split.path))
            if split.requeued is not None or now is None or now.etag != split.etag:
                break
            found.append(dataclasses.replace(split, modified_ms=now.modified_ms))
        return found

    def _execute(self, head: Commit | None, plan: Plan, way: Way) -> Commit:
        ours = super()._execute(head, plan, way)
        if plan.replays is None or self.repeating is None:
            return ours
        steps = self.repeating
        recorded = steps.commit(plan.replays)
        ours = dataclasses.replace(ours, sinks_read=_sinks_of_both(ours, recorded))
        try:
            if self.partial is not None:
                ours = self.partial.merged(head, recorded, ours)
            return self._without_gone(head, ours, plan, steps, recorded)
        except InvalidInput:
            discard(self.repo.store, ours)
            raise

    def _without_gone(self, head: Commit | None, ours: Commit, plan: Plan, steps: Steps, recorded: Commit) -> Commit:
        """Return the commit of a batch with the files that it leaves out, because they are gone, as skipped.

        They count as read, so the branch can be promoted. A file that the repeated version left out stays so.
        """
        assert plan.replays is not None
        before, knowing = recorded_plan(steps, plan.replays, recorded), steps.knowing(plan.replays, recorded)
        missing = missing_from(plan, before)
        there = [self.inputs.there.get((one.source, one.path)) for one in missing]
        present = [
            one if now is None else dataclasses.replace(one, etag=now.etag)
            for one, now in zip(missing, there, strict=True)
        ]
        gone = [one for one, read in zip(missing, self._has_read(head, present), strict=True) if not read]
        self.left_out += [RecordedFile(one.source, one.path, recorded.version) for one in gone]
        self.changed += self.inputs.changed(before, plan, steps.repo, knowing)
        files = [SourceFile.of_split(one) for one in gone]
        files += [SourceFile.skipped(one) for one in recorded.skipped]
        if not files:
            return ours
        stored = store_left_out(self.repo, ours, files, steps.repo.ledger(knowing).map)
        skipped = [SkippedFile(one.source, one.path, one.etag, one.size) for one in files]
        rows = {**ours.rows, LEDGER: {"files": stored.rows}}
        return dataclasses.replace(ours, skipped=skipped, ledger=stored.segments, rows=rows)

    def _copied(self, head: Commit | None, steps: Steps, step: VersionOf, commit: Commit) -> Plan:
        """Create the plan of a step again, as the next one of the branch."""
        plan = recorded_plan(steps, step, commit)
        origin = self.repo.origin(head)
        ours = dataclasses.replace(
            plan,
            number=origin.number,
            plan_id=uuid.uuid4().hex,
            branch=self.repo.branch,
            pipeline_uuid=origin.refs.uuid,
            parent=origin.parent,
            splits=tuple(
                _as_they_wait(
                    head, self._unread(head, self.inputs.splits(plan, steps.repo, steps.knowing(step, commit)))
                )
            ),
            created_ms=now_ms(),
            outstanding_files=self.outlook.after(step).input_files,
            outstanding_bytes=self.outlook.after(step).input_bytes,
            replays=step,
        )
        return self._create_plan(head, ours)

    def _unread(self, head: Commit | None, splits: Sequence[Split]) -> list[Split]:
        """Return the splits but for those of files that the branch has read with the same bytes.

        The recorded version may have read a file that an earlier one had put in quarantine, as this code does not.
        """
        return [one for one, read in zip(splits, self._has_read(head, splits), strict=True) if not read]

    def _has_read(self, head: Commit | None, splits: Sequence[Split]) -> list[bool]:
        files = [SourceFile.of_split(one) for one in splits]
        known = look_up_files(self.repo.ledger(head).map, files)
        return [
            at is not None and at.how == READ and at.etag == one.etag for one, at in zip(splits, known, strict=True)
        ]

    def _corrected(self, head: Commit | None, commit: Commit) -> Commit:
        """Repeat a correction that concerns only the input, as `made_again` says."""
        how = made_again(commit)
        origin, attempt = self.repo.origin(head), uuid.uuid4().hex[:12]
        changes: Changes = {
            "attempt": attempt,
            "replays": VersionOf(commit.branch, commit.version),
            "reason": commit.reason,
        }
        if self.partial is not None:
            changes["computed"] = sorted(self.partial.part.chosen)
        kind = commit.kind if rules_of(commit).replayed == how else "skip"
        if how == "skips":
            files = [SourceFile.skipped(one) for one in commit.skipped]
            stored = store_skipped(self.repo, head, files, origin.number, attempt)
            changes["skipped"] = commit.skipped
        else:
            splits = given_again(self.repo, head, commit)
            stored = store_requeued(self.repo, head, splits, commit.released, origin.number, attempt)
            waiting = [] if head is None else head.waiting
            changes |= {"requeued": splits, "released": commit.released, "waiting": [*waiting, *splits]}
        rows = {**({} if head is None else head.rows), LEDGER: {"files": stored.rows}}
        return correct(self.repo, origin, kind, changes | {"ledger": stored.segments, "rows": rows})


def _sinks_of_both(ours: Commit, recorded: Commit) -> list[SinkRead]:
    """Return the sinks that a repeated batch reads. It cannot read what was withdrawn before."""
    both = {dataclasses.replace(one, through=-1): one for one in (*recorded.sinks_read, *ours.sinks_read)}
    return sorted(both.values())


def _as_they_wait(head: Commit | None, splits: Sequence[Split]) -> list[Split]:
    """Return splits with the requeued rows that wait on this branch, which may be fewer than those of the plan."""
    waiting = {(one.source, one.path): one for one in ([] if head is None else head.waiting)}
    return [one if one.requeued is None else waiting.get((one.source, one.path), one) for one in splits]

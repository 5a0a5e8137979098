"""The loop of a run: repair, then plan, execute, commit, publish, report, until nothing waits; then one sweep.

Every batch begins by reading the log: what another run committed meanwhile is taken as it is, and published, before
more is planned. Nothing is remembered between batches that the log does not say, but for one thing.

INVARIANT: a run plans a sweep after input or where it began without any, never after another sweep of its own: what a
sweep arms, and what comes due while it lasts, is for a later run. So functions that arm anew at each call end it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from ..batch.work import Engine
from ..errors import InvalidInput
from ..pipeline.places import check_places
from ..protocol.progress import BatchProgress, progress_of
from ..protocol.records import Commit, Plan
from ..store.probe import probe
from . import plan as planning
from .context import Context
from .execute import execute
from .publish import MAIN, not_here, publish, repair

OnProgress = Callable[[BatchProgress], None]


@dataclass(frozen=True)
class Limits:
    """Where a drain stops, and what it is told."""

    max_batches: int | None = None
    time_budget_s: float | None = None
    batch_time: int | str | None = None
    tasks: int | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        _check_number("max_batches", self.max_batches, int, 1)
        _check_number("time_budget", self.time_budget_s, (int, float), 0)
        if self.tasks != "auto":
            _check_number("tasks", self.tasks, int, 1)


def _check_number(what: str, value: object, kinds: type | tuple[type, ...], least: int) -> None:
    """`InvalidInput` for what is no number, or too small; also where nothing waits, so that a typo shows at once."""
    if value is None and what != "tasks":
        return
    fits = isinstance(value, kinds) and not isinstance(value, bool) and value >= least  # type: ignore[operator]
    if not fits:
        expected = f"'auto' or a number from {least} on" if what == "tasks" else f"a number from {least} on"
        raise InvalidInput(f"run: {what}={value!r}, expected {expected}")


@dataclass
class Drained:
    """What a drain did. `already`: versions that another run had committed from the same plan."""

    progress: list[BatchProgress] = field(default_factory=list)
    already: list[int] = field(default_factory=list)
    published: list[int] = field(default_factory=list)

    @property
    def versions(self) -> list[int]:
        """The versions that this run committed."""
        return [one.version for one in self.progress]

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.progress or self.already or self.published)


class Drain:
    """One run over one repository."""

    def __init__(
        self, context: Context, engine: Callable[[], Engine], limits: Limits, on_progress: OnProgress | None
    ) -> None:
        self.context, self.limits = context, limits
        self._engine, self._on_progress = engine, on_progress
        self._started = time.monotonic()
        self._has_swept = False
        self.done = Drained()

    def open(self) -> Commit | None:
        """The head, after checking that this code may run here and publishing what an earlier run left."""
        context = self.context
        check_places(context.pipeline, context.storage_options)
        context.initialised()
        head = context.log.head()
        context.check_operators(head)
        if not_here(context, head):
            planning.waiting(context, head)  # refuses where a source is not here either: nothing is published elsewhere
        self.done.published.extend(repair(context, head))
        return head

    def run(self) -> Drained:
        """Drains what waits, then fires what is due, in one sweep; what that arms is for a later run."""
        head = self.open()
        while self._may_go_on():
            batch = self._next(head)
            if batch is None:
                break
            head = self._caught_up(self._one(head, batch))
        return self.done

    def _caught_up(self, ours: Commit) -> Commit:
        """The head; where another run went on from `ours`, its versions are published too, before we plan on them."""
        head = self.context.log.head()
        if head is None or head.version <= ours.version:
            return ours
        self.done.published.extend(repair(self.context, head))
        return head

    def sweep(self) -> Drained:
        """Fires what is due, without input. A batch that is planned already is run first."""
        head = self.open()
        planned = self._planned(head)
        if planned is not None:
            head = self._caught_up(self._one(head, planned))
        swept = self._due(head, planning.waiting(self.context, head))
        if swept is not None:
            self._one(head, swept)
        return self.done

    def _may_go_on(self) -> bool:
        count, budget = self.limits.max_batches, self.limits.time_budget_s
        if count is not None and len(self.done.progress) + len(self.done.already) >= count:
            return False
        return budget is None or time.monotonic() - self._started < budget

    def _planned(self, head: Commit | None) -> Plan | None:
        return self.context.log.plan(0 if head is None else head.version + 1)

    def _next(self, head: Commit | None) -> Plan | None:
        planned = self._planned(head)
        if planned is not None:
            self._has_swept &= planned.kind != "batch"
            return planned
        seen = planning.waiting(self.context, head)
        batch = planning.next_batch(self.context, head, seen, self.limits.batch_time)
        if batch is not None:
            self._has_swept = False
            return self._written(batch)
        if self._has_swept:
            return None
        swept = self._due(head, seen)
        self._has_swept = swept is not None and swept.kind == "sweep"
        return swept

    def _due(self, head: Commit | None, seen: planning.Waiting) -> Plan | None:
        at_ms = planning.sweep_time(self.context, head, seen, self.limits.batch_time)
        if not planning.is_due(head, at_ms, self.context.job):
            return None
        return self._written(planning.sweep_plan(self.context, head, at_ms))

    def _written(self, plan: Plan) -> Plan:
        """The plan that counts. A run that writes nothing probes nothing."""
        probe(self.context.store)
        return self.context.log.create_plan(plan)

    def _one(self, head: Commit | None, plan: Plan) -> Commit:
        """One batch, from its plan to its report; none where another run committed it before we began."""
        probe(self.context.store)  # once a process; also for a plan that another run left
        self.context.check_operators(head)  # again: somebody may have added or dropped one since this run began
        engine = self._engine()  # its start is not the batch's
        overtaken = self.context.log.head()
        if overtaken is not None and overtaken.version >= plan.number:
            if self.context.log.commit(plan.number).kind == plan.kind:  # and not given up by a void commit
                self.done.already.append(plan.number)
            self.done.published.extend(repair(self.context, overtaken))
            return overtaken
        started = time.perf_counter()
        published = plan.number - 1 if self.context.branch == MAIN else -1
        ours = execute(self.context, head, plan, engine, self.limits.tasks, published)
        committed = self.context.log.create_commit(ours)
        try:
            if publish(self.context, committed.commit):
                self.done.published.append(plan.number)
        finally:  # what is committed is told, also where publishing it failed
            if committed.outcome == "already":
                self.done.already.append(plan.number)
            else:
                self._report(committed.commit, int((time.perf_counter() - started) * 1000))
        return committed.commit

    def _report(self, commit: Commit, elapsed_ms: int) -> None:
        for name, metrics in commit.operators.items():
            if metrics.failed:
                keys = "1 key failed" if metrics.failed == 1 else f"{metrics.failed:,} keys failed, one of them"
                what = f"{commit.kind} {commit.version}, operator `{name}`: {keys}"
                planning.LOG.warning("%s: %s", what, metrics.failure)
        progress = progress_of(self.context.job.pipeline, commit, elapsed_ms)
        self.done.progress.append(progress)
        if self._on_progress is not None:
            self._on_progress(progress)

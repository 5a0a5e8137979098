"""The loop of a run: repair, then plan, execute, commit, publish and report until no files are waiting, then one sweep.

Every batch starts by reading the log. If another run has committed in the meantime, its versions are published before
this run plans on.

INVARIANT: a run never plans two sweeps in a row. Timers armed or due during a sweep fire in the next run, so a run
ends even if functions arm a timeout at each call. Whether the last batch was a sweep is the only thing that a run
remembers and the log does not record.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Literal

from ..batch.work import Engine
from ..errors import Fenced, InvalidInput, StoreUnavailable, TidemillError
from ..pipeline.places import check_places
from ..protocol.kinds import rules_of
from ..protocol.log import Committed, Looked
from ..protocol.progress import BatchProgress, progress_of
from ..protocol.records import Commit, Parent, Plan, SinkRead, Split
from ..publishing.lost_versions import check_history
from ..publishing.owners import (
    NOT_SHARED,
    Accepted,
    Shared,
    check_outputs,
    check_owners,
    delete_files_of_others,
    missing_sinks,
)
from ..publishing.publish import look_for_records, publish_new, repair
from ..publishing.withdraw import first_suspect, may_have_strays, withdraw_strays
from ..repo.bounds import check_clock, check_planned
from ..repo.code import note_other_code
from ..repo.discard import discard
from ..repo.identity import check_plan, check_root
from ..repo.opened import Opened
from ..repo.operators import check_operators
from ..repo.overtaken import fenced_if_overtaken
from ..repo.promoted import record_operators
from ..sources.contract import BeingRead
from ..store import run_both, side_by_side
from ..store.full import is_full
from ..store.probe import probe
from ..values import dataclass
from . import plan as planning
from .assemble import Publishing
from .backlog import Backlog, listing_if_possible
from .engine import Choice
from .execute import Way, execute
from .limits import check_rows, watermark_notes
from .prefetch import Prefetched, begin_reading, create_plan, upcoming
from .withdrawn import refuse_withdrawn, sinks_read

OnProgress = Callable[[BatchProgress], None]


@dataclass(frozen=True)
class Limits:
    """The arguments of a run, checked: where it stops, its batch time, and its number of tasks."""

    max_batches: int | None = None
    time_budget_s: float | None = None
    batch_time: int | str | None = None
    tasks: int | Literal["auto"] = "auto"
    accepted: Accepted = field(default_factory=Accepted)

    def __post_init__(self) -> None:
        _check_number("max_batches", self.max_batches, int, 1)
        _check_number("time_budget", self.time_budget_s, (int, float), 0)
        if self.tasks != "auto":
            _check_number("tasks", self.tasks, int, 1)


def _check_number(what: str, value: object, kinds: type | tuple[type, ...], least: int) -> None:
    """Raise `InvalidInput` for a value that is not a number or too small, even if no files are waiting."""
    if value is None and what != "tasks":
        return
    fits = isinstance(value, kinds) and not isinstance(value, bool) and value >= least  # type: ignore[operator]
    if not fits:
        expected = ("'auto' or " if what == "tasks" else "") + f"a number of at least {least}"
        raise InvalidInput(f"run: {what}={value!r}, expected {expected}")


@dataclass
class Drained:
    """The result of a drain. `already` are versions that another run had committed from the same plan."""

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

    def __init__(self, repo: Opened, choice: Choice, limits: Limits, on_progress: OnProgress | None) -> None:
        self.repo, self.limits = repo, limits
        self._choice, self._on_progress = choice, on_progress
        self._started = time.monotonic()
        self._has_swept = False
        self._backlog, self._prefetched = Backlog(repo), Prefetched(repo)
        self._shared: Shared | None = None
        self._being_read: Mapping[tuple[str, str], BeingRead] = {}
        self._sinks_read: Sequence[SinkRead] | None = None
        self._looked_at: Parent | None = None
        self.done = Drained()

    @property
    def computing(self) -> Opened:
        """The branch with the operators that run: all of them, unless a replay computes only some."""
        return self.repo

    def open(self) -> Commit | None:
        """Check that this code may run here, publish what is unpublished, and return the head."""
        repo = self.repo
        check_places(repo.pipeline, repo.root, repo.storage_options)
        head = self._begin()
        check_root(repo)
        record_operators(repo, head)
        check_operators(self.computing, head)
        _ = repo.definitions  # taken before functions of the user run, because these may change what they use
        note_other_code(repo, head)
        if missing_sinks(repo, head):
            self._backlog.at(head)  # raises if a source is missing too, before anything is published in another place
        self.done.published.extend(repair(repo, head))
        if head is not None and rules_of(head).withdraws:
            withdraw_strays(repo, head, first_suspect(repo, head))
        if repo.publishes:
            check_outputs(repo, head, self.limits.accepted)
        return head

    def _begin(self) -> Commit | None:
        """Read what every run reads first, and return the head. Where requests wait, that is done side by side.

        A process that knows the head asks for entries of `refs/`, a newer commit and the plan after the head, and lists
        the sources. Another one finds the newest records first. INVARIANT: a listing counts only if the head was known
        before it. Otherwise, and if a plan waits, the sources are listed later.
        """
        repo, store = self.repo, self.repo.store
        if store.requests_at_once == 1:
            repo.refresh()
            return repo.head()
        reads: list[Callable[[], Any]] = [repo.refresh]
        if not repo.log.knows_head:
            reads.append(repo.log.head)
            head = repo.ours(side_by_side(store, reads)[1])
            if head is None or not repo.log.knows_head:
                return head
            reads = [partial(look_for_records, repo, head)]
        reads += [repo.log.look, partial(listing_if_possible, repo)]
        looked, listed = side_by_side(store, reads)[1:]
        self._prefetched.looked = looked
        self._backlog.keep(None if looked.is_news or looked.planned is not None else listed)
        return repo.ours(looked.head)

    def run(self) -> Drained:
        """Process all waiting files, then fire due timeouts in one sweep."""
        head = self.open()
        while self._may_continue():
            batch = self._next(head)
            if batch is None:
                self._replace_sinks(head)
                self.repo.session.fingerprints.save()
                return self.done
            head = self._catch_up(self._run_batch(head, batch))
        if self._shared is not None and self._shared.replaced:
            planning.LOG.warning(
                "files of another repository stay in the sinks %s until a run with replace_sink ends because nothing "
                "waits; this run reached its limit", ", ".join(f"`{name}`" for name in sorted(self._shared.replaced)),
            )  # fmt: skip
        return self.done

    def _catch_up(self, ours: Commit) -> Commit:
        """Return the head. If another run committed after `ours`, publish its versions first."""
        head = self._prefetched.head()
        if head is None or head.version <= ours.version:
            return ours
        self.done.published.extend(repair(self.repo, head))
        return head

    def sweep(self) -> Drained:
        """Fire due timeouts without input. A batch that is already planned runs first."""
        head = self.open()
        planned = self._planned(head)
        if planned is not None:
            head = self._catch_up(self._run_batch(head, planned))
        swept = self._sweep_if_due(head, self._waiting(head))
        if swept is not None:
            self._run_batch(head, swept)
        return self.done

    @property
    def _committed(self) -> int:
        """How many batches were committed while this run went on."""
        return len(self.done.progress) + len(self.done.already)

    def _may_continue(self) -> bool:
        count, budget = self.limits.max_batches, self.limits.time_budget_s
        if count is not None and self._committed >= count:
            return False
        return budget is None or time.monotonic() - self._started < budget

    def _planned(self, head: Commit | None) -> Plan | None:
        origin = self.repo.origin(head)
        return self.repo.log.plan(origin.number, origin.parent, self._prefetched.take_looked())

    def _next(self, head: Commit | None) -> Plan | None:
        planned = self._planned(head)
        if planned is not None:
            self._has_swept &= planned.kind != "batch"
            return planned
        seen, batch = self._next_batch(head)
        if batch is not None:
            self._has_swept = False
            return self._create_plan(head, batch)
        if self._has_swept:
            return None
        if self.done.progress and planning.is_due_now(self.repo, head, self.limits.batch_time):
            self._backlog.forget()  # a sweep at a later time than the listing must not pass files that arrived since
            seen, batch = self._next_batch(head)
        return self._swept(head, seen) if batch is None else self._create_plan(head, batch)

    def _next_batch(self, head: Commit | None) -> tuple[planning.Waiting, Plan | None]:
        """Return what waits, and a plan over a part of it, or None if nothing waits.

        If so much has arrived since the listing that the backlog is one for Spark, the run moves there, with all of it.
        """
        seen = self._waiting(head)
        batch = planning.next_batch(self.repo, head, seen, self.limits.batch_time)
        if batch is None or not self.done.progress or not self._choice.may_move(head, batch):
            return seen, batch
        now = self._backlog.listed_again(head)
        if now is None or not self._choice.move(head, planning.with_backlog(batch, now)):
            return seen, batch
        self._backlog.take(now)
        self._look_at_sinks(head, now)
        return now, planning.next_batch(self.repo, head, now, self.limits.batch_time)

    def _waiting(self, head: Commit | None) -> planning.Waiting:
        """Return what waits at `head`. `InvalidInput` if files were read that their writers have withdrawn since.

        A version that this run made after it has looked adds no such file: it could not have been read.
        """
        seen = self._backlog.at(head)
        if self._sinks_read is None or self._looked_at != self.repo.origin(head).parent:
            self._look_at_sinks(head, seen)
        return seen

    def _look_at_sinks(self, head: Commit | None, seen: planning.Waiting) -> None:
        found = sinks_read(self.repo, head, seen.files)
        refuse_withdrawn(self.repo, head, found.withdrawn)
        self._sinks_read, self._looked_at = found.sinks, self.repo.origin(head).parent

    def _swept(self, head: Commit | None, seen: planning.Waiting) -> Plan | None:
        swept = self._sweep_if_due(head, seen)
        self._has_swept = swept is not None and swept.kind == "sweep"
        return swept

    def _sweep_if_due(self, head: Commit | None, seen: planning.Waiting) -> Plan | None:
        at_ms = planning.planned_sweep_time(self.repo, head, seen, self.limits.batch_time)
        if not planning.is_due(head, at_ms, self.repo.job):
            return None
        return self._create_plan(head, planning.sweep_plan(self.repo, head, at_ms))

    def _check_sinks(self, head: Commit | None) -> Shared:
        """Check once that no other repository has files in the sinks. Runs without a batch do not list them."""
        if not self.repo.publishes:
            return NOT_SHARED
        if self._shared is None:
            self._shared = check_owners(self.repo, head, self.limits.accepted)
            if head is not None and may_have_strays(self.repo, head):
                withdraw_strays(self.repo, head, first_suspect(self.repo, head))
        return self._shared

    def _replace_sinks(self, head: Commit | None) -> None:
        """Delete the files of other repositories, if the caller asked for that, once our own files are published."""
        if self.limits.accepted.replace_sink and head is not None:
            delete_files_of_others(self.repo, self._check_sinks(head))

    def _create_plan(self, head: Commit | None, plan: Plan) -> Plan:
        """Create the plan, or return the one that another run created first. Only runs that write probe the store."""
        check_planned(plan, head, self.repo.settings.batch_time_tolerance)
        check_history(self.repo, head, plan.number - 1)
        self._check_sinks(head)
        engine = self._choice.engine(head, plan)  # so that a cluster that cannot carry out the plan leaves none
        probe(self.repo.store)
        check_clock(self.repo.store)
        self._prefetched.created = create_plan(self.repo, plan, engine)
        return self._prefetched.created.plan

    def _run_batch(self, head: Commit | None, plan: Plan) -> Commit:
        """Run one batch from plan to report, unless another run has committed it. Return the newest commit."""
        check_planned(plan, head, self.repo.settings.batch_time_tolerance)
        probe(self.repo.store)  # once a process, and needed here for a plan that another run created
        created = self._prefetched.take_created(plan)
        if created is None:
            self.repo.refresh()
        check_root(self.repo)  # again: the branch may have been dropped since this run started
        check_operators(self.computing, head)  # again: operators may have been added or dropped since this run started
        check_plan(self.repo, plan)
        check_history(self.repo, head, plan.number)
        engine = self._choice.engine(head, plan)  # starting the engine does not count as time of the batch
        overtaken = self.repo.head() if created is None else created.head
        if overtaken is not None and overtaken.version >= plan.number:
            if self.repo.log.commit(plan.number).kind == plan.kind:  # otherwise a void commit abandoned the plan
                self.done.already.append(plan.number)
            self.done.published.extend(repair(self.repo, overtaken))
            return overtaken
        started = time.perf_counter()
        through = plan.number - 1 if self.repo.publishes else -1
        publishing = Publishing(through, self._check_sinks(head), self._noted_sinks(head))
        with fenced_if_overtaken(self.repo, head, f"execute plan {plan.number}"):
            early = {} if created is None else created.early
            way = Way(engine, self.limits.tasks, publishing, early, self._being_read)
            self._being_read = self._read_ahead(plan, engine)
            ours = self._checked(self._without_forgotten(head, plan, self._execute(head, plan, way)))
        committed = self._commit(ours)
        try:
            if self._publish(committed.commit):
                self.done.published.append(plan.number)
        finally:  # a committed version is reported even if publishing it failed
            if committed.outcome == "already":
                self.done.already.append(plan.number)
            else:
                if self._looked_at == self.repo.origin(head).parent:
                    self._looked_at = committed.commit.as_parent
                self._report(committed.commit, int((time.perf_counter() - started) * 1000))
        return committed.commit

    def _noted_sinks(self, head: Commit | None) -> Sequence[SinkRead]:
        """Return what a batch after `head` notes of the sinks that are read, whether this run has looked at them."""
        if self._sinks_read is not None and self._looked_at == self.repo.origin(head).parent:
            return self._sinks_read
        return [] if head is None else head.sinks_read

    def _publish(self, commit: Commit) -> int:
        """Publish a new version. Where requests wait, look meanwhile for what other runs have committed and planned."""
        publish_it = partial(publish_new, self.repo, commit)
        if self.repo.store.requests_at_once == 1:
            return publish_it()
        self._prefetched.looked, count = run_both(self._look_if_possible, publish_it)
        return count

    def _look_if_possible(self) -> Looked | None:
        """Look, or return None after an error: then this run looks again, and fails if that fails too."""
        try:
            return self.repo.log.look()
        except TidemillError:
            return None

    def _read_ahead(self, plan: Plan, engine: Engine) -> Mapping[tuple[str, str], BeingRead]:
        """Begin to read what the next batch will read, if it runs in this process and a core is free for that.

        If the repository is in a remote store, files are read while the plan is created; see `run/prefetch.py`.
        """
        repo = self.computing
        if engine.name != "local" or engine.parallelism < 2 or repo.store.requests_at_once > 1:
            return {}
        if self._committed + 1 == self.limits.max_batches:
            return {}
        found: Mapping[tuple[str, str], BeingRead] = {}
        with contextlib.suppress(Exception):  # an error comes again when the batch is planned or read
            found = begin_reading(repo.job, repo.storage_options, self._upcoming(plan), plan.block_rows)
        return found

    def _upcoming(self, plan: Plan) -> list[Split]:
        """Return the first splits of the batch after a plan, as far as they are known."""
        return upcoming(self.repo, self._backlog.seen, plan)

    def _execute(self, head: Commit | None, plan: Plan, way: Way) -> Commit:
        """Run the batch of a plan, and return its commit record, which is not committed yet."""
        return execute(self.computing, head, plan, way)

    def _without_forgotten(self, head: Commit | None, plan: Plan, ours: Commit) -> Commit:
        """Return the commit of a batch without keys that files bring back which are read again."""
        if self.repo.log.rewrites.at is None:
            return ours
        from ..forgetting.left_again import without_forgotten  # few repositories need it

        return without_forgotten(self.repo, head, plan, ours)

    def _checked(self, ours: Commit) -> Commit:
        """Return the commit unless it has more late or quarantined rows than the settings allow; then discard it."""
        try:
            check_rows(self.repo, ours)
        except InvalidInput:
            discard(self.repo.store, ours)
            raise
        return ours

    def _commit(self, ours: Commit) -> Committed:
        """Commit. If another attempt has the number, or the disk is full, delete what this one stored."""
        try:
            committed = self.repo.log.create_commit(ours)
        except (Fenced, InvalidInput, StoreUnavailable) as error:  # invalid: the place was fenced
            if not isinstance(error, StoreUnavailable) or is_full(error):
                discard(self.repo.store, ours)
            raise
        if committed.outcome == "already":
            discard(self.repo.store, ours)
        return committed

    def _report(self, commit: Commit, elapsed_ms: int) -> None:
        for name, metrics in commit.operators.items():
            if metrics.failed:
                keys = "1 key failed" if metrics.failed == 1 else f"{metrics.failed:,} keys failed, one of them"
                what = f"{commit.kind} {commit.version}, operator `{name}`: {keys}"
                planning.LOG.warning("%s: %s", what, metrics.failure)
        for name, changes in commit.state_changes.items():
            what = f"{commit.kind} {commit.version}, operator `{name}`"
            planning.LOG.warning("%s: the columns of its state have changed: %s", what, "; ".join(changes))
        for note in watermark_notes(commit):
            planning.LOG.warning(note)
        progress = progress_of(self.repo.job.pipeline, commit, elapsed_ms)
        self.done.progress.append(progress)
        if self._on_progress is not None:
            self._on_progress(progress)

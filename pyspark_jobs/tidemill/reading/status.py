"""`status`: where a pipeline stands. It reads the log and lists the sources; the command line prints it.

INVARIANT: whatever cannot be read is reported as a problem, and does not hide the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..clock import now_ms
from ..errors import CorruptState, InvalidInput, StoreUnavailable
from ..notebook import NotebookResult
from ..repo.operators import recorded_schemas
from ..values import dataclass

if TYPE_CHECKING:
    from ..protocol.records import Commit, Kind
    from ..repo.opened import Opened
    from ..run.plan import Waiting


@dataclass(frozen=True)
class Status(NotebookResult):
    """The status of a pipeline. Times are ISO 8601 in UTC. `head` is -1 before the first batch."""

    pipeline: str
    uri: str
    branch: str
    head: int
    kind: Kind | None
    batch_time: str | None
    committed: str | None
    watermarks: dict[str, str]
    operators: dict[str, dict[str, Any]]
    """By name: kind, key columns, and the number of keys that have state."""
    waiting_files: dict[str, int]
    """Number of waiting files by source."""
    waiting_bytes: int
    planned: dict[str, int] | None
    """Version and number of files of a plan without a commit, or None. A run is executing it, or failed; then the next
    run retries the same plan."""
    next_deadline: dict[str, str]
    """By clock: the earliest time at which a timeout or timer is due."""
    published_through: int
    """All versions up to this one are published; -1 means none. If a record of publishing cannot be read, this is the
    lower bound that the newest commit has."""
    published_known: bool
    """Whether every record of publishing could be read."""
    last_batch: dict[str, int]
    """Counts of input rows and files."""
    lost_behind: list[str]
    """In words: rows of the newest batch that were late for, or failed in, operators behind others."""
    oldest_waiting_s: float | None
    """Age of the oldest waiting file or requeued row, in seconds; None if nothing waits."""
    since_commit_s: float | None
    """Seconds since the newest commit; None before the first batch."""
    watermark_lag_s: dict[str, dict[str, float]]
    """By watermark: how far it is behind the batch time (`batch_time`) and behind now (`now`), in seconds."""
    requeued_rows: dict[str, int]
    """Number of requeued rows that wait, by source. They are read before any file."""
    kept_from: int
    """The lowest version of which everything is kept; 0 if nothing was discarded."""
    tags: dict[str, int]
    """By tag: the version that it names, which is kept also below `kept_from`."""
    problem: str | None
    """Why the next batch cannot be planned (then no file counts as waiting), why its plan cannot be read, or why a
    record of publishing cannot be read. None if all of it works."""

    def in_notebook(self) -> dict[str, Any]:
        """Return all that is known, in the order of the command."""
        return {name: value for name, value in vars(self).items() if value not in (None, {}, [])}


def status(repo: Opened) -> Status:
    """Return the status of a repository. `InvalidInput` if it has not been initialised."""
    from ..protocol.retained import seen_floor
    from ..repo.identity import warn_if_moved
    from ..repo.versions import branch_name
    from ..units import iso

    warn_if_moved(repo)
    head = repo.head()
    seen, unplanned = _waiting(repo, head)
    planned, unread = _planned(repo, head)
    published, unreachable = _published(repo, head)
    operators = {
        name: {
            "kind": recorded["kind"],
            "key": recorded["key"],
            "keys": head.operators[name].rows_total if head is not None and name in head.operators else 0,
        }
        for name, recorded in recorded_schemas(repo, head).items()
    }
    return Status(
        pipeline=repo.job.pipeline,
        uri=repo.store.uri,
        branch=branch_name(repo, repo.branch),
        head=-1 if head is None else head.version,
        kind=None if head is None else head.kind,
        batch_time=None if head is None else iso(head.batch_time_ms),
        committed=None if head is None else iso(head.committed_ms),
        watermarks={} if head is None else {name: iso(value) for name, value in head.watermarks.items()},
        operators=operators,
        waiting_files={name: len(files) for name, files in seen.files.items()},
        waiting_bytes=sum(file.size for file in seen.all),
        planned=planned,
        next_deadline={} if head is None else {clock: iso(value) for clock, value in head.next_deadline.items()},
        published_through=published,
        published_known=unreachable is None,
        last_batch={}
        if head is None
        else {
            "rows": head.counts.input_rows,
            "applied": head.counts.applied_rows,
            "late": head.counts.late_rows,
            "quarantined": head.counts.quarantined_rows,
            "quarantined_files": head.counts.quarantined_files,
            "files": head.counts.input_files,
        },
        lost_behind=[] if head is None else head.lost_behind,
        oldest_waiting_s=_age_s(seen.listed_ms, seen.oldest_ms),
        since_commit_s=_age_s(seen.listed_ms, None if head is None else head.committed_ms),
        watermark_lag_s={} if head is None else _lags(head, seen.listed_ms),
        requeued_rows=_requeued_rows(head),
        kept_from=max(seen_floor(repo.initialised(), repo.branch).highest, 0),
        tags={name: one.version for name, one in sorted(repo.initialised().tags.items())},
        problem="\n".join(why for why in (unplanned, unread, unreachable) if why is not None) or None,
    )


def _requeued_rows(head: Commit | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for split in () if head is None else head.waiting:
        held = split.requeued
        found[split.source] = found.get(split.source, 0) + (0 if held is None else held.rows - len(held.without))
    return found


def _age_s(now: int, then_ms: int | None) -> float | None:
    return None if then_ms is None else (now - then_ms) / 1000


def _lags(head: Commit, now: int) -> dict[str, dict[str, float]]:
    return {
        name: {"batch_time": (head.batch_time_ms - value) / 1000, "now": (now - value) / 1000}
        for name, value in head.watermarks.items()
    }


def _waiting(repo: Opened, head: Commit | None) -> tuple[Waiting, str | None]:
    """Return the waiting files; if the sources cannot be listed, no files and the reason."""
    from ..run.plan import Waiting, waiting

    repo.initialised()
    if repo.recorded is not None:
        return Waiting(now_ms()), "waiting files are not listed, because that needs the pipeline's code"
    try:
        return waiting(repo, head), None
    except (InvalidInput, StoreUnavailable) as error:
        return Waiting(now_ms()), str(error)


def _planned(repo: Opened, head: Commit | None) -> tuple[dict[str, int] | None, str | None]:
    """Return the plan after `head`, if it has no commit; if it cannot be read, None and the reason."""
    origin = repo.origin(head)
    number = origin.number
    try:
        plan = repo.log.plan(number, origin.parent)
        newest = None if plan is None else repo.head()
    except (CorruptState, StoreUnavailable) as error:
        return None, f"cannot read the plan of version {number}: {error}"
    if plan is None or (newest is not None and newest.version >= number):
        return None, None
    return {"version": number, "files": len({(split.source, split.path) for split in plan.splits})}, None


def _published(repo: Opened, head: Commit | None) -> tuple[int, str | None]:
    """Return the last version up to which all versions are published, and None.

    If a sink cannot be reached, return the version that the head records, and the reason.
    """
    from ..publishing.publish import published_through

    try:
        return published_through(repo, head), None
    except (CorruptState, InvalidInput, StoreUnavailable) as error:
        assert head is not None  # without a head, no sink is read
        return head.published_through, f"cannot tell which versions are published: {error}"

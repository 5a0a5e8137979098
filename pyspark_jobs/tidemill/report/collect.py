"""Collects the data of a report. Read only, and only from the root: sources and sinks are not listed.

INVARIANT: the number of requests has a bound: `commits` for the branch, as many again for the other branches together,
and what the diff and the look-ups need. A damaged record becomes a problem of the report and does not hide the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any

from ..branches.branch import BranchInfo, branches_found
from ..clock import now_ms
from ..errors import CorruptState, InvalidInput
from ..installed import version_of_tidemill
from ..protocol.history import is_effective
from ..protocol.log import Log, log_of
from ..protocol.records import Commit
from ..protocol.refs import Refs
from ..protocol.retained import first_kept, floor, seen_floor
from ..repo.identity import warn_if_moved
from ..repo.opened import Opened
from ..repo.operators import recorded_schemas
from ..repo.versions import branch_name
from ..values import dataclass
from .data import BranchLine, LookUp, OperatorState, Report, WatermarkStatus
from .graph import graph_of
from .points import Names, point_of
from .samples import diff_of, late_rows, look_up_key, quarantine_samples, start_of

_COMMITS = 500
_READERS = 16
MOST_BRANCHES = 12
"""How many branches the graph shows: the newest, and always the one that is open."""
_MOST_PROBLEMS = 5


@dataclass(frozen=True)
class ReportRequest:
    """The arguments of a report.

    `diff`: two versions, or None for the open branch, or else the newest one, compared with the branch from which it
    starts; False for no diff. `keys` are pairs of operator (or None for the only one) and key.
    """

    commits: int = _COMMITS
    diff: tuple[int | str, int | str] | bool | None = None
    keys: Sequence[tuple[str | None, Any]] = ()

    def check(self) -> None:
        """Raise `InvalidInput` for arguments that do not fit."""
        if isinstance(self.commits, bool) or not isinstance(self.commits, int) or self.commits < 1:
            raise InvalidInput(f"report: commits={self.commits!r}, expected a whole number of at least 1")
        if isinstance(self.diff, bool | None):
            ok = self.diff is not True
        else:
            ok = isinstance(self.diff, tuple | list) and len(self.diff) == 2
        if not ok:
            raise InvalidInput(f"report: diff={self.diff!r}, expected two versions, False or None")
        if isinstance(self.keys, str) or not all(isinstance(one, tuple) and len(one) == 2 for one in self.keys):
            raise InvalidInput(f"report: keys={self.keys!r}, expected pairs of an operator and a key")


@dataclass
class Problems:
    """What could not be read, in words."""

    found: list[str] = field(default_factory=list)

    def add(self, error: CorruptState | InvalidInput) -> None:
        """Note an error, once."""
        if str(error) not in self.found:
            self.found.append(str(error))

    def shown(self) -> list[str]:
        """Return the first problems, and how many more there are."""
        rest = len(self.found) - _MOST_PROBLEMS
        return self.found[:_MOST_PROBLEMS] + ([f"and {rest:,} more; `tidemill verify` lists them"] if rest > 0 else [])


def collect_report(repo: Opened, asked: ReportRequest) -> Report:
    """Return the report of a branch. `InvalidInput` if the repository has not been initialised, or for an argument."""
    asked.check()
    warn_if_moved(repo)
    problems, head = Problems(), repo.head()
    known = _known(repo, problems)
    refs = repo.initialised()
    names = Names({one.id: one.name for one in known}, refs.tags)
    open_branch = branch_name(repo, repo.branch)
    look_ups = [_look_up(repo, head, operator, key) for operator, key in asked.keys]
    commits = list(_newest(repo, refs, head, asked.commits, problems))
    shown = _branches(known, open_branch)
    others = [
        (commit, heads)
        for commit, heads in _of_others(repo, refs, known, shown, asked.commits, problems)
        if (commit.branch, commit.version) not in {(one.branch, one.version) for one in commits}
    ]
    points = [point_of(one, names, head is None or not is_effective(head, one.version)) for one in commits]
    rest = [point_of(one, names, not is_effective(newest, one.version)) for one, newest in others]
    lines = [BranchLine(one.name, start_of(one), one.head, one.name in shown) for one in known]
    made = now_ms()
    return Report(
        tidemill=version_of_tidemill(),
        pipeline=repo.job.pipeline,
        uri=repo.store.uri,
        branch=open_branch,
        made_ms=made,
        time_zone=repo.job.time_zone,
        head=None if head is None else point_of(head, names, False),
        watermarks=_watermarks(head, made),
        next_deadline_ms={} if head is None else dict(head.next_deadline),
        published_through=-1 if head is None else head.published_through,
        kept_from=max(seen_floor(refs, repo.branch).highest, 0),
        tags={name: names.label(one.branch, one.version) for name, one in sorted(refs.tags.items())},
        operators=_operators(repo, head),
        branches=lines,
        dropped=list(refs.dropped),
        commits=points,
        others=rest,
        graph=graph_of([*points, *rest], lines),
        late=late_rows(commits, names),
        quarantined=quarantine_samples(repo, commits, problems),
        diff=diff_of(repo, known, asked.diff, problems),
        look_ups=look_ups,
        problems=problems.shown(),
    )


def _known(repo: Opened, problems: Problems) -> list[BranchInfo]:
    found = branches_found(repo)
    for _, lost in found:
        if lost is not None:
            problems.add(lost)
    return [one for one, _ in found]


def _look_up(repo: Opened, head: Commit | None, operator: str | None, key: Any) -> LookUp:
    from ..reading.located import operator_in, schemas_at

    return look_up_key(repo, operator_in(operator, schemas_at(repo, head, True, operator)), key)


def _newest(repo: Opened, refs: Refs, head: Commit | None, most: int, problems: Problems) -> Iterator[Commit]:
    """Yield the newest commits of the open branch that are kept, oldest first."""
    if head is not None:
        first = max(first_kept(seen_floor(refs, repo.branch)), head.version + 1 - most)
        yield from _read(repo.log, range(first, head.version + 1), problems)


def _branches(known: Sequence[BranchInfo], open_branch: str) -> set[str]:
    """Return the branches that the graph shows: `main`, the open one, and the newest."""
    newest = [one.name for one in known[1:]][-(MOST_BRANCHES - 2) :]
    return {known[0].name, open_branch, *newest}


def _of_others(
    repo: Opened, refs: Refs, known: Sequence[BranchInfo], shown: set[str], most: int, problems: Problems
) -> Iterator[tuple[Commit, Commit]]:
    """Yield the newest commits of the other branches, each with the newest one of its branch that can be read."""
    others = [one for one in known if one.id != repo.branch and one.name in shown]
    share = max(most // max(len(others), 1), 1)
    for one in others:
        log = log_of(repo.store, refs, one.id)
        first = max(log.first, first_kept(floor(refs, one.id)), one.head + 1 - share)
        found = list(_read(log, range(first, one.head + 1), problems))
        yield from ((commit, found[-1]) for commit in found)


def _read(log: Log, versions: Sequence[int], problems: Problems) -> Iterator[Commit]:
    """Yield the commits of versions, read by several threads. One that is damaged is a problem."""

    def read(version: int) -> Commit | CorruptState:
        try:
            return log.commit(version)
        except CorruptState as error:
            return error

    with ThreadPoolExecutor(_READERS, "tidemill-report") as pool:
        for found in pool.map(read, versions):
            if isinstance(found, CorruptState):
                problems.add(found)
            else:
                yield found


def _watermarks(head: Commit | None, made_ms: int) -> list[WatermarkStatus]:
    found = []
    for name, value in sorted(({} if head is None else head.watermarks).items()):
        assert head is not None
        is_set = value != 0
        behind = (head.batch_time_ms - value, made_ms - value) if is_set else (None, None)
        found.append(WatermarkStatus(name, value if is_set else None, *behind))
    return found


def _operators(repo: Opened, head: Commit | None) -> list[OperatorState]:
    found = []
    for name, recorded in recorded_schemas(repo, head).items():
        metrics = None if head is None else head.operators.get(name)
        rows, size = (0, 0) if metrics is None else (metrics.rows_total, metrics.state_bytes)
        found.append(OperatorState(name, recorded["kind"], list(recorded["key"]), rows, size))
    return found

"""`maintain`: merges segments of state, raises the floor, deletes garbage, and withdraws what appeared again in sinks.

If it is asked to, it joins small published files, too. It is safe beside runs, corrections and other calls, and does
what is left when it is called again. CRASH: each step is one entry of `refs/` or one commit, or deletes objects that no
kept version names.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import timedelta
from typing import Any

from ..batch.work import Engine
from ..errors import InvalidInput, StoreUnavailable
from ..forgetting.following import give_up_forgotten
from ..protocol.compatible import first_name, present_name
from ..protocol.garbage import Garbage
from ..protocol.records import Commit
from ..protocol.refs import Kept
from ..protocol.retained import floor
from ..protocol.retention import ALL_OPERATORS, Retention, Rule
from ..publishing.withdraw import withdraw_strays
from ..repo.identity import check_root
from ..repo.opened import Opened
from ..repo.operators import declared_operators
from ..spelling import unknown
from ..store.full import is_full
from ..store.probe import probe
from ..units import duration_ms, size_bytes
from ..values import dataclass
from .collect import Collected, OnDeleted, collect_garbage, delete_garbage, look_for_garbage
from .compact_choice import TARGET_BYTES
from .compacting import Compacted, Compaction, CompactReport
from .merging import Merged, merge, plan_merges
from .retain import raise_floor, wanted

Age = str | timedelta
Keep = Age | Mapping[str, Age]
KeepVersions = int | Mapping[str, int]
OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class MaintainReport:
    """What `maintain` did, or in a dry run would do.

    `merged`: ranges of state whose runs were merged, with rows and bytes before and after. `to_merge`: ranges that are
    left to merge; in a dry run, all of them.
    `floor_before` and `floor`: the lowest version of which everything is kept, apart from tagged ones.
    `operator_floors` has the floors of operators with a rule of their own, `operator_floors_before` those that they
    had. `kept_by` are the tags that keep versions
    below the floor. `garbage` names every object that can be deleted, oldest first, with its size and the reason;
    `deleted` says how many of them were. `strays`: by sink, published files that a stalled process had copied after
    their withdrawal. `compacted`: groups of published files that were joined; in a dry run, that would be.
    `to_compact`: how many groups are left; in a dry run, all of them. `compact_waits`: whether they are left because a
    batch is planned.
    """

    floor_before: int
    floor: int
    operator_floors: dict[str, int]
    kept_by: dict[str, int]
    garbage: list[Garbage]
    deleted: int
    merged: list[Merged] = field(default_factory=list)
    to_merge: int = 0
    strays: dict[str, list[str]] = field(default_factory=dict)
    compacted: list[Compacted] = field(default_factory=list)
    to_compact: int = 0
    compact_waits: bool = False
    dry_run: bool = False
    operator_floors_before: dict[str, int] = field(default_factory=dict)

    @property
    def raises_floor(self) -> bool:
        """Whether versions, or the state of an operator, can no longer be read that could be before."""
        before = self.operator_floors_before
        return self.floor > self.floor_before or any(
            max(at, 0) > before.get(name, self.floor_before) for name, at in self.operator_floors.items()
        )

    @property
    def garbage_bytes(self) -> int:
        """The bytes of all garbage."""
        return sum(one.size for one in self.garbage)


@dataclass(frozen=True)
class Maintenance:
    """The arguments of `maintain`."""

    keep: Keep | None = None
    keep_versions: KeepVersions | None = None
    time_budget_s: float | None = None
    reason: str = ""
    on_progress: OnProgress | None = None
    engine: Callable[[], Engine] | None = None
    compact_sinks: bool = False
    sink_file_size: str | int = TARGET_BYTES


def maintain(repo: Opened, asked: Maintenance) -> MaintainReport:
    """Merge segments, raise the floor, delete garbage, withdraw strays. `InvalidInput` for a wrong retention rule.

    If the disk is full, garbage that needs no new entry of `refs/` is deleted, and everything is tried once more.
    """
    try:
        return _maintained(repo, asked)
    except StoreUnavailable as error:
        if not is_full(error) or not delete_garbage(repo):
            raise
    return _maintained(repo, asked)


def _maintained(repo: Opened, asked: Maintenance) -> MaintainReport:
    retention, target_bytes = _retention(repo, asked), _target_bytes(asked)
    deadline = None if asked.time_budget_s is None else time.monotonic() + _seconds(asked.time_budget_s)
    check_root(repo)
    probe(repo.store)
    before = floor(repo.refresh(), repo.branch)
    repo.head()
    give_up_forgotten(repo)
    after = raise_floor(repo, wanted(repo, retention), asked.reason) if retention.rules else before
    report = merge(repo, deadline, _for(asked, "merging state"), engine=asked.engine)
    joined = CompactReport()
    if asked.compact_sinks:
        compaction = Compaction(repo, target_bytes, asked.reason)
        joined = compaction.run(deadline, _for(asked, "joining published files"))
    collected = collect_garbage(repo, deadline, _for(asked, "deleting objects"))
    strays = withdraw_strays(repo, repo.head())
    found = _report(repo, before, after, collected)
    left = len(report.left) + len(report.overtaken)
    return dataclasses.replace(
        found,
        merged=report.merged,
        to_merge=left,
        strays=strays,
        compacted=joined.compacted,
        to_compact=joined.left,
        compact_waits=joined.has_plan,
    )


def _for(asked: Maintenance, what: str) -> OnDeleted | None:
    on_progress = asked.on_progress
    return None if on_progress is None else lambda done, total: on_progress(what, done, total)


def planned(repo: Opened, asked: Maintenance) -> MaintainReport:
    """Return what `maintain` would do. Writes nothing."""
    retention, target_bytes = _retention(repo, asked), _target_bytes(asked)
    refs = repo.refresh()
    before, after = floor(refs, repo.branch), wanted(repo, retention)
    as_if = dataclasses.replace(refs, floors=refs.floors | {repo.branch: after})
    found, _ = look_for_garbage(repo, as_if)
    report = _report(repo, before, after, Collected(found, 0))
    joined = Compaction(repo, target_bytes).to_join() if asked.compact_sinks else []
    merges = len(plan_merges(repo))
    return dataclasses.replace(report, to_merge=merges, compacted=joined, to_compact=len(joined), dry_run=True)


def _report(repo: Opened, before: Kept, after: Kept, collected: Collected) -> MaintainReport:
    refs, head = repo.initialised(), repo.head()
    tags = {name: one.version for name, one in refs.tags.items() if one.branch == repo.branch}
    return MaintainReport(
        floor_before=max(before.version, 0),
        floor=max(after.version, 0),
        operator_floors=_present(after, head),
        operator_floors_before=_present(before, head),
        kept_by={name: version for name, version in tags.items() if version < after.highest},
        garbage=collected.found,
        deleted=collected.deleted,
    )


def _present(kept: Kept, head: Commit | None) -> dict[str, int]:
    """Return the floors of operators by the names that these have now."""
    renamed = [] if head is None else head.renamed
    return {present_name(name, (), renamed): at for name, at in kept.operators.items()}


def _retention(repo: Opened, asked: Maintenance) -> Retention:
    """Return the rules by operator. `InvalidInput` for an unknown operator, or a rule that would keep nothing."""
    ages = _by_operator(asked.keep)
    counts = _by_operator(asked.keep_versions)
    head = repo.head()
    renamed = [] if head is None else head.renamed
    known = list(declared_operators(repo, head))
    for name in (*ages, *counts):
        if name != ALL_OPERATORS and name not in known:
            raise unknown("operator to keep", str(name), known)
    rules = {}
    for name in dict.fromkeys((*ages, *counts)):
        count = counts.get(name)
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise InvalidInput(f"maintain: keep_versions={count!r}, expected a whole number of at least 1")
        age = ages.get(name)
        rules[first_name(name, renamed)] = Rule(None if age is None else duration_ms(age), count)
    return Retention(rules)


def _by_operator(rule: Any) -> dict[str, Any]:
    if rule is None:
        return {}
    return dict(rule) if isinstance(rule, Mapping) else {ALL_OPERATORS: rule}


def _seconds(budget: float) -> float:
    if isinstance(budget, bool) or not isinstance(budget, int | float) or budget < 0:
        raise InvalidInput(f"maintain: time_budget={budget!r}, expected a number of at least 0")
    return float(budget)


def _target_bytes(asked: Maintenance) -> int:
    size = size_bytes(asked.sink_file_size)
    if size < 1:
        raise InvalidInput(f"maintain: sink_file_size={asked.sink_file_size!r}, expected at least one byte")
    return size

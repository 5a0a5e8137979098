"""The steps of `maintain`, and what they would do: merge, raise the floor, join files, delete garbage, withdraw strays.

CRASH: each step is one entry of `refs/` or one commit for each group, or deletes objects that no kept version names.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..forgetting.following import give_up_forgotten
from ..protocol.compatible import first_name, present_name
from ..protocol.refs import Kept
from ..protocol.retained import floor
from ..protocol.retention import ALL_OPERATORS, Retention, Rule
from ..publishing.withdraw import withdraw_strays
from ..repo.opened import Opened
from ..repo.operators import declared_operators
from ..run.engine import engine_of
from ..spelling import unknown
from ..units import duration_ms, size_bytes
from ..upkeep.collect import OnDeleted, collect_garbage, look_for_garbage
from ..upkeep.compacting import Compaction
from ..upkeep.merging import merge, plan_merges
from ..upkeep.retain import raise_floor, wanted
from .contract import SeenRefs
from .maintain_report import MaintainReport

if TYPE_CHECKING:
    from .maintain import Maintain


def check_maintain(repo: Opened, asked: Maintain) -> None:
    """Raise `InvalidInput` for an unknown operator, a rule that would keep nothing, or a size or time below zero."""
    _retention(repo, asked)
    _target_bytes(asked)
    _deadline(asked)


def before(repo: Opened, asked: Maintain, seen: SeenRefs) -> MaintainReport:
    """Return the report before the first step: the floor, and nothing done."""
    kept = floor(seen.refs, repo.branch)
    return MaintainReport(verb=asked.verb, seen=seen, **_floors(repo, kept, kept))


def looked_at_upkeep(repo: Opened, asked: Maintain, seen: SeenRefs) -> MaintainReport:
    """Return what would be done. Writes nothing."""
    retention, target_bytes = _retention(repo, asked), _target_bytes(asked)
    kept, after = floor(seen.refs, repo.branch), wanted(repo, retention)
    as_if = dataclasses.replace(seen.refs, floors=seen.refs.floors | {repo.branch: after})
    garbage, _ = look_for_garbage(repo, as_if)
    joined = Compaction(repo, target_bytes).to_join() if asked.compact_sinks else []
    return MaintainReport(
        verb=asked.verb,
        seen=seen,
        **_floors(repo, kept, after),
        garbage=garbage,
        to_merge=len(plan_merges(repo)),
        compacted=joined,
        to_compact=len(joined),
        dry_run=True,
        kept=after,
    )


class MaintainSteps:
    """The steps of one call. Each returns the report with what it did."""

    def __init__(self, repo: Opened, asked: Maintain, agreed: MaintainReport | None) -> None:
        self.repo, self.asked = repo, asked
        self.agreed = None if agreed is None else agreed.kept
        self.deadline = _deadline(asked)

    def raise_floor(self, report: MaintainReport) -> MaintainReport:
        """Give up versions that `forget` left, and those that the rules do not keep."""
        repo, retention = self.repo, _retention(self.repo, self.asked)
        kept = floor(repo.refresh(), repo.branch)
        repo.head()
        give_up_forgotten(repo)
        after = kept
        if retention.rules:
            after = raise_floor(repo, at_most(wanted(repo, retention), self.agreed), self.asked.reason)
        return dataclasses.replace(report, **_floors(repo, kept, after))

    def merge(self, report: MaintainReport) -> MaintainReport:
        """Merge segments of state."""
        asked = self.asked
        on_local = asked.engine == "local" and asked.spark is None
        engine = None if on_local else lambda: engine_of(self.repo, asked.spark, asked.engine)
        done = merge(self.repo, self.deadline, self._shown("merging state"), engine=engine)
        left = len(done.left) + len(done.overtaken)
        return dataclasses.replace(report, merged=done.merged, to_merge=left)

    def join(self, report: MaintainReport) -> MaintainReport:
        """Join small published files, if that is asked for."""
        if not self.asked.compact_sinks:
            return report
        compaction = Compaction(self.repo, _target_bytes(self.asked), self.asked.reason)
        done = compaction.run(self.deadline, self._shown("joining published files"))
        return dataclasses.replace(report, compacted=done.compacted, to_compact=done.left, compact_waits=done.has_plan)

    def collect(self, report: MaintainReport) -> MaintainReport:
        """Delete objects that no kept version needs."""
        done = collect_garbage(self.repo, self.deadline, self._shown("deleting objects"))
        return dataclasses.replace(report, garbage=done.found, deleted=done.deleted)

    def withdraw(self, report: MaintainReport) -> MaintainReport:
        """Delete published files that a stalled process had copied after their withdrawal."""
        return dataclasses.replace(report, strays=withdraw_strays(self.repo, self.repo.head()))

    def _shown(self, what: str) -> OnDeleted | None:
        shown = self.asked.on_progress
        return None if shown is None else lambda done, total: shown(what, done, total)


def at_most(wanted: Kept, agreed: Kept | None) -> Kept:
    """Return floors that give up nothing but what was agreed to, if a batch came since."""
    if agreed is None:
        return wanted
    operators = {name: min(at, agreed.of(name)) for name, at in wanted.operators.items()}
    return dataclasses.replace(wanted, version=min(wanted.version, agreed.version), operators=operators)


def _floors(repo: Opened, kept: Kept, after: Kept) -> dict[str, Any]:
    """Return the fields of a report that say which versions are kept, by the names that operators have now."""
    refs, head = repo.initialised(), repo.head()
    tags = {name: one.version for name, one in refs.tags.items() if one.branch == repo.branch}
    renamed = [] if head is None else head.renamed

    def present(of: Kept) -> dict[str, int]:
        return {present_name(name, (), renamed): at for name, at in of.operators.items()}

    return {
        "floor_before": max(kept.version, 0),
        "floor": max(after.version, 0),
        "operator_floors": present(after),
        "operator_floors_before": present(kept),
        "kept_by": {name: version for name, version in tags.items() if version < after.highest},
    }


def _retention(repo: Opened, asked: Maintain) -> Retention:
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


def _deadline(asked: Maintain) -> float | None:
    budget = asked.time_budget
    if budget is None:
        return None
    if isinstance(budget, bool) or not isinstance(budget, int | float) or budget < 0:
        raise InvalidInput(f"maintain: time_budget={budget!r}, expected a number of at least 0")
    return time.monotonic() + float(budget)


def _target_bytes(asked: Maintain) -> int:
    size = size_bytes(asked.sink_file_size)
    if size < 1:
        raise InvalidInput(f"maintain: sink_file_size={asked.sink_file_size!r}, expected at least one byte")
    return size

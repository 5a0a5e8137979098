"""`diff` and `changes`: what is different between two versions, of one branch or of two. Read only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from ..notebook import NotebookResult
from ..protocol.history import effective, is_effective
from ..repo.identity import warn_if_moved
from ..repo.open import on_branch_of
from ..repo.opened import Opened
from ..repo.steps import Steps
from ..repo.versions import VersionSpec, branch_name, commit_at, unless_given_up
from ..schema import empty_table, int64_array
from ..values import dataclass
from .diff_outputs import OutputDiff, output_diff
from .diff_state import ComparedVersion, StateComparison, StateDiff, state_diff
from .located import same_operator
from .read import sink_names

OF_VERSION, OF_BRANCH = "version", "branch"


@dataclass(frozen=True)
class DiffReport(NotebookResult):
    """How two versions differ: the state of each operator, and the outputs of each sink.

    `problems` says of an operator or sink why it cannot be compared.
    """

    before: str
    after: str
    operators: dict[str, StateDiff]
    sinks: dict[str, OutputDiff]
    problems: dict[str, str] = field(default_factory=dict)

    def in_notebook(self) -> dict[str, Any]:
        """Return how many keys and rows differ, by operator and sink."""
        return {
            "before": self.before, "after": self.after,
            "operators": {name: one.total for name, one in self.operators.items()},
            "sinks": {name: one.total for name, one in self.sinks.items()}, "problems": self.problems,
        }  # fmt: skip

    @property
    def total(self) -> int:
        """How many keys and rows differ."""
        found: list[StateDiff | OutputDiff] = [*self.operators.values(), *self.sinks.values()]
        return sum(one.total for one in found)


@dataclass(frozen=True)
class DiffRequest:
    """The optional arguments of `diff`."""

    operator: str | None = None
    sink: str | None = None
    limit: int | None = None
    tolerance: float | None = None
    variable: str | None = None
    partial: bool = False
    ids: bool = False

    def check(self) -> None:
        """Raise `InvalidInput` for arguments that do not fit."""
        if self.operator is not None and self.sink is not None:
            raise InvalidInput("diff: found both operator and sink, expected at most one of them")
        limit, tolerance = self.limit, self.tolerance
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidInput(f"diff: limit={limit!r}, expected a whole number of at least 0")
        if tolerance is not None and (
            isinstance(tolerance, bool)
            or not isinstance(tolerance, int | float)
            or not math.isfinite(tolerance)
            or tolerance < 0
        ):
            raise InvalidInput(f"diff: tolerance={tolerance!r}, expected a number of at least 0")
        if self.variable is not None and self.operator is None:
            raise InvalidInput("diff: found variable without operator, expected the operator that it belongs to")

    @property
    def of_state(self) -> StateComparison:
        """The arguments that say how states are compared."""
        return StateComparison(None, self.variable, self.partial, self.tolerance, self.limit)


def diff(repo: Opened, a: VersionSpec, b: VersionSpec, asked: DiffRequest) -> DiffReport | StateDiff | OutputDiff:
    """Compare two versions: an operator's state, a sink's outputs, or everything."""
    asked.check()
    warn_if_moved(repo)
    return unless_given_up(repo, lambda: _diff(repo, a, b, asked))


def _diff(repo: Opened, a: VersionSpec, b: VersionSpec, asked: DiffRequest) -> DiffReport | StateDiff | OutputDiff:
    if asked.operator is not None:
        return state_diff(*_points(repo, a, b, asked.operator), asked.operator, asked.of_state)
    one, other = _points(repo, a, b)
    if asked.sink is not None:
        return output_diff(one, other, asked.sink, asked.ids, asked.tolerance, asked.limit)
    return _report(one, other, asked)


def _points(
    repo: Opened, a: VersionSpec, b: VersionSpec, operator: str | None = None
) -> tuple[ComparedVersion, ComparedVersion]:
    verb = "compare" if operator is None else f"compare the state of `{operator}` in"
    return ComparedVersion(*commit_at(repo, a, verb, operator)), ComparedVersion(*commit_at(repo, b, verb, operator))


def _report(a: ComparedVersion, b: ComparedVersion, asked: DiffRequest) -> DiffReport:
    operators: dict[str, StateDiff] = {}
    sinks: dict[str, OutputDiff] = {}
    problems: dict[str, str] = {}
    in_b = b.schemas(None)
    for name in [*in_b, *(one for one in a.schemas(None) if one not in in_b and _is_gone(one, a, b))]:
        try:
            operators[name] = state_diff(a, b, name, asked.of_state)
        except InvalidInput as error:
            problems[f"operator `{name}`"] = error.message
    for name in dict.fromkeys([*sink_names(b.repo, b.commit), *sink_names(a.repo, a.commit)]):
        try:
            sinks[name] = output_diff(a, b, name, asked.ids, asked.tolerance, asked.limit)
        except InvalidInput as error:
            problems[f"sink `{name}`"] = error.message
    return DiffReport(a.label, b.label, operators, sinks, problems)


def _is_gone(name: str, a: ComparedVersion, b: ComparedVersion) -> bool:
    """Whether an operator of the first version has no other name in the second one."""
    return same_operator(name, b.commit, a.commit, b.schemas(None)) is None


@dataclass(frozen=True)
class ChangesRequest:
    """The arguments of `changes`."""

    operator: str
    from_version: VersionSpec
    to_version: VersionSpec
    each: bool = False
    keys: Iterable[Any] | None = None
    variable: str | None = None
    partial: bool = False


def changes(repo: Opened, asked: ChangesRequest) -> pa.Table:
    """Return the keys whose state changed after one version up to another, with both values; net, or by version."""
    warn_if_moved(repo)
    a, b = _points(repo, asked.from_version, asked.to_version, asked.operator)
    keys: Sequence[Any] | None = None if asked.keys is None else list(asked.keys)
    wanted = StateComparison(keys, asked.variable, asked.partial, verb="changes")
    if not asked.each:
        return state_diff(a, b, asked.operator, wanted).table
    _check_history(a, b)
    before, tables = a, []
    for now in _after(a, b):
        tables.append(_of_version(state_diff(before, now, _name_at(now, b, asked.operator), wanted).table, now))
        before = now
    if not tables:
        return _of_version(empty_table(state_diff(a, b, asked.operator, wanted).table.schema), b)
    return pa.concat_tables(tables, promote_options="permissive")


def _after(a: ComparedVersion, b: ComparedVersion) -> Iterator[ComparedVersion]:
    """Yield the versions that made `b` of `a`, oldest first. Those of a promoted branch stand in the promotion's place.

    If the promotion kept the outputs of versions that are not its branch's, `a` may be one of these. Then the promotion
    is a version like any other.
    """
    steps = Steps(b.repo, b.commit, kept_only=True)
    place = 0 if a.version < 0 else steps.ends.get(a.version)
    if place is None:
        for version in effective(b.commit, a.version + 1):
            yield ComparedVersion(b.repo, b.repo.log.commit(version))
        return
    opened = {b.repo.version_of(b.version).branch: b.repo}
    for step in steps.all[place:]:
        own = b.repo if steps.is_own(step) else opened.get(step.branch)
        if own is None:
            own = opened[step.branch] = on_branch_of(b.repo, step.branch)
        yield ComparedVersion(own, steps.commit(step))


def _check_history(a: ComparedVersion, b: ComparedVersion) -> None:
    """Raise `InvalidInput` unless the first version is in the effective history of the second one."""
    there = a.version < 0 or (b.commit is not None and is_effective(b.commit, a.version))
    if not there or a.repo.version_of(a.version) != b.repo.version_of(a.version):
        raise InvalidInput(
            f"changes {a.label}..{b.label}: the first version is not in the effective history of the second one",
            hint="leave out each=True or --each to compare the two versions",
        )


def _name_at(then: ComparedVersion, now: ComparedVersion, operator: str) -> str:
    """Return the name that an operator of the last version has in an earlier one."""
    return same_operator(operator, then.commit, now.commit, then.schemas(operator)) or operator


def _of_version(table: pa.Table, at: ComparedVersion) -> pa.Table:
    """Add the columns `branch` and `version` to the rows of a version."""
    made_by = at.repo.version_of(at.version).branch
    branch = pa.array([branch_name(at.repo, made_by)] * table.num_rows, pa.string())
    version = int64_array([at.version] * table.num_rows)
    found = table.add_column(0, pa.field(OF_BRANCH, pa.string()), branch)
    return found.add_column(0, pa.field(OF_VERSION, pa.int64()), version)

"""`check` against a branch: what the branch would change if it were promoted, in figures. Read only.

INVARIANT: a branch that was replayed is compared with the version that it repeats, so missing input is no difference. A
branch that also ran by itself may have read other input; its own versions are named.
"""

from __future__ import annotations

import contextlib
from dataclasses import field
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from ..errors import InvalidInput, StoreUnavailable
from ..protocol.kinds import rules_of
from ..protocol.records import Commit
from ..reading.diff import DiffRequest, diff
from ..reading.diff_outputs import OutputDiff
from ..reading.diff_state import StateDiff
from ..repo.open import on_branch
from ..repo.opened import Opened
from ..schema.kernels import pc
from ..values import dataclass
from .covered import CATCH_UP, files_left_out, own_versions
from .inputs import RecordedFile
from .level import level_of
from .promote import checked

_MOST_DIGITS = 75
"""How many digits a difference may have. A sum or difference of two such numbers has one more, the most that Arrow has.
"""


@dataclass(frozen=True)
class LargestChange:
    """The key for which a column of numbers changes most, and both values."""

    key: dict[str, Any]
    column: str
    before: Any
    after: Any


@dataclass(frozen=True)
class KeyChanges:
    """How many of the `keys` of an operator change. `largest` has an entry for each column of numbers that changes.

    `deadlines`, `not_compared`, `variables`: as in `StateDiff`.
    """

    keys: int
    added: int
    removed: int
    changed: int
    deadlines: int
    largest: list[LargestChange] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    variables: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many keys differ."""
        return self.added + self.removed + self.changed


@dataclass(frozen=True)
class RowChanges:
    """How many rows of a sink a promotion adds and removes, as bags."""

    added: int
    removed: int
    not_compared: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Against:
    """What a branch changes: version `after` of it, compared with version `before` of the branch that is open.

    `behind` are the later versions of the open branch, which the branch has not repeated. `refused` says why `promote`
    would refuse the branch as it is now, and `hint` what helps; None: it would not. `only_behind`: it would not after
    catching up. `problems`: what cannot be compared, and why. `own` are versions that the branch ran by itself, which
    may have read other input. `left_out` are files that were gone when the branch was replayed.

    `dropped_sinks` are sinks that this code does not have. A promotion withdraws what they have published since the
    start of the branch.
    """

    branch: str
    before: str
    after: str
    behind: list[int]
    refused: str | None
    operators: dict[str, KeyChanges]
    sinks: dict[str, RowChanges]
    problems: dict[str, str]
    own: list[int] = field(default_factory=list)
    hint: str = ""
    only_behind: bool = False
    left_out: list[RecordedFile] = field(default_factory=list)
    dropped_sinks: list[str] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether everything could be compared, and nothing differs."""
        states = (one.total or one.deadlines or one.not_compared or any(one.variables.values())
                  for one in self.operators.values())  # fmt: skip
        rows = (one.added or one.removed or one.not_compared for one in self.sinks.values())
        return not (self.problems or self.dropped_sinks or any(states) or any(rows))

    @property
    def refusal(self) -> str:
        """Why the branch is not promotable, for a line that names it; empty if it is."""
        if self.is_promotable:
            return ""
        return str(self.refused).removeprefix(f"promote `{self.branch}`: ").removeprefix("promote: ")

    @property
    def is_promotable(self) -> bool:
        """Whether `promote` would accept the branch, as it is or with `--catch-up`."""
        return self.refused is None or bool(self.behind and self.only_behind)


def against(repo: Opened, name: str, tolerance: float | None = None) -> Against:
    """Compare a branch with this one. `InvalidInput` for an unknown branch, or one that has no version of its own."""
    repo = repo.remembering()
    branch = on_branch(repo, name).remembering()
    if branch.branch == repo.branch:
        raise InvalidInput(f"check against `{name}`: it is the branch that is open", hint="name another branch")
    theirs = branch.head()
    if theirs is None or theirs.branch != branch.branch:
        raise InvalidInput(f"check against `{name}`: it has no version of its own", hint="replay into it first")
    head = repo.head()
    level = level_of(repo, branch)
    own = list(own_versions(branch, theirs))
    before, after = level.label, f"{name}@{theirs.version}"
    found = diff(repo, before, after, DiffRequest(tolerance=tolerance))
    assert not isinstance(found, StateDiff | OutputDiff)  # because all is compared
    rows = {} if level.commit is None else level.commit.rows
    made = {*theirs.sinks, *(() if head is None else head.sinks)}  # others of this code have no version on either side
    return Against(
        branch=name,
        before=before,
        after=after,
        behind=level.behind,
        operators={one: _keys(changes, rows.get(one, {})) for one, changes in found.operators.items()},
        sinks={
            one: RowChanges(rows.added, rows.removed, rows.not_compared)
            for one, rows in found.sinks.items()
            if rows.total or one in made
        },
        problems=found.problems,
        own=[one.version for one in own if rules_of(one).carries_out and one.replays is None],
        left_out=files_left_out(own),
        dropped_sinks=_dropped(repo, head),
        **_refused(repo, name, goes_on=theirs.replays is not None),
    )


def _dropped(repo: Opened, head: Commit | None) -> list[str]:
    described = {} if head is None else head.sinks
    return [name for name, one in described.items() if one["kind"] is not None and repo.declared_sink(name) is None]


def behind(repo: Opened, name: str) -> list[int]:
    """Return the versions of this branch that another one has not repeated. One that repeats none is not behind."""
    return level_of(repo, on_branch(repo, name)).behind


def _refused(repo: Opened, name: str, *, goes_on: bool) -> dict[str, Any]:
    """Return why `promote` would refuse a branch, what helps, and whether catching up is all that is missing.

    `goes_on`: the branch can be replayed further, because it has no batch of its own.
    """
    try:
        checked(repo, name)
    except (InvalidInput, StoreUnavailable) as error:
        only_behind = error.hint == CATCH_UP and goes_on
        return {"refused": error.first_line, "hint": error.hint or "", "only_behind": only_behind}
    return {"refused": None}


def _keys(found: StateDiff, rows: dict[str, int]) -> KeyChanges:
    return KeyChanges(
        keys=next(iter(rows.values()), 0),
        added=found.added,
        removed=found.removed,
        changed=found.changed,
        deadlines=found.deadlines,
        largest=_largest(found.table),
        not_compared=found.not_compared,
        variables=found.variables,
    )


def _largest(table: pa.Table) -> list[LargestChange]:
    """Return for each column of numbers the row whose values are furthest apart. Keys without one of both are left out.

    The first of several in the order of the table counts. Whole numbers and decimals are compared exactly.
    """
    found = []
    keys = [name for name in table.column_names if name not in ("before", "after")]
    before = {one.name: one.type for one in table.schema.field("before").type}
    for one in table.schema.field("after").type:
        if not (_is_number(one.type) and _is_number(before.get(one.name, pa.null()))):
            continue
        apart = _apart(*(pc.struct_field(table.column(side), one.name) for side in ("before", "after")))
        most = pc.max(apart)
        if most.as_py():
            row = table.slice(pc.index(apart, most).as_py(), 1).to_pylist()[0]
            key = {name: row[name] for name in keys}
            found.append(LargestChange(key, one.name, row["before"][one.name], row["after"][one.name]))
    return found


def _apart(before: pa.ChunkedArray, after: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return how far apart the numbers of two columns are; null if one is missing or not a number."""
    kinds = (before.type, after.type)
    if not any(pt.is_floating(kind) for kind in kinds):
        scale = max(kind.scale if pt.is_decimal(kind) else 0 for kind in kinds)
        with contextlib.suppress(pa.ArrowInvalid):  # the digits of both do not fit into one number
            exact = pa.decimal256(_MOST_DIGITS, scale)
            return pc.abs(pc.subtract(pc.cast(after, exact), pc.cast(before, exact)))
    apart = pc.abs(pc.subtract(*(pc.cast(side, pa.float64(), safe=False) for side in (after, before))))
    return pc.if_else(pc.is_nan(apart), None, apart)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))

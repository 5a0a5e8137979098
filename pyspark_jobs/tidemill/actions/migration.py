"""What a migration does: which operators get which state, decided before anything is written.

Decisions over the head and the code; nothing is stored. INVARIANT: state that no function rewrites is read through its
own columns, so every difference that remains must be an accepted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from .. import names
from ..batch.rewriting import Deadlines, Function, Rewrite
from ..errors import InvalidInput
from ..operators.contract import BoundOperator, describe
from ..protocol.compatible import (
    ACCEPTED,
    Difference,
    changes_of,
    compare_operator,
    first_name,
    has_same_time,
)
from ..protocol.records import Commit, Renamed, Segment
from ..repo.opened import Opened
from ..repo.operators import committed_state, declared_operators
from ..schema import in_backticks
from ..spelling import unknown
from ..state.columns import MapColumns
from ..values import dataclass

Functions = Mapping[str, Function | Mapping[str, Function]]
"""By operator: the function of its only map, or a function for each variable."""


@dataclass(frozen=True)
class Wanted:
    """What the caller asks for. `renamed` maps the old name of an operator to the new one."""

    functions: Functions
    renamed: Mapping[str, str] = field(default_factory=dict)
    drop_keys: bool = False
    merge: Function | None = None


@dataclass(frozen=True)
class Move:
    """One operator of a migration: its new name `name`, and its state at the head under the name `old`.

    `rewrites` are the maps that a function rewrites; others keep their segments. `rows` are the rows of its maps.
    """

    name: str
    old: str
    description: dict[str, Any]
    differences: list[Difference]
    rewrites: list[Rewrite]
    state: dict[str, list[Segment]]
    rows: dict[str, int]


def moves_of(repo: Opened, head: Commit | None, wanted: Wanted) -> list[Move]:
    """Return what a migration does to each operator. `InvalidInput` if it cannot be done."""
    if not wanted.functions and not wanted.renamed:
        raise InvalidInput("migrate: found neither a function nor a rename, expected at least one of them")
    if head is None or not head.state:
        raise InvalidInput(
            f"migrate: pipeline `{repo.job.pipeline}` has had no batch yet, so there is no state to migrate",
            hint="run init again, which records the operators of this code",
        )
    for old, new in wanted.renamed.items():
        _check_rename(repo, head, old, new)
    for name in wanted.functions:
        if name not in repo.job.operators:
            raise unknown("operator to migrate", str(name), repo.job.operators)
    olds = {new: old for old, new in wanted.renamed.items()}
    chosen = list(dict.fromkeys([*olds, *wanted.functions]))
    return [_move(repo, head, name, olds.get(name, name), wanted) for name in chosen]


def _check_rename(repo: Opened, head: Commit, old: str, new: str) -> None:
    if old not in head.state:
        raise unknown("operator to rename", str(old), head.state)
    if new not in repo.job.operators:
        raise unknown("operator to rename to", str(new), repo.job.operators)
    if old in repo.job.operators:
        raise InvalidInput(f"migrate: cannot rename operator `{old}`: this code still has it")
    if new in head.state or new in declared_operators(repo, head):
        raise InvalidInput(
            f"migrate: cannot rename operator `{old}` to `{new}`: the repository has an operator with that name",
            hint=f"give the operator another name; or first discard the state of `{new}` with `init` and run a batch",
        )


def _move(repo: Opened, head: Commit, name: str, old: str, wanted: Wanted) -> Move:
    if old not in head.state:
        raise InvalidInput(
            f"migrate: operator `{name}` has no state in version {head.version}; there is state for "
            + ", ".join(f"`{known}`" for known in sorted(head.state)),
            hint="if the operator was renamed, say from which name: rename={'old': 'new'} or --rename OLD=NEW",
        )
    operator, recorded = repo.job.operators[name].operator, head.schemas[old]
    found = describe(operator)
    if recorded["kind"] != found["kind"]:
        raise InvalidInput(
            f"migrate: operator `{name}` has state of a `{recorded['kind']}`, this code declares a `{found['kind']}`; "
            "state of one kind is never read by another",
            hint="give the new operator a name of its own, and an initial state if it accepts one",
        )
    given = _functions(name, recorded, operator, wanted.functions.get(name))
    differences = compare_operator(name, recorded, found)
    _check_covered(name, recorded, found, given, differences, wanted)
    rewrites = [_rewrite(operator, name, recorded, found, one, function, wanted) for one, function in given.items()]
    # With merged segments in place, because a renamed operator is no longer the one for which they were merged.
    return Move(name, old, found, differences, rewrites, committed_state(repo, head)[old], head.rows.get(old, {}))


def _functions(
    name: str, recorded: Mapping[str, Any], operator: BoundOperator, given: Function | Mapping[str, Function] | None
) -> dict[str, Function]:
    """Return the functions by map."""
    ours = [columns.name for columns in operator.maps]
    if given is None:
        return {}
    if callable(given):
        variables = [one for one in ours if names.variable_name(one) != one] or ours
        shown = [names.variable_name(one) for one in variables]
        if len(variables) > 1:
            raise InvalidInput(
                f"migrate: operator `{name}` has the state variables {in_backticks(shown)}, expected a function "
                "for each that changes",
                hint=f"give them by name: {{{name!r}: {{{shown[0]!r}: function}}}}",
            )
        if variables[0] not in recorded["maps"]:
            raise InvalidInput(f"migrate: operator `{name}` has no state yet in the variable `{shown[0]}`")
        return {variables[0]: given}
    if not isinstance(given, Mapping) or not all(callable(one) for one in given.values()):
        raise InvalidInput(f"migrate: operator `{name}`: found {given!r}, expected a function of a pyarrow.Table")
    by_variable = {names.variable_name(one): one for one in ours}
    found = {}
    for variable, function in given.items():
        one = by_variable.get(variable, variable)
        if one not in ours or one not in recorded["maps"]:
            raise unknown(f"variable of operator `{name}`", str(variable), by_variable)
        found[one] = function
    return found


def _check_covered(
    name: str,
    recorded: Mapping[str, Any],
    found: Mapping[str, Any],
    given: Mapping[str, Function],
    differences: list[Difference],
    wanted: Wanted,
) -> None:
    """Raise `InvalidInput` if a map changes that no function rewrites, or if a variable is lost."""
    for one in differences:
        gone = one.what == "variable" and not one.after
        if one.status == ACCEPTED or (gone and wanted.drop_keys):
            continue
        if gone:
            raise InvalidInput(one.message, hint="to discard the rows of the variable: drop_keys=True or --drop-keys")
        if not given:
            raise InvalidInput(
                f"migrate: {one.message}, so its state must be rewritten",
                hint=f"give a function for it: r.migrate({{{name!r}: function}}, …) or --operator {name} --function …",
            )
    for map_name, columns in found["maps"].items():
        known = recorded["maps"].get(map_name)
        if known is None or map_name in given:
            continue
        parts = ("key", "sub_key", "value")
        changes = [change for part in parts for change in changes_of(found["kind"], part, known[part], columns[part])]
        faults = [change for change in changes if not change.is_accepted]
        if faults:
            raise InvalidInput(
                f"migrate: operator `{name}`: the map `{names.variable_name(map_name)}` has other columns now "
                f"({faults[0]}), but no function rewrites it",
                hint="give a function for every variable that changes",
            )


def _rewrite(
    operator: BoundOperator,
    name: str,
    recorded: Mapping[str, Any],
    found: Mapping[str, Any],
    map_name: str,
    function: Function,
    wanted: Wanted,
) -> Rewrite:
    before = MapColumns.described(map_name, dict(recorded["maps"][map_name]))
    after = next(columns for columns in operator.maps if columns.name == map_name)
    known, now = recorded["maps"][map_name], found["maps"][map_name]
    changed = [c for part in ("key", "sub_key") for c in changes_of(found["kind"], part, known[part], now[part])]
    moves = wanted.drop_keys or wanted.merge is not None or not all(change.is_accepted for change in changed)
    initial = operator.initial
    return Rewrite(
        operator=name,
        before=before,
        after=after,
        function=function,
        moves=moves,
        deadlines=_deadlines(operator, map_name, recorded, found),
        drop_keys=wanted.drop_keys,
        merge=wanted.merge,
        not_null=initial is not None and initial.unnamed,
    )


def _deadlines(
    operator: BoundOperator, map_name: str, recorded: Mapping[str, Any], found: Mapping[str, Any]
) -> Deadlines:
    if operator.clock is None:
        return "clear"
    return "keep" if has_same_time(map_name, recorded, found) else "required"


def renames_of(head: Commit, moves: list[Move]) -> list[Renamed]:
    """Return the operators that have another name than in `refs/` after a migration."""
    firsts = {name: first_name(name, head.renamed) for name in head.state}
    for move in moves:
        firsts[move.name] = firsts.pop(move.old)
    return [Renamed(first, name) for name, first in sorted(firsts.items()) if first != name]

"""Where the state of an operator is in a version: its recorded columns and its live segments."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidInput
from ..names import map_name, variable_name
from ..protocol.compatible import first_name
from ..protocol.records import Commit, Segment
from ..repo.opened import Opened
from ..repo.operators import committed_state, declared_operators, live_state, recorded_schemas
from ..spelling import unknown
from ..state.columns import MapColumns
from ..values import dataclass


@dataclass(frozen=True)
class Located:
    """One state map of an operator in one version. `recorded` describes the operator there."""

    operator: str
    map: str
    recorded: dict[str, Any]
    columns: MapColumns
    segments: list[Segment]


def schemas_at(repo: Opened, commit: Commit | None, newest: bool, operator: str | None) -> dict[str, dict[str, Any]]:
    """Return the descriptions of the operators in a version.

    Before the first batch, and for the newest version, those that `init` declared are among them.
    """
    recorded = recorded_schemas(repo, commit)
    if commit is None or not commit.state:
        return recorded | declared_operators(repo, commit)
    if newest and operator not in recorded:
        declared = {name: one for name, one in declared_operators(repo, commit).items() if name in repo.operators}
        return declared | recorded
    return recorded


def located(repo: Opened, commit: Commit | None, newest: bool, operator: str | None, variable: str | None) -> Located:
    """Return the state map of a variable in a version; default: the first. `InvalidInput` for unknown names.

    `newest`: the version is the newest one, so initial state that `init` added since belongs to it.
    """
    recorded = schemas_at(repo, commit, newest, operator)
    newest = newest or commit is None or not commit.state
    name = operator_in(operator, recorded)
    chosen, described = _map(recorded[name]["maps"], variable)
    segments = segments_at(repo, commit, newest).get(name, {}).get(chosen, [])
    return Located(name, chosen, recorded[name], MapColumns.described(chosen, described), segments)


def same_operator(name: str, then: Commit | None, now: Commit | None, there: dict[str, Any]) -> str | None:
    """Return the name that an operator of version `now` has in version `then`, among the names that are `there`."""
    first = first_name(name, () if now is None else now.renamed)
    renamed = () if then is None else then.renamed
    return next((one for one in there if first_name(one, renamed) == first), None)


def segments_at(repo: Opened, commit: Commit | None, newest: bool) -> dict[str, dict[str, list[Segment]]]:
    """Return the live segments of a version, by operator and map.

    Initial state that `init` added later is not part of an older version.
    """
    if commit is None and repo.log.head() is not None:
        through = repo.log.commit(0).refs_through
        return {name: seeds.maps for name, seeds in repo.initialised().seeds.items() if seeds.number <= through}
    return live_state(repo, commit) if newest or commit is None else committed_state(repo, commit)


def _map(maps: dict[str, dict[str, str]], variable: str | None) -> tuple[str, dict[str, str]]:
    """Return the state map of a variable, by the name of the variable or of the map; default: the first map."""
    if variable is None:
        return next(iter(maps.items()))
    for name in (map_name(variable), variable):
        if name in maps:
            return name, maps[name]
    raise unknown("variable of the state", variable, [variable_name(name) for name in maps])


def operator_in(operator: str | None, recorded: dict[str, Any]) -> str:
    """Return the name of an operator; without one, of the only operator. `InvalidInput` if it is unknown."""
    if operator is None:
        if len(recorded) == 1:
            return next(iter(recorded))
        raise InvalidInput(
            f"the pipeline has {len(recorded)} operators, expected the name of one",
            hint=f"add operator=… or --operator: {', '.join(f'`{n}`' for n in sorted(recorded))}",
        )
    if operator not in recorded:
        raise unknown("operator", operator, recorded)
    return operator

"""The actions: a line each. `ACTIONS` imports all of them; a command imports only its own.

The module of an action has the name of its verb, and the class the same name in capitalized words.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .contract import Action

    ACTIONS: dict[str, type[Action]]

FOLLOWS = {
    "rewind": "publish",
    "skip": "replan",
    "replan": "rewind",
    "reset": "requeue",
    "requeue": "skip",
    "migrate": "reset",
    "forget": "migrate",
    "adopt": "forget",
    "promote": "replay",
    "maintain": "check",
    "tag": "log",
    "untag": "tag",
    "branch": "untag",
}
"""By verb, in the order in which forms and pages list them: the command after which `tidemill --help` lists it."""
FLAG_OF = {"drop_branch": "branch"}
"""By verb of an action without a command of its own: the command that carries it out if its flag is given."""


def action_of(verb: str) -> type[Action]:
    """Return the action of a verb."""
    name = verb.title().replace("_", "")
    found: type[Action] = getattr(importlib.import_module(f".{verb}", __package__), name)
    return found


def flagged_in(command: str) -> list[type[Action]]:
    """Return the actions that are flags of a command."""
    return [action_of(verb) for verb, name in FLAG_OF.items() if name == command]


def listed(commands: Iterable[str]) -> list[str]:
    """Return the names of other commands, with each action after the command that it follows."""
    names, left = list(commands), dict(FOLLOWS)
    while left:
        verb = next(verb for verb, before in left.items() if before in names)
        names.insert(names.index(left.pop(verb)) + 1, verb)
    return names


def airflow_operator_of(verb: str) -> str:
    """Return the name of the operator of Airflow for an action.

    >>> airflow_operator_of("rewind")
    'TidemillRewindOperator'
    """
    return f"Tidemill{verb.capitalize()}Operator"


def __getattr__(name: str) -> dict[str, type[Action]]:
    """Import all actions when `ACTIONS` is first used."""
    if name != "ACTIONS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = {verb: action_of(verb) for verb in (*FOLLOWS, *FLAG_OF)}
    globals()[name] = found
    return found

"""The actions, in the order in which forms and pages list them."""

from __future__ import annotations

from .adopt import Adopt
from .contract import Action
from .forget import Forget
from .migrate import Migrate
from .replan import Replan
from .requeue import Requeue
from .reset import Reset
from .rewind import Rewind
from .skip import Skip
from .tag import Tag
from .untag import Untag

ACTIONS: dict[str, type[Action]] = {
    one.verb: one for one in (Rewind, Skip, Replan, Reset, Requeue, Migrate, Forget, Adopt, Tag, Untag)
}
"""By verb."""


def operator_of(verb: str) -> str:
    """Return the name of the operator of Airflow for an action.

    >>> operator_of("rewind")
    'TidemillRewindOperator'
    """
    return f"Tidemill{verb.capitalize()}Operator"

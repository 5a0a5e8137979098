"""`TidemillVerifyOperator`: fails if anything that the repository holds is damaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from ...counts import count_of
from ...errors import Exit
from ..calls.command import Outcome
from .verb import VerbOperator, fields_of

_MOST_PROBLEMS = 20
"""How many problems an exception names. The log has all of them."""


class TidemillVerifyOperator(VerbOperator):
    """Run `tidemill verify` as a task: fail without a retry if anything that the repository holds is damaged.

    - `deep`: also read every byte, and count the rows of the newest state.
    - `forgotten`: also look for keys that `forget` removed.

    It changes nothing. The other arguments are those of `TidemillRunOperator`, without an engine. Returns (as XCom) the
    counts of the command's result: `commits`, `objects`, `bytes`, `published`, `unnamed`, `deep`, ….
    """

    verb = "verify"
    options = ("branch", "deep", "forgotten")
    template_fields = (*VerbOperator.template_fields, *options[1:])
    accepted = (Exit.DONE, Exit.FAILED)

    def __init__(
        self, *, deep: str | bool = False, forgotten: str | bool = False, multiple_outputs: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.deep = deep
        self.forgotten = forgotten

    def _summary(self, outcome: Outcome) -> list[str]:
        found = outcome.result or {}
        checked = f"{count_of(found['commits'], 'commit')} and {count_of(found['objects'], 'object')}"
        problems = [f"tidemill: {line}" for one in found["problems"] for line in _problem(one)]
        return [f"tidemill: checked {checked}: {count_of(len(found['problems']), 'problem')}", *problems]

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        found = outcome.result or {}
        if found["problems"]:
            lines = [line for one in found["problems"][:_MOST_PROBLEMS] for line in _problem(one)]
            raise AirflowFailException(
                "\n".join([f"{count_of(len(found['problems']), 'problem')}: {lines[0]}", *lines[1:]])
            )
        return fields_of(outcome)


def _problem(one: Mapping[str, str]) -> list[str]:
    return [f"{one['object']}: {one['what']}", f"  affects: {one['affects']}", f"  hint: {one['hint']}"]

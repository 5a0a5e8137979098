"""`Outlook`: what a replay has before it, known before it writes anything: versions that cannot be repeated, and work.

INVARIANT: a version that cannot be repeated is found before the first one is.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InvalidInput
from ..protocol.records import CARRIED_OUT, Counts, VersionOf
from ..protocol.retained import At, refuse_if_gone
from .steps import Steps, leaves_nothing

REPEATED = (*CARRIED_OUT, "skip", "requeue")


class Outlook:
    """The steps that a replay is going to repeat. `needs_state`: it takes state and outputs as they are recorded."""

    def __init__(self, needs_state: bool = False) -> None:
        self._needs_state = needs_state
        self._after: dict[VersionOf, Counts] = {}

    def look(self, steps: Steps, left: Sequence[VersionOf]) -> None:
        """Read the commits of steps. `InvalidInput` for the first that cannot be repeated."""
        refs = steps.context.initialised()
        found: dict[VersionOf, Counts] = {}
        for step in left:
            commit = steps.commit(step)
            if commit.kind not in REPEATED and not leaves_nothing(commit) and not commit.skipped:
                raise InvalidInput(
                    f"replay version {step.version} of `{step.branch}`: a `{commit.kind}` cannot be repeated",
                    hint=f"replay from version {step.version + 1} on",
                )
            if self._needs_state and step.branch in refs.dropped:
                raise InvalidInput(
                    f"replay version {step.version} of `{step.branch}` with operators: the branch was promoted and "
                    "then dropped, so the state of the other operators is no longer kept",
                    hint="replay all operators",
                )
            if self._needs_state:
                refuse_if_gone(refs, At(step.branch, step.version), "replay with operators", whole=True)
            found[step] = commit.counts
        files = size = 0
        for step in reversed(left):
            self._after[step] = Counts(input_files=files, input_bytes=size)
            files, size = files + found[step].input_files, size + found[step].input_bytes

    def after(self, step: VersionOf) -> Counts:
        """Return the input files and bytes of the steps after one, as they are recorded."""
        return self._after[step]

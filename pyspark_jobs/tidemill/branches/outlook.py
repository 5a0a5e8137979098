"""`Outlook`: what a replay has before it, known before it writes anything: versions that cannot be repeated, and work.

INVARIANT: a version that cannot be repeated, or one whose files changed or are gone, is found before the first one is
carried out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InvalidInput
from ..protocol.kinds import rules_of
from ..protocol.records import Commit, Counts, Plan, VersionOf
from ..protocol.retained import refuse_if_gone
from ..repo.steps import Steps
from .inputs import Inputs, refuse_wrong_inputs


def recorded_plan(steps: Steps, step: VersionOf, commit: Commit) -> Plan:
    """Return the plan that a step carried out. `InvalidInput` if it is missing."""
    plan = steps.plan_of(step, commit)
    if plan is None:
        raise InvalidInput(
            f"{_replaying(steps, step)}: its plan is missing",
            hint="run `tidemill verify`, and restore the plan from a backup",
        )
    return plan


def _replaying(steps: Steps, step: VersionOf) -> str:
    """Return the beginning of an error."""
    return f"replay version {step.version} of {steps.repo.initialised().named(step.branch)}"


class Outlook:
    """The steps that a replay is going to repeat. `needs_state`: it takes state and outputs as they are recorded."""

    def __init__(self, inputs: Inputs, needs_state: bool = False) -> None:
        self.inputs, self._needs_state = inputs, needs_state
        self._after: dict[VersionOf, Counts] = {}
        self._seen: Sequence[VersionOf] | None = None

    def look(self, steps: Steps, left: Sequence[VersionOf]) -> None:
        """Read the commits and plans of steps, and list the sources, unless the last call was for the same steps.

        `InvalidInput` for the first step that cannot be repeated.
        """
        if left == self._seen:
            return
        refs = steps.repo.initialised()
        self.inputs.look()
        found: dict[VersionOf, Counts] = {}
        wrong: dict[str, dict[int, list[str]]] = {}
        for step in left:
            commit = steps.commit(step)
            if rules_of(commit).replayed == "refused" and not commit.skipped:
                raise InvalidInput(
                    f"{_replaying(steps, step)}: a `{commit.kind}` cannot be repeated",
                    hint=f"replay from version {step.version + 1} on",
                )
            if self._needs_state and step.branch in refs.dropped:
                raise InvalidInput(
                    f"{_replaying(steps, step)} with operators: the branch was promoted and then dropped, so the state "
                    "of the other operators is no longer kept",
                    hint="replay all operators",
                )
            if self._needs_state:
                refuse_if_gone(refs, VersionOf(step.branch, step.version), "replay with operators", whole=True)
            for split in commit.requeued:
                if split.requeued is not None and steps.repo.store.stat(split.requeued.name) is None:
                    raise InvalidInput(
                        f"{_replaying(steps, step)}: the rows that it requeued are no longer kept",
                        hint=f"replay from version {step.version + 1} on",
                    )
            if rules_of(commit).carries_out:
                plan = recorded_plan(steps, step, commit)
                of_branch = wrong.setdefault(plan.branch, {})
                of_branch[step.version] = self.inputs.wrong(plan, steps.repo, steps.knowing(step, commit))
            found[step] = commit.counts
        for branch, versions in wrong.items():
            refuse_wrong_inputs(versions, refs.named(branch))
        files = size = 0
        for step in reversed(left):
            self._after[step] = Counts(input_files=files, input_bytes=size)
            files, size = files + found[step].input_files, size + found[step].input_bytes
        self._seen = left

    def after(self, step: VersionOf) -> Counts:
        """Return the input files and bytes of the steps after one, as they are recorded."""
        return self._after[step]

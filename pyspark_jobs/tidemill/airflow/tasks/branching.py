"""The operators of branches: branch, replay, diff, check. `pull_request` words what a branch changes.

INVARIANT: every task may be retried and cleared. A branch that is there with the same start is accepted, a replay
continues, and a branch that is gone counts as dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from ...counts import count_of, versions_of
from ...errors import Exit
from ..calls.checks import is_true
from ..calls.command import Outcome
from . import pull_request
from .actions import ActionOperator
from .pull_request import name_of_branch
from .verb import BatchOperator, VerbOperator, fields_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class TidemillBranchOperator(ActionOperator):
    """Run `tidemill branch` as a task: start a branch at a version, or end it with `drop`. Nothing is copied.

    - `name`: the branch. Default: a name of this DAG run, the same in all its tasks.
    - `at`: the version, tag or time at which it starts. Default: the newest version.
    - `publish_to`: a folder for its sinks. Default: it publishes nothing.
    - `drop`: end the branch. A branch that does not exist counts as ended.
    - `report_only`: say what would be done, and do nothing. It fails if a branch of this name is there, or with `drop`
      is not.
    - `expect`: what a task with `report_only` returned as `requires`. If something else would happen now, the task
      fails, and nothing has changed.

    A branch that is there with the same start is accepted. The other arguments are those of `TidemillRunOperator`,
    without an engine. Returns (as XCom) the command's result: `name`, `id`, `fork_branch`, `fork_version`, `head`, ….
    """

    verb = "branch"
    options = ("branch", "at", "publish_to", "drop", "reason")
    template_fields = (*ActionOperator.template_fields, "name", *options[1:])

    def __init__(
        self,
        *,
        name: str | None = None,
        at: str | int | None = None,
        publish_to: str | None = None,
        drop: str | bool = False,
        reason: str | None = None,
        multiple_outputs: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.name = name
        self.at = at
        self.publish_to = publish_to
        self.drop = drop
        self.reason = reason

    def _options(self, context: Context) -> dict[str, Any]:
        del context
        given = {name: getattr(self, name) for name in self.options}
        how = {"dry_run": True} if self._is_dry else {"if_needed": True, "yes": True}
        return {**given, **how, "expect": self._agreed(), "drop": is_true("drop", self.drop)}

    def _operands(self, context: Context) -> Sequence[str]:
        return (name_of_branch(self.name, context),)

    def _summary(self, outcome: Outcome) -> list[str]:
        made = outcome.result or {}
        name, is_new = made.get("name"), outcome.status == Exit.DONE
        if self._is_dry:
            return ["tidemill: nothing is changed yet", *(f"tidemill: {line}" for line in made.get("changes") or ())]
        if is_true("drop", self.drop):
            return [f"tidemill: {f'dropped branch `{name}`' if is_new else f'there is no branch `{name}`'}"]
        start = f"at version {made.get('fork_version')} of `{made.get('fork_branch')}`"
        return [f"tidemill: branch `{name}` {'starts' if is_new else 'is there already, and starts'} {start}"]

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        return fields_of(outcome)


class TidemillReplayOperator(BatchOperator):
    """Run `tidemill replay` as a task: carry out recorded batches again on a branch, with the code of `pipeline`.

    - `from_version`, `to_version`: the first and the last version to repeat. Default of the last one: the newest.
    - `into`: the branch; it is started unless it exists. Default: a name of this DAG run.
    - `operators`: compute only these, as a list or text with commas. Default: all.
    - `files`: "recorded" or "current". `follow`: also repeat what is committed meanwhile.
    - `max_batches`, `time_budget` (seconds): limits. Default: none.

    A retry continues after the last commit of the branch. The other arguments are those of `TidemillRunOperator`.
    Returns (as XCom) the command's result: `branch`, `replayed`, `versions`, `left`, ….
    """

    verb = "replay"
    options = ("branch", "engine", "operators", "files", "follow", "max_batches", "time_budget")
    template_fields = (*BatchOperator.template_fields, "from_version", "to_version", "into", *options[2:])

    def __init__(
        self,
        *,
        from_version: str | int,
        to_version: str | int | None = None,
        into: str | None = None,
        operators: str | Sequence[str] | None = None,
        files: str | None = None,
        follow: str | bool = False,
        max_batches: str | int | None = None,
        time_budget: str | float | None = None,
        multiple_outputs: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.from_version = from_version
        self.to_version = to_version
        self.into = into
        self.operators = operators
        self.files = files
        self.follow = follow
        self.max_batches = max_batches
        self.time_budget = time_budget

    def _options(self, context: Context) -> dict[str, Any]:
        versions = {"from": self.from_version, "to": self.to_version, "into": name_of_branch(self.into, context)}
        return {**versions, **super()._options(context)}

    def _summary(self, outcome: Outcome) -> list[str]:
        done = outcome.result or {}
        replayed, left = done.get("replayed") or [], done.get("left") or 0
        first = f"replayed {versions_of(replayed)}" if replayed else "nothing left to replay"
        state = f"; {count_of(left, 'version')} left" if left or replayed else ""
        files = [
            f"tidemill: left out `{one['path']}` of source `{one['source']}`, which is gone"
            for one in done.get("left_out") or ()
        ]
        return [f"tidemill: {first} into `{done.get('branch')}`{state}", *files]

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        return fields_of(outcome)


class TidemillCheckOperator(VerbOperator):
    """Run `tidemill check` as a task: fail unless the code fits the repository. It runs and writes nothing.

    - `against`: also compare this branch with `branch`, and fail if `promote` would refuse it, unless it only has to
      catch up. Default: no.
    - `tolerance`: floats differ if they are further apart than this.
    - `fail_if_different`: with `against`, fail if anything differs.

    A check that fails is not retried. The other arguments are those of `TidemillRunOperator`, without an engine.
    Returns (as XCom) the command's result: `status`, `version`, `differences`, and with a branch `against`.
    """

    verb = "check"
    options = ("branch", "against", "tolerance", "fail_if_different")
    template_fields = (*VerbOperator.template_fields, *options[1:])
    accepted = (Exit.DONE, Exit.FAILED)

    def __init__(
        self,
        *,
        against: str | None = None,
        tolerance: str | float | None = None,
        fail_if_different: str | bool = False,
        multiple_outputs: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.against = against
        self.tolerance = tolerance
        self.fail_if_different = fail_if_different

    def _summary(self, outcome: Outcome) -> list[str]:
        found = outcome.result or {}
        lines = [f"tidemill: the check of the code says: {found.get('status')}"]
        lines += [f"tidemill: {one['message']}" for one in found.get("differences") or ()]
        if found.get("against"):
            lines.append(f"tidemill: {pull_request.headline(found['against'])}")
            lines += [f"tidemill: {why}" for why in pull_request.refusal(found["against"])]
        return lines

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        if outcome.status == Exit.FAILED:
            raise AirflowFailException("\n".join(self._summary(outcome)).replace("tidemill: ", ""))
        return fields_of(outcome)


class TidemillDiffOperator(VerbOperator):
    """Run `tidemill check --against` as a task: what a branch would change if it were promoted.

    - `against`: the branch. Default: the name of this DAG run.
    - `tolerance`: floats differ if they are further apart than this.
    - `largest_changes`: also return the keys that change most, with both values. Default: yes.

    It succeeds whatever it finds. Returns (as XCom) `status` (of the code), `is_equal`, `before`, `after`, `behind`,
    `refused`, `operators`, `sinks`, `dropped_sinks`, `left_out`, `problems`, and `markdown` with the whole as a page.
    """

    verb = "check"
    options = ("branch", "tolerance")
    template_fields = (*VerbOperator.template_fields, "against", *options[1:])
    accepted = (Exit.DONE, Exit.FAILED)

    def __init__(
        self,
        *,
        against: str | None = None,
        tolerance: str | float | None = None,
        largest_changes: bool = True,
        multiple_outputs: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.against = against
        self.tolerance = tolerance
        self.largest_changes = largest_changes

    def _options(self, context: Context) -> dict[str, Any]:
        return {**super()._options(context), "against": name_of_branch(self.against, context)}

    def _summary(self, outcome: Outcome) -> list[str]:
        return str(self._returned(outcome)["markdown"]).split("\n")

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        found = outcome.result or {}
        against = found["against"] if self.largest_changes else pull_request.without_values(found["against"])
        page = pull_request.comparison_markdown(against, found["status"])
        return {"status": found["status"], **against, "markdown": page}

"""`Promote`: one commit on this branch, whose state is that of another one, and whose outputs take the place of others.

`branches/promote.py` decides what comes from the branch. CRASH: one conditional create is the whole promotion. What
follows it, publishing among it, is completed by the next run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..counts import count_of, versions_of
from ..errors import Fenced
from ..names import AUTO, CHOICES
from ..values import dataclass
from .contract import ActionPlan, CommitAction, MadeBefore, Option, SeenBranch, option

if TYPE_CHECKING:
    from ..branches.promote import Found, Promotion
    from ..protocol.kinds import Changes
    from ..protocol.records import Commit
    from ..protocol.successor import Origin
    from ..publishing.owners import Accepted
    from ..publishing.rest import Writing
    from ..repo.opened import Opened
    from ..run.drain import OnProgress


@dataclass(frozen=True, kw_only=True)
class PromotePlan(ActionPlan):
    """What will happen.

    `declared` are the sinks that this code has, `keeping` those of them that show unchanged files as they are.
    `behind`: versions that the branch has to repeat first, with `catch_up` in a dry run.
    """

    found: Found = field(repr=False)
    outputs: str
    declared: frozenset[str]
    keeping: frozenset[str]
    behind: list[int]
    places: dict[str, str]
    """By sink of this code: where it publishes."""

    @property
    def promotion(self) -> Promotion:
        """The versions that replace others, and what that does to sinks."""
        return self.found.promotion

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        return list(self._lines(self.promotion))

    def _lines(self, found: Promotion) -> Iterator[str]:
        if self.behind:
            yield f"first, the branch repeats {versions_of(self.behind)}; what follows is as it is before that"
        yield f"the state becomes that of version {found.version} of branch `{found.branch}`"
        yield from (f"operator `{one}`: its state ends, because the branch does not have it" for one in found.ends)
        if found.other_code:
            yield f"other code than this ran on the branch: {found.other_code}"
        if self.outputs == "keep":
            yield "what is published stays as it is; the outputs of the branch are not taken over"
        if found.replaced:
            yield f"replaced: {versions_of(found.replaced)}"
        if found.empty:
            what = f"{count_of(len(found.empty), 'empty version')} {'is' if len(found.empty) == 1 else 'are'} committed"
            why = "because rows of the branch have these numbers as `_batch_id`"
            yield f"first, {what} ({versions_of(found.empty)}), {why}"
        for sink, those in found.withdraws.items():
            lacks = "" if sink in self.declared else ", which this code does not have"
            stays = (
                ", except files that are the same on the branch" if sink in self.keeping and sink in found.adds else ""
            )
            yield f"sink `{sink}`{lacks}: what was published of {versions_of(those)} is withdrawn{stays}"
        for sink, those in found.adds.items():
            are = f"{versions_of(those)} of the branch {'is' if len(those) == 1 else 'are'}"
            yield f"sink `{sink}`: {are} {'published' if sink in self.declared else 'kept in the repository'}"
        for one in found.left_out:
            file = f"`{one.path}` of source `{one.source}`, which version {one.version} has read"
            yield f"left out: {file}; it was gone when the branch was replayed"

    def content(self) -> Any:
        """Return all that will happen."""
        return [self.found.theirs.checksum, dataclasses.asdict(self.promotion), self.outputs, self.behind, self.places]

    def as_dict(self) -> dict[str, Any]:
        """Return what will happen, for machines."""
        return {**dataclasses.asdict(self.promotion), "outputs": self.outputs, **super().as_dict()}


@dataclass(frozen=True, kw_only=True)
class Promote(CommitAction):
    """Take over the state of the branch NAME, by a commit of PIPELINE.

    The versions since the start of the branch leave the history, as in a rewind. Their published files are deleted, and
    those of the branch are published instead. Files that are the same keep their names. `rewind` undoes it.
    """

    verb = "promote"
    kind = "promote"
    operator_base = "PromotionOperator"
    short_help = "Take over the state and outputs of a branch."
    made_if = "the branch was promoted before"
    argument_order = ("branch", "reason", "catch_up", "outputs", "accept_output_change", "spark", "engine", "drop")
    method = """Take over the state of `branch` by a commit of this one, and return the commit.

    The branch must start from this one and must have read all that this one has read since. `catch_up` first
    replays what is missing, with this code, on `engine` or the session `spark`, as `replay` does. `outputs`:
    "correct" withdraws what was published since the fork, and publishes what the branch made instead, but leaves
    files alone that are the same; "keep" leaves what is published as it is. A function of `foreachBatch` is called
    with the versions that no longer count. Files of a sink that this code does not have are deleted where they were
    published. `accept_output_change`: write a sink with other columns than before. `drop`: operators that the
    branch does not have, whose state ends. The commit records `reason`. `rewind` undoes a promotion.

    `InvalidInput` if the branch does not fit, if the fork was rewound, if this code lacks what began on the
    branch, if an operator would end that `drop` does not name, or if a sink cannot withdraw what it has published.
    `Fenced` if another run commits first. Then nothing has changed. `expect` cannot be combined with
    `catch_up`, because a dry run cannot show what a replay will make.
    """

    branch: str = option(
        Option(
            "The branch.",
            form="the branch. Default: the one of this DAG run.",
            metavar="NAME",
            is_argument=True,
            airflow_name="name",
        )
    )
    catch_up: bool = option(
        Option("First replay what the branch has not read.", parsed="flag", airflow_default=True), False
    )
    outputs: str = option(
        Option(
            "Publish what the branch made instead of what was published, or leave that.",
            form='"correct" (default) publishes what the branch made instead of what was published, "keep" not.',
            choices=("correct", "keep"),
        ),
        "correct",
    )
    accept_output_change: bool = option(Option("Write a sink with other columns than before.", parsed="flag"), False)
    drop: Sequence[str] = option(
        Option(
            "End the state of this operator, which the branch does not have. Repeatable.",
            form="operators that the branch does not have, and whose state ends.",
            metavar="OPERATOR",
            is_repeated=True,
        ),
        (),
    )
    reason: str = option(Option("Why. The commit records it."), "")
    spark: Any = option(Option("The session to use.", in_shell=False), None)
    engine: str = option(
        Option(
            "Engine that runs the batches. `local` needs no Java; `auto` is `local` for small batches, else `spark`.",
            choices=CHOICES,
        ),
        AUTO,
    )

    @property
    def accepted(self) -> Accepted:
        """What the caller accepts."""
        from ..publishing.owners import Accepted

        return Accepted(output_change=self.accept_output_change, drop=tuple(self.drop))

    def made_before(self, repo: Opened) -> MadeBefore | None:
        """Return the commit that took over the branch as it is now, if there is one.

        `InvalidInput` if it left what is published as it was, and this call would not.
        """
        from ..branches.promote import promoted_already, refuse_if_kept

        made = promoted_already(repo, self.branch)
        if made is None:
            return None
        if self.outputs == "correct":
            refuse_if_kept(repo, self.branch, made)
        words = f"`{self.branch}` was promoted before, in version {made.version}"
        return MadeBefore(made, words, [made.version], {"branch": self.branch})

    def precedes(self, repo: Opened) -> str:
        """Return that a replay has to come first."""
        return (
            f"replaying {repo.reference or repo.job.pipeline} into {self.branch} on {self.engine}"
            if self.catch_up
            else ""
        )

    def after_what_precedes(self, repo: Opened, on_progress: OnProgress | None) -> Promote:
        """Replay what the branch has not read, and return the promotion that follows."""
        from ..branches.promote import catch_up
        from ..run.drain import Limits
        from ..run.engine import Choice

        limits = Limits()
        choice = Choice(repo, self.spark, self.engine, limits.tasks)
        catch_up(repo, self.branch, choice, limits, on_progress, self.outputs, self.accepted)
        return dataclasses.replace(self, catch_up=False)

    def begin(self, repo: Opened) -> bool:
        """Publish what earlier runs left, because what stays is read from published files."""
        from ..publishing.publish import repair_if_possible
        from ..store.probe import probe

        probe(repo.store)
        return repair_if_possible(repo, repo.head())

    def look(self, repo: Opened, seen: SeenBranch) -> PromotePlan:
        """Return what will happen. `InvalidInput` if the branch does not fit, or has not read all input."""
        from ..branches.against import behind
        from ..sinks.asked import keeps_unchanged

        outputs = repo.job.outputs.items()
        return PromotePlan(
            verb=self.verb,
            seen=seen,
            found=self._found(repo),
            outputs=self.outputs,
            declared=frozenset(sink for sink, output in outputs if output.sink is not None),
            keeping=frozenset(sink for sink, output in outputs if keeps_unchanged(output.sink)),
            behind=behind(repo, self.branch) if self.catch_up else [],
            places={sink: output.sink.uri for sink, output in outputs if output.sink is not None},
        )

    def _found(self, repo: Opened) -> Found:
        from ..branches.promote import checked, found_if_level

        find = found_if_level if self.catch_up else checked
        return find(repo, self.branch, self.outputs, self.accepted)

    def first(self, plan: PromotePlan) -> list[Changes]:
        """Return versions that change nothing, because rows of the branch have their numbers.

        INVARIANT: no version after a promotion has the number of rows that it published, so `_batch_id` tells them
        apart.
        """
        reason = f"rows of branch `{self.branch}` have this number"
        return [{"reason": reason} for _ in plan.promotion.empty]

    def unneeded(self, plan: PromotePlan) -> dict[str, list[int]]:
        """Return the versions that are replaced, by sink."""
        change = plan.found.change
        return {} if change is None else change.unneeded

    def hold(self, repo: Opened, plan: PromotePlan) -> None:
        """Hold what the branch has, and complete what another process has committed since the look."""
        from ..branches.promote import needed, taken
        from ..publishing.publish import repair
        from ..repo.stored import check_stored
        from ..repo.versions import hold

        assert isinstance(plan.seen, SeenBranch)
        origin, found = plan.seen.origin, plan.found
        repair(repo, origin.head, self.unneeded(plan))
        number = origin.number + len(plan.promotion.empty)
        hold(found.branch, needed(found), number, "promote", self.reason, by=repo.branch)
        check_stored(repo.store, taken(found), f"promote `{self.branch}`")

    def prepare(self, repo: Opened, plan: PromotePlan, origin: Origin, to: Writing) -> Changes:
        """Store what stays of published files."""
        from ..branches.promote import promoted

        found = plan.found
        if origin.head != found.head:  # after empty versions
            found = self._found(repo)
            if found.head != origin.head or found.theirs != plan.found.theirs:
                raise Fenced(
                    f"promote `{self.branch}`: another run has committed in the meantime", hint="promote again"
                )
        return {**promoted(repo, found, to), "reason": self.reason}

    def finish(self, repo: Opened, plan: PromotePlan, commit: Commit) -> PromotePlan:
        """Record the operators that came with the branch."""
        from ..repo.promoted import record_operators

        record_operators(repo, commit)
        return plan

    def fields(self, plan: PromotePlan, made: Commit) -> dict[str, Any]:
        """Return what was done, for machines."""
        found = plan.promotion
        publishes = bool(found.withdraws or plan.declared & found.adds.keys())
        rest = {name: value for name, value in plan.as_dict().items() if name not in ("version", "empty")}
        return {"versions": [*found.empty, made.version], "published": [made.version] if publishes else [], **rest}

    def done(self, plan: PromotePlan, made: Commit) -> str:
        """Return what was done, in words."""
        return f"promoted version {plan.promotion.version} of `{self.branch}` in version {made.version}"

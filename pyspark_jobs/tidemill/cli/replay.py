"""`tidemill replay` and `promote`: try a change of code on recorded plans, and then take it over."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import click

from ..counts import count_of, versions_of
from ..errors import Exit
from .correct import Agreement, consent_options, unchanged
from .options import VERSION, Drive, Target, drain_options, drive_options, engine_option, target_options
from .output import Output, output_options, result_file_option
from .progress import batch_progress
from .run import result_fields

if TYPE_CHECKING:
    from ..branches.promote import Promotion
    from ..branches.replay import ReplayReport
    from ..repository import Repository


@click.command(short_help="Carry out recorded plans again on a branch, with this code.")
@target_options
@click.option("--from", "from_version", type=VERSION, required=True, metavar="N|TAG", help="First version to repeat.")
@click.option("--to", "to_version", type=VERSION, metavar="N|TAG", help="Last version to repeat. Default: the newest.")
@click.option("--into", required=True, metavar="NAME", help="Branch to write to. It is started unless it exists.")
@click.option("--operators", multiple=True, metavar="NAME[,NAME]",
              help="Compute only these operators; take all else as recorded. Repeatable.")  # fmt: skip
@click.option("--files", type=click.Choice(["recorded", "current"]), default="recorded", show_default=True,
              help="Refuse files that have changed or are gone, or take what is there.")  # fmt: skip
@click.option("--follow", is_flag=True, help="Also repeat what is committed meanwhile.")
@drain_options
@drive_options
@result_file_option
@output_options
def replay(
    target: Target,
    from_version: int | str,
    to_version: int | str | None,
    into: str,
    operators: tuple[str, ...],
    files: str,
    follow: bool,
    drive: Drive,
    out: Output,
) -> int:
    """Carry out the plans of PIPELINE again, with the code as it is now, on the branch NAME.

    Each batch reads the same files in the same blocks, at the same batch time. The branch starts just before the first
    version. With --operators, only these are computed, so a new operator gets its past. A replay that was interrupted,
    or that reached its limits, continues when it is called again.
    """
    from ..branches.replay import ReplayRequest
    from ..branches.replay import replay as carry_out
    from ..run.engine import Choice

    repository = target.open()
    names = [name.strip() for given in operators for name in given.split(",")] or None
    asked = ReplayRequest(from_version, into, to_version, files, follow, names)
    choice = Choice(repository.opened, None, drive.engine, drive.limits.tasks)
    with batch_progress(out, f"replaying {target.reference} into {into} on {drive.engine}", "left") as on_batch:
        done = carry_out(repository.opened, asked, choice, drive.limits, on_batch)
    status = Exit.DONE if done.replayed else Exit.NOTHING
    found = {name: value for name, value in dataclasses.asdict(done).items() if name != "progress"}
    line = f"replayed {_replayed(repository, done)} into `{into}`" if done.replayed else "nothing to do"
    line += f"; {count_of(done.left, 'version')} left" if done.left else _level(repository, into, to_version)
    out.result({**result_fields("replay", status, repository), **found}, [line, *_files(done)])
    return status


def _replayed(repository: Repository, done: ReplayReport) -> str:
    """Name the versions that were carried out. Those of a promoted branch have the numbers of that branch."""
    from ..repo.versions import branch_name

    own = branch_name(repository.opened, repository.opened.branch)
    words = [
        versions_of(versions) + ("" if branch == own else f" of `{branch}`")
        for branch, versions in done.of_branches.items()
    ]
    return " and ".join(words)


def _level(repository: Repository, into: str, to_version: int | str | None) -> str:
    """Say with what a branch is level."""
    from ..repo.versions import branch_name

    source = branch_name(repository.opened, repository.opened.branch)
    through = "" if to_version is None else f" up to version {to_version}"
    return f"; `{into}` is level with `{source}`{through}"


def _files(done: ReplayReport) -> Iterator[str]:
    """Yield a line for each file that is gone or has changed."""
    for one in done.left_out:
        yield f"left out: `{one.path}` of source `{one.source}`, which version {one.version} has read, is gone"
    for one in done.changed:
        what = f"`{one.path}` of source `{one.source}` has changed since version {one.version} read it"
        yield f"changed: {what}; its present rows were read"


@click.command(short_help="Take over the state and outputs of a branch.")
@target_options
@click.argument("name")
@click.option("--catch-up", is_flag=True, help="First replay what the branch has not read.")
@click.option("--outputs", type=click.Choice(["correct", "keep"]), default="correct", show_default=True,
              help="Publish what the branch made instead of what was published, or leave that.")  # fmt: skip
@click.option("--accept-output-change", is_flag=True, help="Write a sink with other columns than before.")
@click.option("--drop", multiple=True, metavar="OPERATOR",
              help="End the state of this operator, which the branch does not have. Repeatable.")  # fmt: skip
@click.option("--reason", default="", help="Why. The commit records it.")
@click.option("--if-needed", is_flag=True, help="Succeed, with status 3, if the branch was promoted before.")
@engine_option
@consent_options
@result_file_option
@output_options
def promote(
    target: Target,
    name: str,
    catch_up: bool,
    outputs: str,
    accept_output_change: bool,
    drop: tuple[str, ...],
    reason: str,
    if_needed: bool,
    engine: str,
    consent: Agreement,
    out: Output,
) -> int:
    """Take over the state of the branch NAME, by a commit of PIPELINE.

    The versions since the start of the branch leave the history, as in a rewind. Their published files are deleted, and
    those of the branch are published instead. `rewind` undoes it.
    """
    from ..branches.against import behind
    from ..branches.promote import catch_up as replay_rest
    from ..branches.promote import planned, planned_if_level, promoted_already, when_level
    from ..publishing.owners import Accepted
    from ..run.drain import Limits
    from ..run.engine import Choice

    repository = target.open()
    if if_needed and (before := promoted_already(repository.opened, name)) is not None:
        fields = {**result_fields("promote", Exit.NOTHING, repository), "already_committed": [before.version]}
        out.result({**fields, "branch": name}, [f"`{name}` was promoted before, in version {before.version}"])
        return Exit.NOTHING
    accepted, limits = Accepted(output_change=accept_output_change, drop=drop), Limits()

    def level() -> None:
        choice = Choice(repository.opened, None, engine, limits.tasks)
        with batch_progress(out, f"replaying {target.reference} into {name} on {engine}", "left") as on_batch:
            replay_rest(repository.opened, name, choice, limits, on_batch, outputs, accepted)

    def take_over() -> int:
        look = planned_if_level if catch_up and consent.dry_run else planned
        found = look(repository.opened, name, outputs, accepted)
        outputs_of = repository.opened.job.outputs.items()
        declared = {sink for sink, output in outputs_of if output.sink is not None}
        lines = list(_lines(found, declared, outputs))
        if catch_up and consent.dry_run and (rest := behind(repository.opened, name)):
            lines.insert(0, f"first, the branch repeats {versions_of(rest)}; what follows is as it is before that")
        if not consent.given(lines, out):
            return unchanged("promote", repository, consent, out, {**dataclasses.asdict(found), "outputs": outputs})
        made = repository.promote(name, reason, outputs=outputs, accept_output_change=accept_output_change, drop=drop)
        out.result(
            {
                **result_fields("promote", Exit.DONE, repository),
                "versions": [*found.empty, made.version],
                "published": [made.version] if found.withdraws or declared & found.adds.keys() else [],
                **_fields(found),
                "outputs": outputs,
            },
            [f"promoted version {found.version} of `{name}` in version {made.version}"],
        )
        return Exit.DONE

    if catch_up and not consent.dry_run:
        return when_level(repository.opened, level, take_over)
    return take_over()


def _fields(found: Promotion) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(found).items() if name not in ("version", "empty")}


def _lines(found: Promotion, declared: Collection[str], outputs: str) -> Iterator[str]:
    """Yield what will happen, in words. `declared` are the sinks that this code has."""
    yield f"the state becomes that of version {found.version} of branch `{found.branch}`"
    yield from (f"operator `{one}`: its state ends, because the branch does not have it" for one in found.ends)
    if found.other_code:
        yield f"other code than this ran on the branch: {found.other_code}"
    if outputs == "keep":
        yield "what is published stays as it is; the outputs of the branch are not taken over"
    if found.replaced:
        yield f"replaced: {versions_of(found.replaced)}"
    if found.empty:
        what = f"{count_of(len(found.empty), 'empty version')} {'is' if len(found.empty) == 1 else 'are'} committed"
        why = "because rows of the branch have these numbers as `_batch_id`"
        yield f"first, {what} ({versions_of(found.empty)}), {why}"
    for sink, those in found.withdraws.items():
        lacks = "" if sink in declared else ", which this code does not have"
        yield f"sink `{sink}`{lacks}: what was published of {versions_of(those)} is withdrawn"
    for sink, those in found.adds.items():
        are = f"{versions_of(those)} of the branch {'is' if len(those) == 1 else 'are'}"
        yield f"sink `{sink}`: {are} {'published' if sink in declared else 'kept in the repository'}"
    for one in found.left_out:
        file = f"`{one.path}` of source `{one.source}`, which version {one.version} has read"
        yield f"left out: {file}; it was gone when the branch was replayed"

"""`tidemill branch` and `branches`: lines of versions that start from a version of another one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from ..errors import Exit
from .correct import Agreement, consent_options, unchanged
from .options import VERSION, Target, reading_options, target_options
from .output import Output, json_line, output_options, result_file_option
from .run import result_fields

if TYPE_CHECKING:
    from ..branches.branch import BranchInfo


@click.command(short_help="Start a branch at a version, or end one.")
@target_options
@click.argument("name")
@click.option("--at", type=VERSION, metavar="N|TAG|TIME",
              help="Version at which it starts, or a batch time (ISO). Default: the newest version.")  # fmt: skip
@click.option("--publish-to", metavar="URI", help="Folder of its sinks. Default: it publishes nothing.")
@click.option("--drop", is_flag=True, help="End the branch.")
@click.option("--reason", default="", help="Why. The entry records it.")
@click.option("--if-needed", is_flag=True, help="Succeed, with status 3, if the branch is there with this start, or "
              "with --drop if it does not exist.")  # fmt: skip
@consent_options
@result_file_option
@output_options
def branch(
    target: Target,
    name: str,
    at: int | str | None,
    publish_to: str | None,
    drop: bool,
    reason: str,
    if_needed: bool,
    consent: Agreement,
    out: Output,
) -> int:
    """Start the branch NAME at a version of PIPELINE. Nothing is copied; `--branch NAME` then works on it.

    A branch has the versions up to its start in common with the other one, and numbers its own ones onwards. With
    --drop the branch ends, and `maintain` deletes what only it needed.
    """
    if drop and (at is not None or publish_to is not None):
        raise click.UsageError("--drop ends a branch; it takes neither --at nor --publish-to")
    from ..branches.branch import branch as start
    from ..branches.branch import droppable, fork_point

    repository = target.open()
    is_there = name in repository.opened.refresh().branches
    if drop and if_needed and not is_there:
        out.result(
            {**result_fields("branch", Exit.NOTHING, repository), "name": name}, [f"there is no branch `{name}`"]
        )
        return Exit.NOTHING
    if drop:
        droppable(repository.opened, name)
        if not consent.given([f"branch `{name}` ends; its versions can no longer be read"], out):
            return unchanged("branch", repository, consent, out)
        made, did = repository.drop_branch(name, reason), "dropped"
    else:
        if consent.dry_run:
            where = fork_point(repository.opened, name, at, publish_to)
            consent.given([f"branch `{name}` would start at version {where}"], out)
            return unchanged("branch", repository, consent, out)
        made = start(repository.opened, name, at, publish_to, reason, if_needed=if_needed)
        did = "already there:" if is_there else "started"
    status = Exit.NOTHING if is_there and not drop else Exit.DONE
    out.result(
        {**result_fields("branch", status, repository), **dataclasses.asdict(made)},
        [f"{did} {_line(made)}"],
    )
    return status


@click.command(short_help="List the branches.")
@reading_options
@output_options
def branches(target: Target, out: Output) -> int:
    """List the branches of PIPELINE: where each starts, and its newest version. --json prints a JSON line for each."""
    for one in target.read().branches():
        out.line(json_line(dataclasses.asdict(one)) if out.json else _line(one))
    return Exit.DONE


def _line(one: BranchInfo) -> str:
    start = "" if one.fork_branch is None else f", from version {one.fork_version} of `{one.fork_branch}`"
    place = "" if one.publish_to is None else f", publishes to {one.publish_to}"
    return f"branch `{one.name}`: version {one.head}{start}{place}"

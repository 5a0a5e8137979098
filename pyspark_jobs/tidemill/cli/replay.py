"""`tidemill replay`: try a change of code on recorded plans, on a branch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..counts import count_of, versions_of
from ..errors import Exit
from .options import VERSION, Drive, Target, drain_options, drive_options, target_options
from .output import Output, output_options, result_file_option
from .progress import batch_progress
from .run import result_fields

if TYPE_CHECKING:
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

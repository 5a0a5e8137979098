"""`tidemill verify`: a thin wrapper of the verb with the same name. Its exit status is for a cron job."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..counts import count_of
from ..errors import Exit
from .options import Target, target_options
from .output import Output, output_options, result_file_option

if TYPE_CHECKING:
    from ..verifying.findings import VerifyReport
    from ..verifying.objects import OnChecked


@click.command()
@target_options
@click.option(
    "--deep",
    is_flag=True,
    help="Also read every byte and the records of versions that are not kept, and count the rows of the newest state.",
)
@click.option("--forgotten", is_flag=True, help="Also look for keys that `forget` removed.")
@result_file_option
@output_options
def verify(target: Target, deep: bool, forgotten: bool, out: Output) -> int:
    """Check that everything that the repository of PIPELINE holds is there, whole, and fits together.

    Each problem names an object, what is wrong, what it affects, and what to do. Nothing is changed. Published files
    that consumers moved are no problem; altered ones are. Exit status: 0 all is well, 1 there are problems.
    """
    with _bar(out) as on_checked:
        found = target.open().verify(deep, on_checked, forgotten)
    out.result(dataclasses.asdict(found), list(_lines(found)))
    return Exit.FAILED if found.problems else Exit.DONE


def _lines(found: VerifyReport) -> Iterator[str]:
    for problem in found.problems:
        yield f"{problem.object}: {problem.what}"
        yield f"  affects: {problem.affects}"
        yield f"  hint: {problem.hint}"
    checked = f"{count_of(found.commits, 'commit')}, {count_of(found.objects, 'object')} ({found.bytes:,} bytes)"
    verb = "read" if found.deep else "checked"
    if found.forgotten_keys is not None:
        missed = ", ".join(f"`{name}`" for name in found.unsearched)
        yield f"looked for {count_of(found.forgotten_keys, 'forgotten key')}" + (
            f", but not for all of them in the rows of {missed}" if missed else ""
        )
    if found.gone_files:
        yield f"nothing was looked for in {count_of(found.gone_files, 'published file')} that readers have taken"
    yield f"{verb} {checked}, {count_of(found.published, 'published file')}: {count_of(len(found.problems), 'problem')}"


@contextlib.contextmanager
def _bar(out: Output) -> Iterator[OnChecked | None]:
    """Show a bar on a terminal: how many objects were checked."""
    if out.json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("checking objects", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)

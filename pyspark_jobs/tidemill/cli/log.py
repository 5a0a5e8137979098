"""`tidemill log`: the commits of a pipeline, newest first, with kinds and reasons. Read only."""

from __future__ import annotations

import dataclasses

import click

from ..errors import Exit
from .options import Target, reading_options
from .output import Output, json_line, output_options

SHOWN_COMMITS = 20


@click.command(short_help="Show the commits, newest first, with corrections and their reasons.")
@reading_options
@click.option("--limit", type=click.IntRange(min=0), metavar="N",
              help=f"Show at most N commits. Default: {SHOWN_COMMITS}; with --json all.")  # fmt: skip
@click.option("--files", is_flag=True, help="Show the input files of each version.")
@output_options
def log(target: Target, limit: int | None, files: bool, out: Output) -> int:
    """Show the commits that are kept, newest first: kind, batch time, rows, files, and the reason of a correction.

    A promotion names the version of the branch that it took over, a rewind the version to which it went back.
    A version that a rewind undid is marked. --files adds what each version read, by source. --json prints a JSON line
    per commit.
    """
    from ..reading.log import input_files, log_row

    repository = target.read()
    shown = limit if limit is not None or out.json else SHOWN_COMMITS
    commits = repository.log(None if shown is None else shown + 1)
    newest = commits[0] if commits else None
    tags = repository.tags()
    refs = repository.opened.initialised() if commits else None
    rows = [log_row(commit, newest, tags, refs) for commit in commits[:shown]]
    read = {one.version: input_files(repository.opened, one) for one in (commits[:shown] if files else ())}
    if out.json:
        for row in rows:
            more = {"files": [dataclasses.asdict(one) for one in read[row["version"]]]} if files else {}
            out.line(json_line(row | more))
        return Exit.DONE
    from .render import console, log_table, print_files

    terminal = console()
    terminal.print(log_table(rows))
    print_files(terminal, {version: [one.line() for one in found] for version, found in read.items()})
    oldest = commits[-1].version if commits and (shown is None or len(commits) <= shown) else 0
    if oldest > 0:
        terminal.print(f"versions from {oldest} on are kept", style="dim")
    if not rows:
        terminal.print("no versions", style="dim")
    elif shown is not None and len(commits) > shown:
        terminal.print(f"the newest {shown:,}; --limit shows more", style="dim")
    return Exit.DONE

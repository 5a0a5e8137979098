"""`tidemill log`: the commits of a pipeline, newest first, with kinds and reasons. Read only."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit
from .options import Target, reading_options
from .output import Output, json_line, output_options

if TYPE_CHECKING:
    from ..protocol.records import Commit
    from ..protocol.refs import Refs

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
    from ..reading.log import input_files

    repository = target.read()
    shown = limit if limit is not None or out.json else SHOWN_COMMITS
    commits = repository.log(None if shown is None else shown + 1)
    newest = commits[0] if commits else None
    tags = repository.tags()
    refs = repository.opened.initialised() if commits else None
    rows = [_row(commit, newest, tags, refs) for commit in commits[:shown]]
    read = {one.version: input_files(repository.opened, one) for one in (commits[:shown] if files else ())}
    if out.json:
        for row in rows:
            more = {"files": [dataclasses.asdict(one) for one in read[row["version"]]]} if files else {}
            out.line(json_line(row | more))
        return Exit.DONE
    from .render import console, log_table

    terminal = console()
    terminal.print(log_table(rows, {version: [one.line() for one in found] for version, found in read.items()}))
    oldest = commits[-1].version if commits and (shown is None or len(commits) <= shown) else 0
    if oldest > 0:
        terminal.print(f"versions from {oldest} on are kept", style="dim")
    if not rows:
        terminal.print("no versions", style="dim")
    elif shown is not None and len(commits) > shown:
        terminal.print(f"the newest {shown:,}; --limit shows more", style="dim")
    return Exit.DONE


def _row(commit: Commit, newest: Commit | None, tags: Any, refs: Refs | None) -> dict[str, Any]:
    from ..protocol.history import is_effective
    from ..protocol.progress import lost_behind
    from ..units import iso

    return {
        "version": commit.version,
        "kind": commit.kind,
        "undone": newest is not None and not is_effective(newest, commit.version),
        "tags": [one.name for one in tags if (one.branch, one.version) == (commit.branch, commit.version)],
        "batch_time": iso(commit.batch_time_ms),
        "committed": iso(commit.committed_ms),
        "input_rows": commit.counts.input_rows,
        "input_files": commit.counts.input_files,
        "late_rows": commit.counts.late_rows,
        "quarantined_rows": commit.counts.quarantined_rows,
        "quarantined_files": commit.counts.quarantined_files,
        "lost_behind": lost_behind(commit),
        "restores": None if commit.restores is None else commit.restores.version,
        "promoted": None
        if commit.promoted is None or refs is None
        else {"branch": refs.name_of(commit.promoted.branch), "version": commit.promoted.version},
        "reason": commit.reason,
    }

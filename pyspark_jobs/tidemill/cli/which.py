"""`tidemill which`: what became of an input file. Read only."""

from __future__ import annotations

import dataclasses

import click

from ..errors import Exit
from .options import Target, reading_options
from .output import Output, json_line, output_options


@click.command(short_help="Show which version read a file, or whether it waits.")
@reading_options
@click.argument("file")
@click.option("--source", metavar="NAME", help="Source of the file. Default: all that have a file of this name.")
@output_options
def which(target: Target, file: str, source: str | None, out: Output) -> int:
    """Show what PIPELINE did with FILE: which version read, skipped or quarantined it, or that it waits.

    FILE is a path below the folder of its source, or a whole path or URI. If several sources have such a file, each has
    a line. --json prints a JSON line for each.
    """
    for one in target.read().which(file if source is None else (source, file)):
        out.line(json_line(dataclasses.asdict(one)) if out.json else one.line())
    return Exit.DONE

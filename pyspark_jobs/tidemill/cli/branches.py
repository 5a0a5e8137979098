"""`tidemill branches`: lines of versions that start from a version of another one. `act` makes `tidemill branch`."""

from __future__ import annotations

import dataclasses

import click

from ..errors import Exit
from .options import Target, reading_options
from .output import Output, json_line, output_options


@click.command(short_help="List the branches.")
@reading_options
@output_options
def branches(target: Target, out: Output) -> int:
    """List the branches of PIPELINE: where each starts, and its newest version. --json prints a JSON line for each."""
    for one in target.read().branches():
        out.line(json_line(dataclasses.asdict(one)) if out.json else one.line())
    return Exit.DONE

"""`tidemill ls`: the pipelines that have a repository under a root. Read only, without code."""

from __future__ import annotations

import dataclasses

import click

from ..errors import Exit
from ..names import ROOT_ENVIRONMENT
from ..secret_names import check_no_secrets
from .options import storage_option, storage_options
from .output import Output, json_line, output_options


@click.command(short_help="List the pipelines under a root.")
@click.argument("root", metavar="ROOT", envvar=ROOT_ENVIRONMENT)
@storage_option
@output_options
def ls(root: str, storage: tuple[str, ...], out: Output) -> int:
    """List the pipelines that have a repository under ROOT: the newest version of each, when it was made, its branches.

    ROOT is s3://bucket/prefix, file:///dir or a folder; default: the environment variable TIDEMILL_ROOT. It needs no
    code. --json prints a JSON line for each pipeline. Exit status: 0, or 1 if a repository cannot be read.
    """
    from ..branches.under_root import pipelines_under

    check_no_secrets(root, "ROOT")
    found = pipelines_under(root, storage_options(storage))
    for one in found:
        out.line(json_line(dataclasses.asdict(one)) if out.json else one.line())
    return Exit.FAILED if any(one.problem is not None for one in found) else Exit.DONE

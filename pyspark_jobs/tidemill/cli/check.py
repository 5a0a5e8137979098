"""`tidemill check`: a thin wrapper of the verb with the same name. Its exit status is for continuous integration."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .exits import Exit
from .options import Target, target_options
from .output import Output, output_options, result_file_option

if TYPE_CHECKING:
    from ..protocol.compatible import Difference
    from ..verbs.check import CheckReport


@click.command()
@target_options
@result_file_option
@output_options
def check(target: Target, out: Output) -> int:
    """Compare the code of PIPELINE with its repository, without running and without writing.

    The status is `compatible`, `needs init`, `needs migration` or `refused`; every difference says what will happen.
    Exit status: 0 compatible, 1 otherwise.
    """
    found = target.open().check()
    out.result(dataclasses.asdict(found), list(_lines(found)))
    return Exit.DONE if found.status == "compatible" else Exit.FAILED


def _lines(found: CheckReport) -> Iterator[str]:
    yield f"{found.status}, compared with " + ("version -1" if found.version < 0 else f"version {found.version}")
    for one in found.differences:
        yield from _of(one)


def _of(one: Difference) -> Iterator[str]:
    of = f"operator `{one.operator}`: " if one.operator else ""
    if one.before or one.after:
        named = f"{one.what} `{one.field}`" if one.field else one.what
        named = "" if one.what == "operator" else f"{named}: "  # `of` names it
        yield f"{of}{named}{one.before or 'nothing'} -> {one.after or 'nothing'}; {one.outcome}"
    else:
        yield f"{of}{one.what}: {one.outcome}"
    if one.hint:
        yield f"  hint: {one.hint}"

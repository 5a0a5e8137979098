"""`tidemill rewind`: goes back to an earlier version. Says before what will happen, as all corrections do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..counts import count_of, versions_of
from .correct import Consent, consent_options, if_needed_option, made_before, unchanged
from .exits import Exit
from .options import VERSION, Target, target_options
from .output import Output, output_options, result_file_option
from .run import result_fields

if TYPE_CHECKING:
    from ..repository import Repository
    from ..sources.contract import SourceFile
    from ..verbs.rewind import Rewind

SHOWN_FILES = 5


@click.command(short_help="Go back to an earlier version.")
@target_options
@click.option("--to", "to_version", type=VERSION, required=True, metavar="N|TAG", help="Version to go back to.")
@click.option("--without", multiple=True, metavar="FILE", help="File that is not read again. Repeatable.")
@click.option("--source", metavar="NAME", help="Source of these files. Needed only if several sources have them.")
@click.option("--reason", required=True, help="Why. The commit records it.")
@if_needed_option
@consent_options
@result_file_option
@output_options
def rewind(
    target: Target,
    to_version: int | str,
    without: tuple[str, ...],
    source: str | None,
    reason: str,
    if_needed: bool,
    consent: Consent,
    out: Output,
) -> int:
    """Go back to an earlier version, with a commit that restores its state, watermarks and batch time.

    Files that were read since then wait again, except those named with --without; FILE is relative to its source's
    folder. Published files of the versions that are undone are deleted. The versions themselves stay readable, and a
    rewind can be undone by another one.
    """
    from ..verbs.rewind import planned

    repository = target.open()
    if if_needed and made_before("rewind", "rewind", reason, repository, out):
        return Exit.NOTHING
    files = [path if source is None else (source, path) for path in without]
    found = planned(repository.context, to_version, files)
    lines = _lines(found, _functions(repository))
    fields = {**_fields(found), "changes": lines}
    if not consent.given(lines, out):
        return unchanged("rewind", repository, consent, out, fields)
    made = repository.rewind(to_version, reason, files)
    out.result(
        {**result_fields("rewind", Exit.DONE, repository), "versions": [made.version], **fields},
        [f"rewound to version {found.to_version} in version {made.version}: {reason}"],
    )
    return Exit.DONE


def _functions(repository: Repository) -> set[str]:
    """Return the sinks that are functions of foreachBatch."""
    outputs = repository.context.job.outputs.items()
    return {name for name, output in outputs if output.sink is not None and output.sink.every_batch}


def _lines(found: Rewind, functions: Collection[str]) -> list[str]:
    """Return what will happen, in words."""
    lines = [f"the state becomes that of version {found.to_version}"]
    if found.undone:
        lines.append(f"undone: {versions_of(found.undone)}")
    if found.waiting:
        lines.append(f"{_files(found.waiting)} will be read again")
    if found.without:
        lines.append(f"{_files(found.without)} will not be read")
    if found.gone:
        lines.append(f"{_files(found.gone)} read since then: gone, so these rows are lost")
    for sink, those in found.withdraws.items():
        done = "function is called with withdrawn=" if sink in functions else "files are deleted:"
        lines.append(f"sink `{sink}`: {done} {versions_of(those)}")
    for sink, those in found.adds.items():
        done = "function is called again with the rows of" if sink in functions else "files are published again:"
        lines.append(f"sink `{sink}`: {done} {versions_of(those)}")
    if found.ends_plan is not None:
        lines.append(f"the plan of version {found.ends_plan} ends")
    return lines


def _files(files: Sequence[SourceFile]) -> str:
    names = ", ".join(f"`{file.path}`" for file in files[:SHOWN_FILES])
    return f"{count_of(len(files), 'file')} ({names}{', …' if len(files) > SHOWN_FILES else ''})"


def _fields(found: Rewind) -> dict[str, Any]:
    """Return what will happen, or has happened, for machines."""
    return {
        "to_version": found.to_version,
        "undone": found.undone,
        "waiting": [[file.source, file.path] for file in found.waiting],
        "without": [[file.source, file.path] for file in found.without],
        "gone": [[file.source, file.path] for file in found.gone],
        "withdraws": found.withdraws,
        "adds": found.adds,
    }

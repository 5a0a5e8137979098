"""`tidemill requeue`: quarantined rows come back, as they are or corrected in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..counts import count_of
from .correct import Consent, consent_options, unchanged
from .exits import Exit
from .options import VERSION, Target, target_options
from .output import Output, output_options, result_file_option
from .run import result_fields

if TYPE_CHECKING:
    from ..verbs.requeue import Requeue


@click.command(short_help="Give quarantined rows back to the pipeline.")
@target_options
@click.option("--version", type=VERSION, required=True, metavar="N|TAG", help="The version that quarantined the rows.")
@click.option("--source", metavar="NAME", help="Only rows of this source. Default: of all sources.")
@click.option(
    "--rows",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="The corrected rows: a file that `tidemill quarantine --export` wrote. Default: all rows, as they are.",
)
@click.option("--reason", default="", help="Why the rows come back. The commit records it.")
@consent_options
@result_file_option
@output_options
def requeue(
    target: Target,
    version: int | str,
    source: str | None,
    rows: str | None,
    reason: str,
    consent: Consent,
    out: Output,
) -> int:
    """Give rows that a version quarantined back to the pipeline. The next batch reads them before any file.

    Unreadable rows go to the whole pipeline, rows of a failed key only to the operator whose function failed. Late rows
    go to the operators that they were late for, if those are declared with late="keep" now. A row comes back once.
    Without --rows, unreadable rows are parsed again by the schema that the source has now. A file that is in quarantine
    as a whole is read again as a new file: correct it in its folder first.
    """
    from ..verbs.requeue import described, planned

    repository = target.open()
    found = planned(repository.context, version, source, rows)
    if not consent.given(described(found), out):
        return unchanged("requeue", repository, consent, out)
    made = repository.requeue(version, source, rows, reason)
    out.result(
        {
            **result_fields("requeue", Exit.DONE, repository),
            "versions": [made.version],
            "rows": found.rows,
            "files": [one.file.path for one in found.files],
        },
        [f"requeued {_what(found)} of version {found.version} in version {made.version}"],
    )
    return Exit.DONE


def _what(found: Requeue) -> str:
    rows = [count_of(found.rows, "row")] if found.rows or not found.files else []
    files = [count_of(len(found.files), "file")] if found.files else []
    return " and ".join(rows + files)

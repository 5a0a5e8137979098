"""`tidemill publish`: a thin wrapper of the verb with the same name."""

from __future__ import annotations

import click

from ..counts import versions_of
from ..errors import Exit
from .options import VERSION, Target, target_options
from .output import Output, output_options, result_file_option
from .run import result_fields


@click.command(short_help="Publish what an earlier run committed but did not publish.")
@target_options
@click.option("--from", "since", type=VERSION, metavar="N|TAG", help="Publish all versions from this one on again.")
@click.option("--sink", metavar="NAME", help="With --from: only this sink. A function is called again only if named.")
@result_file_option
@output_options
def publish(target: Target, since: int | str | None, sink: str | None, out: Output) -> int:
    """Publish versions that an earlier run committed but did not publish.

    With --from, files that are missing from the sinks appear again, for example because they were deleted, or because
    a sink has a new path. Sinks that were added later are filled as far as outputs are kept. Exit status: 0 done, 3
    nothing to do.
    """
    repository = target.open()
    done = repository.publish(since, sink)
    status = Exit.DONE if done else Exit.NOTHING
    fields = {**result_fields("publish", status, repository), "published": done}
    out.result(fields, [f"published {versions_of(done)}" if done else "nothing to publish"])
    return status

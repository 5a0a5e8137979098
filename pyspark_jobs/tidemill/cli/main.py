"""`tidemill`: the group of commands, and the exit status of a call. The other modules hold the commands.

INVARIANT: every call ends with a status of `exits.Exit`, whatever happened.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from . import (
    branch,
    check,
    compare,
    correct,
    demo,
    forget,
    log,
    maintain,
    migrate,
    publish,
    read,
    replay,
    report,
    requeue,
    rewind,
    run,
    tag,
    verify,
    warm,
)
from .exits import INTERRUPTED, Exit, as_tidemill_error, exit_status
from .output import Output
from .stdio import patient_stdio


class Commands(click.Group):
    """A group that lists its commands in order of use, and suggests the nearest name for an unknown command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order in which they were added."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does, but suggest a name for an unknown one."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from ..spelling import nearest

            near = nearest(args[0], self.commands)
            known = f"did you mean `{near}`?" if near else f"known: {', '.join(sorted(self.commands))}"
            ctx.fail(f"unknown command `{args[0]}`; {known}")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tidemill", message="tidemill %(version)s")
def tidemill() -> None:
    """Stateful stream processing as a series of ordinary batch runs.

    PIPELINE is `module:name` or `path.py:name`. Commands that read also take the URI of a repository, and then need no
    code. Exit status: 0 done, 1 failed, 2 usage error, 3 nothing to do,
    4 fenced (another run is committing to this pipeline).
    """


RUNS = (run.init, run.run, run.sweep, publish.publish)
CORRECTIONS = (
    rewind.rewind,
    correct.replan,
    correct.skip,
    requeue.requeue,
    correct.reset,
    migrate.migrate,
    forget.forget,
    correct.adopt,
)
NAMES = (tag.tag, tag.untag, branch.branch, branch.branches)
TRIES = (replay.replay, replay.promote)
READS = (read.status, log.log, *NAMES, read.state, read.outputs, read.quarantine)
COMPARES = (compare.diff, compare.changes, compare.history, compare.explain, report.report)
REST = (check.check, maintain.maintain, verify.verify, warm.warm, demo.demo)
for command in (*RUNS, *CORRECTIONS, *TRIES, *READS, *COMPARES, *REST):
    tidemill.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. Errors go to stderr, without an internal traceback.

    `arguments` default to those of the process.
    """
    with patient_stdio():
        return _run_command(arguments)


def _run_command(arguments: Sequence[str] | None) -> int:
    out = Output()
    try:
        status = tidemill.main(
            args=None if arguments is None else list(arguments), prog_name="tidemill", standalone_mode=False, obj=out
        )
        return int(status or Exit.DONE)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo(f"\n{INTERRUPTED}", err=True)
        return Exit.INTERRUPTED
    except Exception as error:  # noqa: BLE001 — the last place that can report an error
        out.error(error)
        return exit_status(as_tidemill_error(error))

"""`tidemill`: the commands by name, and how a call ends. Each command is in a file of its own kind.

INVARIANT: every call ends with a status of `exits.Exit`, whatever happened.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from . import demo, read, run
from .exits import INTERRUPTED, Exit, as_tidemill_error, exit_status
from .output import Output
from .streams import patient_streams


class Commands(click.Group):
    """A group that lists its commands in the order of their use, and names the nearest where one is misspelt."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """As they were added."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from ..spelling import nearest

            near = nearest(args[0], self.commands)
            known = f"did you mean `{near}`?" if near else f"known: {', '.join(sorted(self.commands))}"
            ctx.fail(f"no command `{args[0]}`; {known}")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tidemill", message="tidemill %(version)s")
def tidemill() -> None:
    """Stateful stream processing as a series of ordinary batch runs.

    PIPELINE is `module:name` or `path.py:name`. Exit status: 0 done, 1 failed, 2 usage, 3 nothing to do,
    4 somebody else commits here.
    """


RUNS = (run.init, run.run, run.sweep, run.replan, demo.demo)
READS = (read.status, read.state, read.outputs, read.quarantine)
for command in (*RUNS, *READS):
    tidemill.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status. Errors are told on stderr, never as a traceback of ours."""
    with patient_streams():
        return _status(arguments)


def _status(arguments: Sequence[str] | None) -> int:
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
    except Exception as error:  # noqa: BLE001 — the last place that can say what happened
        out.error(error)
        return exit_status(as_tidemill_error(error))

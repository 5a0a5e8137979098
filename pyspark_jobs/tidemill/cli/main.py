"""`tidemill`: the group of commands, and the exit status of a call. The other modules hold the commands.

INVARIANT: every call ends with a status of `errors.Exit`, whatever happened. A call imports the module of its command
only, because all of them take longer than many a run.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Sequence

import click

from ..actions.registry import FOLLOWS, listed
from ..errors import Exit
from .exits import INTERRUPTED, as_tidemill_error, exit_status
from .output import Output
from .stdio import patient_stdio

_NEW_OBJECTS = 20_000
"""After so many new objects Python looks for garbage. Most of those that a start makes stay, so 700 is too few."""
RUNS = {"init": "run", "run": "run", "sweep": "run", "publish": "publish"}
_ROWS = {"state": "read", "outputs": "read", "quarantine": "read"}
READS = {"status": "read", "log": "log", "which": "which", "ls": "ls", "branches": "branches", **_ROWS}
COMPARES = {"diff": "compare", "changes": "compare", "history": "compare", "explain": "compare", "report": "report"}
REST = {"schema": "schema", "check": "check", "verify": "verify", "warm": "warm", "pack": "pack", "demo": "demo"}
MODULES = {**RUNS, "replay": "replay", **READS, **COMPARES, **REST}
"""By command, in order of use: the module with a function of that name. `act` makes the commands of actions."""
COMMANDS = listed(MODULES)
"""All commands, in order of use."""


class Commands(click.Group):
    """A group that lists its commands in order of use, and suggests the nearest name for an unknown command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of use."""
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command, or None if there is no such command."""
        if cmd_name in FOLLOWS:
            from .act import command_of

            return command_of(cmd_name)
        if cmd_name not in MODULES:
            return None
        command: click.Command = getattr(importlib.import_module(f".{MODULES[cmd_name]}", __package__), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does, but suggest a name for an unknown one."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from ..spelling import nearest

            near = nearest(args[0], COMMANDS)
            known = f"did you mean `{near}`?" if near else f"known: {', '.join(sorted(COMMANDS))}"
            ctx.fail(f"unknown command `{args[0]}`; {known}")
        return super().resolve_command(ctx, args)


def _verbose(context: click.Context, _: click.Parameter, asked: bool) -> None:
    context.meta["verbose"] = asked  # before or after `--version`


def _version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from .versions import lines

        for line in lines(context.meta["verbose"]):
            click.echo(line)
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, expose_value=False, callback=_version, help="Show the version and exit.")
@click.option(
    "--verbose",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_verbose,
    help="With --version: also the versions of Python, Java, Spark and other packages, for a report of a defect.",
)
def tidemill() -> None:
    """Stateful stream processing as a series of ordinary batch runs.

    PIPELINE is `module:name`, `path.py:name`, or `path.py` if the file has one pipeline. Commands that read also take
    the URI of a repository, and then need no code. Exit status: 0 done, 1 failed, 2 usage error, 3 nothing to do,
    4 fenced (another run is committing to this pipeline).
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. Errors go to stderr, without an internal traceback.

    `arguments` default to those of the process.
    """
    if arguments is None:
        gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    with patient_stdio():
        return _run_command(arguments)


def _run_command(arguments: Sequence[str] | None) -> int:
    out = Output(is_process=arguments is None)
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

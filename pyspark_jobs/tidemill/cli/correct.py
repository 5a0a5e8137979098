"""What commands of corrections share: consent, `--if-needed`, `--expect`.

INVARIANT: a command here says what it will do before it does it. `--dry-run` stops there. On a terminal it asks, unless
`--yes` is given; elsewhere, such as in a scheduler, it does not ask.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from ..errors import Exit
from ..values import dataclass
from ..visible import visible_lines
from .output import Output
from .run import result_fields

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Agreement:
    """Whether a correction is carried out."""

    dry_run: bool
    yes: bool

    @property
    def asks(self) -> bool:
        """Whether a person is asked, who may take any time to answer."""
        return not (self.yes or self.dry_run) and sys.stdin.isatty()

    def given(self, lines: Sequence[str], out: Output) -> bool:
        """Print what will be done, ask if this is a terminal, and return whether to do it."""
        for line in lines:
            click.echo(visible_lines(line), err=not self.dry_run or out.json)
        if self.dry_run:
            return False
        if not self.asks:
            return True
        try:
            return click.confirm("continue?", err=True)
        except click.Abort:  # Ctrl-C, or the end of input
            click.echo(err=True)
            return False


dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")


def no_consent_options(command: _Command) -> _Command:
    """Add `--dry-run` to a command that never asks. The command receives an `Agreement`."""

    @dry_run_option
    @functools.wraps(command)
    def wrapped(dry_run: bool, **rest: Any) -> Any:
        return command(consent=Agreement(dry_run, yes=True), **rest)

    return wrapped  # type: ignore[return-value]


def consent_options(command: _Command) -> _Command:
    """Add `--dry-run` and `--yes`. The command receives an `Agreement`."""

    @dry_run_option
    @click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
    @functools.wraps(command)
    def wrapped(dry_run: bool, yes: bool, **rest: Any) -> Any:
        return command(consent=Agreement(dry_run, yes), **rest)

    return wrapped  # type: ignore[return-value]


def if_needed_option(made_if: str) -> Callable[[_Command], _Command]:
    """Add `--if-needed`. The command receives `if_needed`."""
    return click.option("--if-needed", is_flag=True, help=f"Succeed, with status 3, if {made_if}.")


def expect_option(command: _Command) -> _Command:
    """Add `--expect`. The command receives `expect`."""
    return click.option(
        "--expect",
        metavar="TEXT",
        help="What a dry run gave as `requires`: do what it said, or nothing (status 4).",
    )(command)


def reported_before(
    verb: str, versions: Sequence[int], repository: Any, out: Output, words: str, more: Mapping[str, Any]
) -> int:
    """Report the versions that made the correction before."""
    fields = {**result_fields(verb, Exit.NOTHING, repository), "already_committed": list(versions), "changes": []}
    out.result({**fields, **more}, [words])
    return Exit.NOTHING


def unchanged(
    verb: str, repository: Any, consent: Agreement, out: Output, planned: Mapping[str, Any] | None = None
) -> int:
    """Report that nothing was done: as planned in a dry run, or because the user declined."""
    status = Exit.DONE if consent.dry_run else Exit.NOTHING
    fields = {**result_fields(verb, status, repository), "dry_run": consent.dry_run, **(planned or {})}
    out.result(
        fields | {"dry_run": consent.dry_run},
        ["dry run: nothing was changed" if consent.dry_run else "nothing was changed"],
    )
    return status

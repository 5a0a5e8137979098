"""Options that commands share, and what is made of them: `Target` (a pipeline on a root) and `Drive` (how it runs).

A wrong option is a usage error (exit status 2). INVARIANT: values of storage options appear in no message.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from ..names import ENGINES
from ..units import whole_number

if TYPE_CHECKING:
    from ..driver.drain import Limits
    from ..repository import Repository

STORAGE_ENVIRONMENT = "TIDEMILL_STORAGE_OPTIONS"
_STORAGE_SHAPE = '{"root": {"endpoint_url": "…"}, "source": {…}, "sink": {…}}'
_STORAGE_HELP = (
    "Such as root.endpoint_url=…; sections are root, source, sink; may be repeated. Secrets do not belong on a command "
    f"line: the AWS chain is used, or give JSON in {STORAGE_ENVIRONMENT}."
)

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Target:
    """A pipeline on a root, as the command line names it."""

    reference: str
    root: str
    branch: str
    conf: dict[str, str]
    storage_options: dict[str, dict[str, Any]]

    def open(self) -> Repository:
        """The repository. The user's module is loaded here."""
        from .. import repository
        from ..pipeline.load import load

        return repository.open(
            load(self.reference), self.root, self.branch, conf=self.conf, storage_options=self.storage_options
        )


@dataclass(frozen=True)
class Drive:
    """How batches are run: the engine, and where a drain stops."""

    engine: str
    batch_time: int | str | None
    tasks: int | Literal["auto"]
    max_batches: int | None = None
    time_budget_s: float | None = None

    @property
    def limits(self) -> Limits:
        """As the driver takes it."""
        from ..driver.drain import Limits

        return Limits(self.max_batches, self.time_budget_s, self.batch_time, self.tasks)


engine_option = click.option(
    "--engine", type=click.Choice(ENGINES), default="spark", show_default=True, help="`local` needs no Java."
)


def target_options(command: Command) -> Command:
    """The argument PIPELINE and what says where its repository lies; the command is given a `Target`."""

    @click.argument("reference", metavar="PIPELINE")
    @click.option("--root", required=True, envvar="TIDEMILL_ROOT", show_envvar=True, metavar="URI",
                  help="Where repositories lie: s3://bucket/prefix, file:///dir or a folder.")  # fmt: skip
    @click.option("--branch", default="main", show_default=True, help="The line of commits.")
    @click.option("--conf", multiple=True, metavar="K=V", help="A setting, `tidemill.…` or `spark.…`; may be repeated.")
    @click.option("--storage-option", "storage", multiple=True, metavar="SECTION.KEY=VALUE", help=_STORAGE_HELP)
    @functools.wraps(command)
    def wrapped(
        reference: str, root: str, branch: str, conf: tuple[str, ...], storage: tuple[str, ...], **rest: Any
    ) -> Any:
        target = Target(reference, root, branch, dict(pairs(conf, "--conf")), storage_options(storage))
        return command(target=target, **rest)

    return wrapped  # type: ignore[return-value]


def drive_options(command: Command) -> Command:
    """What says how batches run; the command is given a `Drive`."""

    @engine_option
    @click.option(
        "--batch-time", metavar="MS|ISO", help="What `now` is in these batches; default: the pipeline's rule."
    )
    @click.option(
        "--tasks", default="auto", show_default=True, metavar="N|auto", help="How many tasks a batch is cut into."
    )
    @functools.wraps(command)
    def wrapped(engine: str, batch_time: str | None, tasks: str, **rest: Any) -> Any:
        drive = Drive(
            engine=engine,
            batch_time=None if batch_time is None else point_in_time(batch_time),
            tasks=_tasks(tasks),
            max_batches=rest.pop("max_batches", None),
            time_budget_s=rest.pop("time_budget", None),
        )
        return command(drive=drive, **rest)

    return wrapped  # type: ignore[return-value]


def drain_options(command: Command) -> Command:
    """Where a drain stops; stands above `drive_options`, which puts them into the `Drive`."""
    command = click.option(
        "--max-batches", type=click.IntRange(min=1), metavar="N", help="Stop after so many batches."
    )(command)
    return click.option("--time-budget", type=click.FloatRange(min=0), metavar="SECONDS",
                        help="Begin no further batch after so many seconds.")(command)  # fmt: skip


def pairs(texts: Iterable[str], option: str) -> list[tuple[str, str]]:
    """`k=v` texts as pairs. An error shows nothing of the text, which may be a secret."""
    found = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} expects a name, `=` and a value")
        found.append((key.strip(), value))
    return found


def storage_options(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Storage options of the environment, overlaid with those of the command line."""
    found = _storage_of_environment()
    for name, value in pairs(texts, "--storage-option"):
        section, dot, key = name.partition(".")
        if not dot or not key:
            raise click.UsageError(
                f"--storage-option expects SECTION.KEY=VALUE such as root.endpoint_url=…, found `{name}`"
            )
        found.setdefault(section, {})[key] = value
    return found


def _storage_of_environment() -> dict[str, dict[str, Any]]:
    text = os.environ.get(STORAGE_ENVIRONMENT)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(section, dict) for section in found.values()):
        raise click.UsageError(f"{STORAGE_ENVIRONMENT} is not JSON of the form {_STORAGE_SHAPE}")
    return {str(name): dict(section) for name, section in found.items()}


def point_in_time(text: str) -> int | str:
    """Ms since the epoch as a number, anything else as it stands (ISO text, checked where it is used)."""
    number = whole_number(text)
    return text if number is None else number


def _tasks(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    number = whole_number(text)
    if number is not None and number > 0:
        return number
    raise click.UsageError(f"--tasks expects `auto` or a number from 1, found `{text}`")

"""Options that commands share, parsed into a `Target` (a pipeline and its root) or a `Drive` (how batches run).

An invalid option is a usage error (exit status 2). INVARIANT: no message shows the value of a storage option.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from ..names import AUTO, CHOICES, CONF_ENVIRONMENT, ROOT_ENVIRONMENT, STORAGE_ENVIRONMENT
from ..secret_names import check_no_secrets
from ..units import whole_number
from ..values import dataclass

if TYPE_CHECKING:
    from ..reader import Reader
    from ..repository import Repository
    from ..run.drain import Limits

_STORAGE_SHAPE = '{"root": {"endpoint_url": "…"}, "source": {…}, "sink": {…}}'
_CONF_SHAPE = '{"spark.executor.memory": "4g"}'
_STORAGE_HELP = (
    "Store option, for example root.endpoint_url=…; the sections are root, source and sink. Repeatable. Do not pass "
    f"secrets here: use the AWS credential chain, or JSON in {STORAGE_ENVIRONMENT}."
)
_CONF_HELP = (
    "A `tidemill.…` or `spark.…` setting. Repeatable. Settings that others on the machine must not see go into "
    f"{CONF_ENVIRONMENT}, as a JSON object."
)

_ROOT_HELP = "URI of the repositories: s3://bucket/prefix, file:///dir or a folder."

_ACCEPTED = {
    "adopt_sink": "Keep files of another repository in the place of a sink, and publish beside them.",
    "replace_sink": "Delete files of another repository in the place of a sink, once this run has published all.",
    "output_change": "Write a sink with other columns, partitions or another format than before.",
}
_FLAGS = {"output_change": "accept_output_change"}

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Target:
    """A pipeline and its root, as given on the command line. Commands that read may get a repository's URI instead."""

    reference: str
    root: str
    """Empty if the reference is a repository's URI."""
    branch: str
    conf: dict[str, str]
    storage_options: dict[str, dict[str, Any]]

    def open(self) -> Repository:
        """Load the user's module and open the repository. A repository's URI is a usage error."""
        if not self.root:
            _refuse_repository(click.get_current_context(), None, self.reference)
        from .. import repository
        from ..pipeline.load import load

        return repository.open(
            load(self.reference), self.root, self.branch, conf=self.conf, storage_options=self.storage_options
        )

    def read(self) -> Reader:
        """Open the repository to read it, without code if its URI was given."""
        if self.root:
            return self.open()
        from .. import reader
        from .pipeline_or_repository import repository_place

        place = repository_place(self.reference)
        return reader.read(
            place.root, place.pipeline, self.branch, conf=self.conf, storage_options=self.storage_options
        )


@dataclass(frozen=True)
class Drive:
    """How batches run: the engine, the batch time, the number of tasks and the limits of a drain."""

    engine: str
    batch_time: int | str | None
    tasks: int | Literal["auto"]
    max_batches: int | None = None
    time_budget_s: float | None = None
    accepted: Mapping[str, Any] = field(default_factory=dict)
    """The risks that the caller accepts, by the names of `publishing.owners.Accepted`."""

    @property
    def limits(self) -> Limits:
        """The limits as a run takes them."""
        from ..publishing.owners import Accepted
        from ..run.drain import Limits

        return Limits(
            self.max_batches, self.time_budget_s, self.batch_time, self.tasks, accepted=Accepted(**self.accepted)
        )


conf_option = click.option("--conf", multiple=True, metavar="K=V", help=_CONF_HELP)
storage_option = click.option(
    "--storage-option", "storage", multiple=True, metavar="SECTION.KEY=VALUE", help=_STORAGE_HELP
)
engine_option = click.option(
    "--engine",
    type=click.Choice(CHOICES),
    default=AUTO,
    show_default=True,
    help="Engine that runs the batches. `local` needs no Java; `auto` is `local` for small batches, else `spark`.",
)


def target_options(command: _Command) -> _Command:
    """Add PIPELINE and the options that locate its repository. The command receives a `Target`."""

    @click.argument("reference", metavar="PIPELINE", is_eager=True, callback=_refuse_repository)
    @click.option("--root", required=True, envvar=ROOT_ENVIRONMENT, show_envvar=True, metavar="URI", help=_ROOT_HELP)
    @_place_options
    @functools.wraps(command)
    def wrapped(
        reference: str, root: str, branch: str, conf: tuple[str, ...], storage: tuple[str, ...], **rest: Any
    ) -> Any:
        return command(target=_target(reference, root, branch, conf, storage), **rest)

    return wrapped  # type: ignore[return-value]


def reading_options(command: _Command) -> _Command:
    """Add PIPELINE, which may be a repository's URI, and the options that locate a repository. See `target_options`."""
    return _reading(command, "Required, unless a repository's URI is given.", _root_for)


def graph_options(command: _Command) -> _Command:
    """Add the options of `reading_options`, for a command that may need code alone: then `Target.root` is empty."""
    return _reading(command, "Required with --key and --branch, unless a repository's URI is given.", _root_if_given)


def _reading(command: _Command, when: str, root_for: Callable[[str, str | None], str]) -> _Command:
    @click.argument("reference", metavar="PIPELINE|URI")
    @click.option("--root", envvar=ROOT_ENVIRONMENT, show_envvar=True, metavar="URI", help=f"{_ROOT_HELP} {when}")
    @_place_options
    @functools.wraps(command)
    def wrapped(
        reference: str, root: str | None, branch: str, conf: tuple[str, ...], storage: tuple[str, ...], **rest: Any
    ) -> Any:
        place = root_for(reference, root)
        return command(target=_target(reference, place, branch, conf, storage), **rest)

    return wrapped  # type: ignore[return-value]


def _target(reference: str, root: str, branch: str, conf: Iterable[str], storage: Iterable[str]) -> Target:
    return Target(reference, root, branch, settings(conf), storage_options(storage))


def _root_for(reference: str, root: str | None) -> str:
    """Return the root that is needed beside a reference; none beside a repository's URI."""
    from .pipeline_or_repository import is_reference

    found = _root_if_given(reference, root)
    if is_reference(reference) and not found:
        raise missing_root()
    return found


def missing_root() -> click.MissingParameter:
    """Return the error of a command that needs --root and was given none."""
    context = click.get_current_context()
    (option,) = (one for one in context.command.params if one.name == "root")
    return click.MissingParameter(ctx=context, param=option)


def _root_if_given(reference: str, root: str | None) -> str:
    """Return the root beside a reference, which may be empty; none beside a repository's URI."""
    from .pipeline_or_repository import is_reference

    check_no_secrets(reference, "PIPELINE")
    context = click.get_current_context()
    if not is_reference(reference):
        if context.get_parameter_source("root") is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"found --root beside `{reference}`, which is no `module:name`, `path.py:name` or `path.py`; "
                "leave out --root if it is a repository's URI"
            )
        return ""
    return root or ""


def _refuse_repository(context: click.Context, _: click.Parameter | None, value: str) -> str:
    """Refuse a repository's URI for a command that needs code, before a missing --root is reported."""
    from .pipeline_or_repository import is_repository

    check_no_secrets(value, "PIPELINE")
    if is_repository(value):
        raise click.UsageError(
            f"`{context.command.name}` needs the pipeline's code: found `{value}`, expected `module:name`, "
            "`path.py:name` or `path.py`; a repository's URI suffices for commands that read nothing else, such as "
            "`state`",
            context,
        )
    return value


def _place_options(command: _Command) -> _Command:
    """Add the options that say which branch, settings and stores are used."""

    @click.option("--branch", default="main", show_default=True, metavar="NAME", help="Branch to use.")
    @conf_option
    @storage_option
    @functools.wraps(command)
    def wrapped(**rest: Any) -> Any:
        return command(**rest)

    return wrapped  # type: ignore[return-value]


def drive_options(command: _Command) -> _Command:
    """Add the options that say how batches run. The command receives a `Drive`."""

    @engine_option
    @click.option("--tasks", default="auto", show_default=True, metavar="N|auto", help="Number of tasks per batch.")
    @functools.wraps(command)
    def wrapped(engine: str, tasks: str, **rest: Any) -> Any:
        batch_time = rest.pop("batch_time", None)
        drive = Drive(
            engine=engine,
            batch_time=None if batch_time is None else point_in_time(batch_time),
            tasks=_tasks(tasks),
            max_batches=rest.pop("max_batches", None),
            time_budget_s=rest.pop("time_budget", None),
            accepted={name: rest.pop(name) for name in _ACCEPTED if name in rest},
        )
        return command(drive=drive, **rest)

    return wrapped  # type: ignore[return-value]


def batch_time_option(command: _Command) -> _Command:
    """Add `--batch-time`. Apply it above `drive_options`, which puts it into the `Drive`."""
    return click.option(
        "--batch-time",
        metavar="MS|ISO",
        help="Processing time of these batches. Cannot move backwards. Default: the pipeline's rule.",
    )(command)


def drain_options(command: _Command) -> _Command:
    """Add the limits of a drain. Apply it above `drive_options`, which puts them into the `Drive`."""
    command = click.option("--max-batches", type=click.IntRange(min=1), metavar="N", help="Stop after N batches.")(
        command
    )
    return click.option("--time-budget", type=click.FloatRange(min=0), metavar="SECONDS",
                        help="Start no further batch after this many seconds.")(command)  # fmt: skip


def accept_options(command: _Command) -> _Command:
    """Add the flags that accept a risk. Apply it above `drive_options`, which puts them into the `Drive`."""
    for name, text in reversed(_ACCEPTED.items()):
        command = click.option(f"--{_FLAGS.get(name, name).replace('_', '-')}", name, is_flag=True, help=text)(command)
    return command


class VersionType(click.ParamType):  # type: ignore[type-arg]
    """A version: a number, or a tag. A number becomes an int."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return a number as an int and anything else as it is, because only the repository knows its tags."""
        del param, ctx
        number = whole_number(str(value))
        return str(value) if number is None else number


VERSION = VersionType()


class LocalPath(click.Path):
    """A path on this machine. A URL with a secret in its place is an error that does not repeat it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        check_no_secrets(os.fspath(value), "a path on this machine" if param is None else param.get_error_hint(ctx))
        return super().convert(value, param, ctx)


def pairs(texts: Iterable[str], option: str) -> list[tuple[str, str]]:
    """Parse `k=v` texts into pairs. An error does not show the text, because it may be a secret."""
    found = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} expects NAME=VALUE")
        found.append((key.strip(), value))
    return found


def settings(texts: Iterable[str]) -> dict[str, str]:
    """Return the settings of the environment, overridden by those of the command line."""
    found = _json_of_environment(CONF_ENVIRONMENT, _CONF_SHAPE)
    if not all(isinstance(value, str) for value in found.values()):
        raise click.UsageError(f"{CONF_ENVIRONMENT} is not valid: expected JSON of the form {_CONF_SHAPE}")
    return found | dict(pairs(texts, "--conf"))


def storage_options(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the storage options of the environment, overridden by those of the command line."""
    found = _storage_of_environment()
    for name, value in pairs(texts, "--storage-option"):
        section, dot, key = name.partition(".")
        if not dot or not key:
            raise click.UsageError(
                f"--storage-option expects SECTION.KEY=VALUE, for example root.endpoint_url=…; found `{name}`"
            )
        found.setdefault(section, {})[key] = value
    return found


def _storage_of_environment() -> dict[str, dict[str, Any]]:
    found = _json_of_environment(STORAGE_ENVIRONMENT, _STORAGE_SHAPE)
    if not all(isinstance(section, dict) for section in found.values()):
        raise click.UsageError(f"{STORAGE_ENVIRONMENT} is not valid: expected JSON of the form {_STORAGE_SHAPE}")
    return {name: dict(section) for name, section in found.items()}


def _json_of_environment(variable: str, shape: str) -> dict[str, Any]:
    """Return the JSON object of a variable, or an empty one. The error does not show the text."""
    text = os.environ.get(variable)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise click.UsageError(f"{variable} is not valid: expected JSON of the form {shape}")
    return found


def point_in_time(text: str) -> int | str:
    """Return ms since the epoch as a number, or the text unchanged. The callee checks that it is ISO 8601."""
    number = whole_number(text)
    return text if number is None else number


def _tasks(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    number = whole_number(text)
    if number is not None and number > 0:
        return number
    raise click.UsageError(f"--tasks expects `auto` or a whole number of at least 1, found `{text}`")

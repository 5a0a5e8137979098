"""A call of the command line and its outcome, as values. Checks arguments; starts no process, imports no Airflow.

INVARIANT: a command contains no secret, because every user of the machine can read its arguments.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ..errors import InvalidInput
from ..names import ENGINES, check_name
from ..spelling import unknown

Event = Mapping[str, Any]
"""One JSON line of the command: `event` is `progress`, `result` or `error`."""


STORAGE_ENVIRONMENT = "TIDEMILL_STORAGE_OPTIONS"
"""The environment variable from which the command line reads storage options, as JSON."""


class Exit(IntEnum):
    """The exit statuses of the command line."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOTHING = 3
    FENCED = 4


@dataclass(frozen=True)
class Command:
    """One call of `tidemill VERB PIPELINE --root ROOT …`. Options that are None or empty are omitted."""

    verb: str
    pipeline: str
    root: str
    options: Mapping[str, object] = field(default_factory=dict)
    conf: Mapping[str, object] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """Return the arguments of `tidemill`, always with `--json`."""
        arguments = [self.verb, self.pipeline, "--root", self.root, "--json"]
        for name, value in self.options.items():
            if value is not None and value != "":
                arguments += [f"--{name.replace('_', '-')}", str(value)]
        for key, value in self.conf.items():
            arguments += ["--conf", f"{key}={_text(value)}"]
        return arguments


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command: its exit status (negative: the signal that killed it) and the events it wrote.

    `ended` is the reason why this process stopped the command early, or None.
    """

    status: int
    result: Event | None = None
    error: Event | None = None
    versions: tuple[int, ...] = ()
    last_lines: tuple[str, ...] = ()
    ended: str | None = None

    @property
    def not_installed(self) -> bool:
        """Whether the interpreter failed because Tidemill is not installed in it, by its own error message."""
        said = self.last_lines[-1:] if self.status == Exit.FAILED and self.error is None else ()
        return any(line.endswith(": No module named tidemill") for line in said)


def check_pipeline(reference: str) -> str:
    """Return `reference` if it has the form `module:name` or `path.py:name`, else raise `InvalidInput`."""
    place, colon, name = reference.rpartition(":") if isinstance(reference, str) else ("", "", "")
    if colon and place and name.isidentifier():
        return reference
    raise InvalidInput(
        f"invalid pipeline reference `{reference}`: expected a string, `module:name` or `path.py:name`",
        hint="for example `pipelines/retail.py:p`",
    )


def check_root(root: str | os.PathLike[str]) -> str:
    """Return `root` if it is a URI or an absolute path, else raise `InvalidInput`.

    A relative path would depend on the working directory of the Airflow worker.
    """
    if not isinstance(root, str | os.PathLike):
        raise InvalidInput(f"root is {root!r}: expected a string, a URI (`s3://bucket/prefix`) or an absolute path")
    root = os.fspath(root)
    if "://" in root or os.path.isabs(root):
        return root
    raise InvalidInput(
        f"root `{root}` is relative: expected a URI (`s3://bucket/prefix`, `file:///dir`) or an absolute path"
    )


def check_engine(engine: str | None) -> str | None:
    """Return `engine` if it is None, a template or the name of an engine, else raise `InvalidInput`."""
    if engine is None or is_template(engine) or engine in ENGINES:
        return engine
    raise unknown("engine", str(engine), ENGINES)


def check_limit(what: str, limit: object, kind: type[int] | type[float], least: int) -> None:
    """Raise `InvalidInput` unless `limit` is a number of at least `least`, as a number or text. None means no limit."""
    if limit is None or is_template(limit):
        return
    try:
        number = kind(str(limit))
    except ValueError:
        number = -1
    if not number >= least:
        number_kind = "whole number" if kind is int else "number of seconds"
        raise InvalidInput(f"{what} is {limit!r}: expected a {number_kind} of at least {least}, or None for no limit")


def check_mapping(what: str, value: object, example: str) -> None:
    """Raise `InvalidInput` unless `value` is a mapping or None. The message shows no values; they may be secret."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInput(f"{what} is a {type(value).__name__}: expected a mapping, such as `{example}`")


def check_storage_options(value: object) -> None:
    """Raise `InvalidInput` unless `value` maps section names to mappings, or is None."""
    example = '{"root": {"endpoint_url": "https://…"}, "source": {…}, "sink": {…}}'
    check_mapping("storage_options", value, example)
    for section, options in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(options, Mapping):
            raise InvalidInput(
                f"section `{section}` of storage_options is a {type(options).__name__}: expected a mapping, such as "
                f"`{example}`"
            )


def is_template(value: object) -> bool:
    """Whether the value is a template, which Airflow renders only when the task runs."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def default_name(reference: str) -> str:
    """Return the default name of a pipeline: the stem of its file, or the last part of its module."""
    place = check_pipeline(reference).rpartition(":")[0]
    stem = os.path.basename(place).removesuffix(".py") if place.endswith(".py") else place.rpartition(".")[2]
    return check_name(stem.replace("_", "-").lower(), "pipeline")


def locate(reference: str, folder: str) -> str:
    """Resolve a relative path in `reference` against `folder`. A module stays as it is."""
    place, _, name = check_pipeline(reference).rpartition(":")
    if not place.endswith(".py") or os.path.isabs(place):
        return reference
    return f"{os.path.normpath(os.path.join(folder, place))}:{name}"


def merged(*lists: Sequence[int]) -> tuple[int, ...]:
    """Return all versions of `lists`, without duplicates, in ascending order."""
    return tuple(sorted({version for versions in lists for version in versions}))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)

"""The command line as values: what to run, and what came of it.

No process is started here and nothing of Airflow is known. INVARIANT: a command holds no secret: whatever is
in it can be read by everybody on the machine.
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
"""Where the command line takes storage options from, as JSON."""


class Exit(IntEnum):
    """The exit statuses of the command line."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOTHING = 3
    FENCED = 4


@dataclass(frozen=True)
class Command:
    """One call of `tidemill VERB PIPELINE --root ROOT …`. Options that are None are left out."""

    verb: str
    pipeline: str
    root: str
    options: Mapping[str, object] = field(default_factory=dict)
    conf: Mapping[str, object] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """What follows the word `tidemill`; always with `--json`."""
        arguments = [self.verb, self.pipeline, "--root", self.root, "--json"]
        for name, value in self.options.items():
            if value is not None and value != "":
                arguments += [f"--{name.replace('_', '-')}", str(value)]
        for key, value in self.conf.items():
            arguments += ["--conf", f"{key}={_text(value)}"]
        return arguments


@dataclass(frozen=True)
class Outcome:
    """What came of a command: exit status (negative: the signal that ended it) and the events it wrote.

    `ended` says why this side ended the command before it was done, and is None where it did not.
    """

    status: int
    result: Event | None = None
    error: Event | None = None
    versions: tuple[int, ...] = ()
    last_lines: tuple[str, ...] = ()
    ended: str | None = None

    @property
    def not_installed(self) -> bool:
        """Whether the interpreter ended at once, because it has no Tidemill: in its own words, and no others."""
        said = self.last_lines[-1:] if self.status == Exit.FAILED and self.error is None else ()
        return any(line.endswith(": No module named tidemill") for line in said)


def check_pipeline(reference: str) -> str:
    """`reference` if it has the form `module:name` or `path.py:name`, else `InvalidInput`."""
    place, colon, name = reference.rpartition(":") if isinstance(reference, str) else ("", "", "")
    if colon and place and name.isidentifier():
        return reference
    raise InvalidInput(
        f"pipeline reference `{reference}` is not understood: expected text, `module:name` or `path.py:name`",
        hint="for example `pipelines/retail.py:p`",
    )


def check_root(root: str | os.PathLike[str]) -> str:
    """`root` if it is a URI or an absolute path, else `InvalidInput`: a worker's folder is nobody's choice."""
    if not isinstance(root, str | os.PathLike):
        raise InvalidInput(f"root is {root!r}: expected a URI (`s3://bucket/prefix`) or an absolute path, as text")
    root = os.fspath(root)
    if "://" in root or os.path.isabs(root):
        return root
    raise InvalidInput(
        f"root `{root}` is relative: expected a URI (`s3://bucket/prefix`, `file:///dir`) or an absolute path"
    )


def check_engine(engine: str | None) -> str | None:
    """`engine` if there is one of that name, or a template makes it one, or None, else `InvalidInput`."""
    if engine is None or is_template(engine) or engine in ENGINES:
        return engine
    raise unknown("engine", str(engine), ENGINES)


def check_limit(what: str, limit: object, kind: type[int] | type[float], least: int) -> None:
    """`InvalidInput` for a limit that is no such number, nor one as text, or too small; None is no limit."""
    if limit is None or is_template(limit):
        return
    try:
        number = kind(str(limit))
    except ValueError:
        number = -1
    if not number >= least:
        expected = f"a {'whole number' if kind is int else 'number of seconds'} from {least} on, or None for no limit"
        raise InvalidInput(f"{what} is {limit!r}: expected {expected}")


def check_mapping(what: str, value: object, example: str) -> None:
    """`InvalidInput` for what is no mapping; None is an empty one. Values are not shown: some are secret."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInput(f"{what} is a {type(value).__name__}: expected a mapping, such as `{example}`")


def check_storage_options(value: object) -> None:
    """`InvalidInput` for what is no mapping of sections, each of them a mapping."""
    example = '{"root": {"endpoint_url": "https://…"}, "source": {…}, "sink": {…}}'
    check_mapping("storage_options", value, example)
    for section, options in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(options, Mapping):
            raise InvalidInput(
                f"section `{section}` of storage_options is a {type(options).__name__}: expected a mapping, such as "
                f"`{example}`"
            )


def is_template(value: object) -> bool:
    """Whether Airflow makes the value when the task runs, so that nothing is known of it before."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def default_name(reference: str) -> str:
    """What a pipeline is called by its reference: the file's stem or the last part of the module."""
    place = check_pipeline(reference).rpartition(":")[0]
    stem = os.path.basename(place).removesuffix(".py") if place.endswith(".py") else place.rpartition(".")[2]
    return check_name(stem.replace("_", "-").lower(), "pipeline")


def locate(reference: str, folder: str) -> str:
    """`reference` with a relative path made absolute below `folder`; a module stays as it is."""
    place, _, name = check_pipeline(reference).rpartition(":")
    if not place.endswith(".py") or os.path.isabs(place):
        return reference
    return f"{os.path.normpath(os.path.join(folder, place))}:{name}"


def merged(*lists: Sequence[int]) -> tuple[int, ...]:
    """All versions of `lists`, each once, ascending."""
    return tuple(sorted({version for one in lists for version in one}))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)

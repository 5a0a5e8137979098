"""A call of the command line and its outcome, as values. Starts no process and imports no Airflow.

INVARIANT: a command contains no setting and no secret, because every user of the machine can read its arguments. These
are in its environment.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ...errors import Exit
from ...names import CONF_ENVIRONMENT, STORAGE_ENVIRONMENT
from ...values import dataclass
from .checks import is_absent

Event = Mapping[str, Any]
"""One JSON line of the command: `event` is `earlier`, `progress`, `result` or `error`."""
EVENTS = ("earlier", "progress", "result", "error")

_YES, _NO = ("True", "true"), ("False", "false")
"""Texts of flags. A flag itself is compared by identity, because 0 and 1 equal False and True."""

TEXTS = frozenset({"branch", "engine", "expect", "reason"})
"""Options of all verbs that take a value, whatever the value looks like."""


@dataclass(frozen=True)
class Command:
    """One call of `tidemill VERB --root=ROOT … -- PIPELINE OPERANDS…`, in the folder `cwd`.

    Absent options are omitted: None, empty, and the text `None`, into which Airflow renders a null parameter. An
    option that is true becomes a flag, and a list becomes one option for each item.
    """

    verb: str
    pipeline: str
    root: str
    options: Mapping[str, object] = field(default_factory=dict)
    conf: Mapping[str, object] = field(default_factory=dict)
    storage_options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    cwd: str | None = None
    operands: Sequence[str] = ()
    texts: frozenset[str] = TEXTS
    """Options that take a value, so that none of them becomes a flag."""

    def arguments(self) -> list[str]:
        """Return the arguments of `tidemill`, always with `--json`."""
        arguments = [self.verb, f"--root={self.root}", "--json"]
        for name, value in self.options.items():
            option = f"--{name.replace('_', '-')}"
            for one in value if isinstance(value, list | tuple) else [value]:
                if name in self.texts and not is_absent(one):
                    arguments.append(f"{option}={one}")
                elif one is True or one in _YES:
                    arguments.append(option)
                elif not is_absent(one) and one is not False and one not in _NO:
                    arguments.append(f"{option}={one}")
        return [*arguments, "--", self.pipeline, *self.operands]

    def environment(self) -> dict[str, str]:
        """Return the environment variables that hand over settings and storage options."""
        found = {}
        if self.conf:
            conf = {key: _text(value) for key, value in self.conf.items() if not is_absent(value)}
            found[CONF_ENVIRONMENT] = json.dumps(conf)
        if self.storage_options:
            found[STORAGE_ENVIRONMENT] = json.dumps(self.storage_options)
        return found


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command: its exit status (negative: the signal that killed it) and the events it wrote.

    `earlier` are the versions that earlier tries of the task committed. `ended` is the reason why this process stopped
    the command early, or None. `survivors` are processes that the kernel did not end.
    """

    status: int
    result: Event | None = None
    error: Event | None = None
    versions: tuple[int, ...] = ()
    earlier: tuple[int, ...] = ()
    last_lines: tuple[str, ...] = ()
    ended: str | None = None
    survivors: tuple[int, ...] = ()

    @property
    def not_installed(self) -> bool:
        """Whether the interpreter failed because Tidemill is not installed in it, by its own error message."""
        said = self.last_lines[-1:] if self.status == Exit.FAILED and self.error is None else ()
        return any(line.endswith(": No module named tidemill") for line in said)


def signal_name(number: int) -> str:
    """Return the name of a signal, also of a real-time signal, which Python does not name.

    >>> signal_name(9), signal_name(signal.SIGRTMIN + 3)
    ('SIGKILL', 'SIGRTMIN+3')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        first = getattr(signal, "SIGRTMIN", None)
        return f"signal {number}" if first is None or number < first else f"SIGRTMIN+{number - first}"


def merged(*lists: Sequence[int]) -> tuple[int, ...]:
    """Return all versions of `lists`, without duplicates, in ascending order."""
    return tuple(sorted({version for versions in lists for version in versions}))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)

"""What `verify` found: problems, and counts of what was looked at. `Findings` collects them.

INVARIANT: a problem names one object and one cause, so the same damage is reported once, however many records name it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ..errors import TidemillError
from ..notebook import NotebookResult
from ..values import dataclass

RESTORE = "restore the object from a backup; nothing is repaired silently"


@dataclass(frozen=True)
class Problem:
    """Damage of one object.

    `object` is its name in the repository, or the URI of a published file. `what` was found, and what was expected.
    `affects` says which versions or values cannot be relied on. `hint` is one action.
    """

    object: str
    what: str
    affects: str
    hint: str


@dataclass(frozen=True)
class VerifyReport(NotebookResult):
    """What `verify` looked at, and what is wrong. `problems` is empty if all is well.

    `commits`, `objects`, `bytes` count commits and the objects that they name. `published` counts published files that
    were found in the places of sinks. `unnamed` counts objects that no record names: leftovers of runs that died, which
    are harmless. `deep`: whether every byte was read. `forgotten_keys` counts the keys that were looked for; None: that
    was not asked. `unsearched` are the sinks whose files were not searched, because no `forget` named their columns.
    """

    problems: list[Problem]
    commits: int
    objects: int
    bytes: int
    published: int
    unnamed: int
    deep: bool
    forgotten_keys: int | None = None
    unsearched: list[str] = field(default_factory=list)

    def in_notebook(self) -> dict[str, Any]:
        """Return the counts, and each problem in a line."""
        problems = [f"{one.object}: {one.what}" for one in self.problems]
        return {**vars(self), "problems": problems or "none"}


@dataclass
class Findings:
    """Problems in the order in which they were found."""

    problems: dict[tuple[str, str], Problem] = field(default_factory=dict)

    def add(self, name: str, what: str, affects: str, hint: str = RESTORE) -> None:
        """Take down a problem, unless it is known."""
        self.problems.setdefault((name, what), Problem(name, what, affects, hint))

    def unless_known(self, name: str, affects: str) -> contextlib.AbstractContextManager[None]:
        """Take down an error that is raised in the block, unless the object has a problem already."""
        is_known = any(known == name for known, _ in self.problems)
        return contextlib.suppress(TidemillError) if is_known else self.of(name, affects)

    @contextlib.contextmanager
    def of(self, name: str, affects: str) -> Iterator[None]:
        """Take down an error that is raised in the block as a problem of the object `name`."""
        try:
            yield
        except TidemillError as error:
            self.add(name, error.message, affects, error.hint or RESTORE)

"""Which code made a commit: the pipeline's reference, Tidemill's version, and digests of functions and definitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from ..counts import noun_with_names
from ..installed import version_of_tidemill
from ..pipeline.definition import described_function
from ..protocol.history import effective
from ..protocol.kinds import rules_of
from ..protocol.log import Log
from ..protocol.records import Commit
from ..values import dataclass
from .opened import Opened

LOG = logging.getLogger("tidemill")

DEFINITIONS = "definitions"
_KINDS = ("operators", "sinks")


def this_code(repo: Opened) -> dict[str, Any]:
    """Return the code of a pipeline as a commit records it."""
    functions: Mapping[str, tuple[Callable[..., Any], ...]] = repo.job.functions
    known: dict[str, Mapping[str, Any]] = {"operators": repo.job.operators, "sinks": repo.job.outputs}
    return {
        "reference": repo.reference,
        "tidemill": version_of_tidemill(),
        "functions": {name: [described_function(f) for f in found] for name, found in functions.items()},
        DEFINITIONS: {
            kind: {name: digest for name, digest in found.items() if name in known[kind]}
            for kind, found in repo.definitions.items()
        },
    }


@dataclass(frozen=True)
class OtherCode:
    """The operators and sinks whose rows this code makes in another way than a version did. See `definitions`."""

    version: int
    operators: list[str] = field(default_factory=list)
    sinks: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.operators or self.sinks)

    @property
    def names(self) -> str:
        """The operators and sinks, for a message. A sink that has the name of its operator is not repeated."""
        kinds = {"operator": self.operators, "sink": [name for name in self.sinks if name not in self.operators]}
        return ", ".join(noun_with_names(kind, names) for kind, names in kinds.items() if names)


def code_of(log: Log, commit: Commit | None) -> Mapping[str, Any]:
    """Return the code that ran last in the effective history of a version; empty if none did, or it is not known."""
    found = _ran_last(log, commit)
    return {} if found is None else found.code


def _ran_last(log: Log, commit: Commit | None) -> Commit | None:
    """Return the newest version in the effective history of a version that says which code made it."""
    if commit is None or DEFINITIONS in commit.code:
        return commit
    for version in reversed(list(effective(commit))):
        found = log.commit(version)
        if DEFINITIONS in found.code:
            return found
    return None


def promoted_code(branch: Opened, theirs: Commit) -> dict[str, Any]:
    """Return the code of a promotion: who promotes, and what the branch ran last."""
    ran = code_of(branch.log, theirs)
    said = {name: ran[name] for name in ("functions", DEFINITIONS) if name in ran}
    return {"reference": branch.reference, "tidemill": version_of_tidemill(), **said}


def other_code(repo: Opened, commit: Commit | None) -> OtherCode:
    """Return what this code defines in another way than the code that ran last up to a version. New names are left out.

    Nothing is reported for versions of a Tidemill that recorded no definitions.
    """
    version = -1 if commit is None else commit.version
    recorded = code_of(repo.log, commit).get(DEFINITIONS)
    if not isinstance(recorded, Mapping):
        return OtherCode(version)
    ours = repo.definitions
    found = {kind: _differing(recorded.get(kind, {}), ours[kind]) for kind in _KINDS}
    return OtherCode(version, **found)


def note_other_code(repo: Opened, head: Commit | None) -> None:
    """Log a warning if no batch has run since a promotion of a branch on which other code ran. The run goes on."""
    if head is None or rules_of(head).carries_out:
        return
    promoted = _ran_last(repo.log, head)
    if promoted is None or not rules_of(promoted).of_branch:
        return
    found = other_code(repo, promoted)
    if found:
        LOG.warning(
            "version %d promoted a branch on which other code ran than this; the difference is in %s. This run goes "
            "on. If you did not mean that, end it, and run with the code of the branch", promoted.version, found.names,
        )  # fmt: skip


def _differing(recorded: Mapping[str, str], ours: Mapping[str, str]) -> list[str]:
    return sorted(name for name, digest in ours.items() if recorded.get(name, digest) != digest)

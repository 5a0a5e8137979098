"""`Outlook`: what a replay has before it, known before it writes anything: versions that cannot be repeated, and work.

INVARIANT: a version that cannot be repeated is found before the first one is.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InvalidInput
from ..protocol.records import CARRIED_OUT, Commit, Counts
from .context import Context

NOTHING = ("void", "rewind", "compact")
"""The kinds that leave nothing to repeat: what they undid is not in the effective history, or they concern only sinks.
"""
REPEATED = (*CARRIED_OUT, "skip", "requeue")


def leaves_nothing(commit: Commit) -> bool:
    """Whether a commit leaves nothing to repeat. A rewind may have taken files out of the input."""
    return commit.kind in NOTHING and not commit.skipped


class Outlook:
    """The versions of a branch that a replay is going to repeat."""

    def __init__(self, source: Context) -> None:
        self._source = source
        self._after: dict[int, Counts] = {}

    def look(self, versions: Sequence[int]) -> None:
        """Read the commits of versions. `InvalidInput` for the first that cannot be repeated."""
        found: dict[int, Counts] = {}
        for version in versions:
            commit = self._source.log.commit(version)
            if commit.kind not in REPEATED and not leaves_nothing(commit) and not commit.skipped:
                raise InvalidInput(
                    f"replay version {version} of `{self._source.branch}`: a `{commit.kind}` cannot be repeated",
                    hint=f"replay from version {version + 1} on",
                )
            found[version] = commit.counts
        files = size = 0
        for version in reversed(versions):
            self._after[version] = Counts(input_files=files, input_bytes=size)
            files, size = files + found[version].input_files, size + found[version].input_bytes

    def after(self, version: int) -> Counts:
        """Return the input files and bytes of the versions after one, as they are recorded."""
        return self._after[version]

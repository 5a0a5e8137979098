"""What a replay of some operators takes as recorded although this code makes it otherwise. It is said, not refused.

A step that several operators share is such a case: the replayed ones get its new form through all their past, the
others keep what the old form made. Whether that matters only the user knows: a new column for one operator changes the
definition of all that read the same step, and the rows of none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ..counts import versions_of
from ..pipeline.part import Part
from ..protocol.records import VersionOf
from ..repo.code import DEFINITIONS
from ..repo.opened import Context
from ..repo.steps import Steps

LOG = logging.getLogger("tidemill")


@dataclass(frozen=True)
class LeftAlone:
    """An operator or sink that a replay takes as recorded, and in which versions other code made it.

    `feeds`: operators that are replayed read its output, and now get that of this code.
    """

    kind: str
    name: str
    versions: list[int]
    feeds: bool

    @property
    def message(self) -> str:
        """What the user should know."""
        what = f"{self.kind} `{self.name}` has other code than in {versions_of(self.versions)} but is not replayed"
        if self.kind == "sink":
            return f"{what}. Replay all operators if its rows would differ"
        read = "; replayed operators read what this code makes of it" if self.feeds else ""
        return f"{what}{read}. Add it to `--operators` if its results would differ"


def left_alone(context: Context, part: Part, steps: Steps, todo: Sequence[VersionOf]) -> list[LeftAlone]:
    """Return what the part does not compute, and this code makes in another way than the versions that are repeated."""
    ours = context.definitions
    computed = {"operators": part.chosen, "sinks": part.sinks}
    found: dict[tuple[str, str], list[int]] = {}
    for step in todo:
        recorded = steps.commit(step).code.get(DEFINITIONS, {})
        for kind, names in ours.items():
            for name in names.keys() - computed[kind]:
                if recorded.get(kind, {}).get(name, names[name]) != names[name]:
                    found.setdefault((kind, name), []).append(step.version)
    return [
        LeftAlone(kind.removesuffix("s"), name, versions, kind == "operators" and name in part.job.operators)
        for (kind, name), versions in sorted(found.items())
        if kind == "operators" or ("operators", name) not in found
    ]


def warn(found: Sequence[LeftAlone]) -> None:
    """Log what is left alone."""
    for one in found:
        LOG.warning("%s", one.message)

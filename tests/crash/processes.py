"""The processes of a drain while it runs, and those that outlive it, found in `/proc`.

INVARIANT: a process is identified by its pid and its start time, because the system reuses pids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One process. Its parent may change, and is not compared."""

    pid: int
    start_ticks: int
    name: str = field(compare=False)
    parent: int = field(compare=False)
    session: int = field(compare=False)


def living() -> set[Process]:
    """All processes but zombies."""
    return set(_living())


def family(leader: int) -> set[Process]:
    """Return the living processes of the session of `leader`, and all of their descendants."""
    everything = living()
    found = {one for one in everything if one.session == leader}
    while below := {one for one in everything if one.parent in {known.pid for known in found}} - found:
        found |= below
    return found


def _living() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            before, _, after = text.rpartition(")")
            state, parent, _, session, *rest = after.split()
            if state not in "ZX":
                yield Process(int(folder.name), int(rest[15]), before.partition("(")[2], int(parent), int(session))

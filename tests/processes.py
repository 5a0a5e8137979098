"""Facts about processes, read from `/proc`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def stat_of(pid: int) -> list[str]:
    """State, parent, group, session and so on: `/proc/<pid>/stat` behind the name, as text. An OSError where it is
    gone."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def parent(pid: int) -> int:
    """The process that made `pid`."""
    return int(stat_of(pid)[1])


def session_of(pid: int) -> int:
    """The process that leads the session of `pid`: of a command, the command."""
    return int(stat_of(pid)[3])


def in_session(leader: int) -> list[int]:
    """All processes of a session: a child stays in it, also when its parent has ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                found += [int(entry.name)] if session_of(int(entry.name)) == leader else []
    return found


def living(pids: list[int]) -> list[int]:
    """Those of `pids` that still run; a zombie does not."""

    def runs(pid: int) -> bool:
        try:
            return stat_of(pid)[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return [pid for pid in pids if runs(pid)]

"""A script that runs one program and ends everything that comes from it: `python -I -S reaper.py PARENT_PID COMMAND…`.

It adopts all descendants of the program whose own parents end, so none escapes. It prints the pid of the program, and
ends when no descendant is left. INVARIANT: on SIGTERM, or when the parent ends, it kills every descendant and then ends
itself, so that an interrupted test run leaves no process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def descendants(of: int) -> list[int]:
    """Return the pids of all processes below a process, from `/proc`."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", "rb") as status:
                children.setdefault(int(status.read().rpartition(b")")[2].split()[1]), []).append(int(entry))
    found, looked_at = [], [of]
    while looked_at:
        below = children.get(looked_at.pop(), [])
        found += below
        looked_at += below
    return found


def kill_all(*_: object) -> None:
    """Kill until nothing is left, because a process may fork while others are killed. Then exit."""
    while left := descendants(os.getpid()):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)
    os._exit(0)


def main(parent: int, command: list[str]) -> None:
    """Run the command and reap until no descendant is left."""
    signal.signal(signal.SIGTERM, kill_all)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit("the process that started the reaper has ended")
    started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2)
    sys.stdout.write(f"{started.pid}\n")
    sys.stdout.flush()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

"""Run as a script: ties the calling process to the life of its parent, then becomes the command given.

`python -I -S guard.py PARENT_PID COMMAND…`; standard library only, because it runs in any interpreter.
INVARIANT: when the process that started it ends, however it ends, the command is killed (Linux; elsewhere the
command is started all the same, and ends when it is told to).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PARENT_IS_GONE = 125


def die_with(parent_pid: int) -> None:
    """Ask the kernel to kill this process when its parent ends; ends at once where the parent already has."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # CRASH: a parent that ended before the call above sends no signal any more.
    if os.getppid() != parent_pid:
        sys.exit(_PARENT_IS_GONE)


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])

"""A script that makes a command end with its parent: `python -I -S guard.py PARENT_PID COMMAND…`.

It ties its own process to the parent and then executes the command in it. It uses only the standard library, because
it runs in any interpreter. INVARIANT: when the parent ends, for whatever reason, Linux kills the command. On other
systems the command runs without this guarantee.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_SIGKILL = 9
"""As a number, because the module `signal` takes a third of this script's time to import."""
_PARENT_IS_GONE = 125


def die_with(parent_pid: int) -> None:
    """Ask the kernel to kill this process when its parent ends. Exit at once if the parent has already ended."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # CRASH: if the parent ended before the call above, the kernel sends no signal, so check for it here.
    if os.getppid() != parent_pid:
        sys.exit(_PARENT_IS_GONE)


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])

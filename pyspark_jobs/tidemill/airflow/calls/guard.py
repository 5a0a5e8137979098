"""A script that makes a command end with its parent: `python -P guard.py PARENT_PID ARGUMENTS…`.

It ties its own process to the parent and then does what `python -m tidemill ARGUMENTS…` does, in the same interpreter,
because starting a second one takes time. Until then it uses only the standard library. INVARIANT: when the parent ends,
for whatever reason, Linux kills the command. On other systems the command runs without this guarantee.
"""

from __future__ import annotations

import ctypes
import os
import runpy
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


def run_tidemill() -> None:
    """Run the package as `python -m` does, with the same message if it is not installed."""
    try:
        runpy.run_module("tidemill", run_name="__main__", alter_sys=True)
    except ImportError as error:
        if error.name is not None:  # raised by an import, not by the search for the package
            raise
        sys.exit(f"{sys.executable}: {error}")


if __name__ == "__main__":
    die_with(int(sys.argv.pop(1)))
    run_tidemill()

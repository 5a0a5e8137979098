"""Server processes for tests: a free port, an end with the parent, a wait until they answer, and their end.

Only the standard library is imported, because a server may run in an environment of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def free_port() -> int:
    """Return a free port of 127.0.0.1. Another process may bind it before the caller does, who then tries again."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def die_with_parent(by: signal.Signals = signal.SIGKILL) -> None:
    """Let the kernel end this process when the one that started it dies. A program that replaces it keeps this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)


def answers(port: int) -> bool:
    """Whether something accepts connections on a port of 127.0.0.1."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def is_ready(process: subprocess.Popen[bytes], ready: Callable[[], bool], seconds: float) -> bool:
    """Wait until a server is `ready`. If it ends, or is not ready in time, it is ended, and the answer is False."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        if ready():
            return True
        time.sleep(0.05)
    if process.poll() is None:
        process.kill()
        process.wait()
    return False


def end(process: subprocess.Popen[bytes], seconds: float, by: signal.Signals = signal.SIGTERM) -> None:
    """End a server by a signal, and by SIGKILL if it takes too long."""
    if process.poll() is not None:
        return
    process.send_signal(by)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

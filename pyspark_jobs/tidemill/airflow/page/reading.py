"""The report of a repository for the page, by the command line in a process of its own.

A process of its own keeps the libraries and the memory of reading out of Airflow's API server, and can be ended.
INVARIANT: at most two run at once in a server, for at most a minute each. Other callers wait a while, and then get an
error.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

from ..calls.process import environment

_AT_ONCE = 2
PATIENCE_S = 20.0
"""How long a request waits for its turn."""
_TIMEOUT_S = 60.0
KEPT_S = 5.0
"""How long an answer is given again to those who ask for the same."""
_turns = threading.BoundedSemaphore(_AT_ONCE)
_kept: dict[tuple[str, ...], tuple[float, dict[str, Any]]] = {}
_lock = threading.Lock()


class ReportUnavailable(Exception):
    """The report cannot be made. `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def report_of(repository: str, branch: str, operator: str | None, key: str | None) -> dict[str, Any]:
    """Return the report of a branch of a repository, with the look-up of a key. `ReportUnavailable` if that fails."""
    asked = [repository, "--branch", branch]
    if key is not None:
        asked += ["--key", key, *(["--operator", operator] if operator else [])]
    known = _recent(tuple(asked))
    if known is not None:
        return known
    if not _turns.acquire(timeout=PATIENCE_S):
        raise ReportUnavailable(503, "too many reports are being made; try again in a moment")
    try:
        found = _recent(tuple(asked)) or _made(asked)  # another request may have made it meanwhile
    finally:
        _turns.release()
    with _lock:
        _kept[tuple(asked)] = time.monotonic(), found
    return found


def _recent(asked: tuple[str, ...]) -> dict[str, Any] | None:
    """Return a report that was made just now. Older ones are forgotten."""
    with _lock:
        for one in [one for one, (made, _) in _kept.items() if time.monotonic() - made > KEPT_S]:
            del _kept[one]
        return _kept[asked][1] if asked in _kept else None


def _made(asked: list[str]) -> dict[str, Any]:
    options = [f"{name}={value}" for name, value in zip(asked[1::2], asked[2::2], strict=True)]
    command = [sys.executable, "-P", "-m", "tidemill", "report", "--json", *options, "--", asked[0]]
    try:
        done = subprocess.run(
            command, env=environment(os.environ, {}), capture_output=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise ReportUnavailable(504, f"the report took longer than {_TIMEOUT_S:.0f} s") from error
    if done.returncode == 0:
        with contextlib.suppress(ValueError):
            found = json.loads(done.stdout)
            if isinstance(found, dict):
                return found
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    raise ReportUnavailable(502, "\n".join(lines[-2:]) or f"`tidemill report` ended with {done.returncode}")

"""The command line as a child process that never outlives its parent. Handles processes and pipes only.

INVARIANT: when `Child.run` returns or raises any exception, no process of the child's session is left, unless the
kernel did not end one in time; the outcome names those. When this process is killed, the kernel kills the child (see
`guard`), and Spark's JVM ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import stat
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...errors import InvalidInput
from . import guard
from .command import EVENTS, Command, Event, Outcome, merged
from .lines import LONGEST_TEXT, Levels, Lines

_POLL_S = 0.2
_GRACE_S = 3.0
"""Seconds from SIGTERM to SIGKILL. Airflow itself kills a task 5 s after it has asked it to end."""
_LINGER_S = 15.0
"""Seconds that processes of the command, such as a JVM, may take to shut down after the command has ended."""
_UNKILLABLE_S = 10.0
"""Seconds from SIGKILL until a process counts as unkillable, for example because it waits for a dead disk."""
_LAST_LINES = 20
_NOT_INHERITED = ("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_")
"""Airflow's own settings, such as the key that signs tokens, its connections and variables. `AIRFLOW_CTX_…`, which
commits record, stay."""


class Child:
    """One run of the command. Calls `on_event` for each JSON line, and `on_line` for every other line with its level.

    `python` is the interpreter that has tidemill installed. `env` overrides this process's environment. If `stall_s`
    seconds pass without a line and without an event, the command is ended.
    """

    def __init__(
        self,
        command: Command,
        on_event: Callable[[Event], None],
        on_line: Callable[[str, int], None],
        *,
        python: str | None = None,
        env: Mapping[str, str] | None = None,
        stall_s: float | None = None,
    ) -> None:
        self._command = command
        self._on_event = on_event
        self._on_line = on_line
        self._python = python or sys.executable
        self._env = environment(os.environ, {**(env or {}), **command.environment()})
        self._stall_s = float("inf") if stall_s is None else stall_s
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: str | None = None
        self._end_by = float("inf")
        self._heard_at = 0.0
        self._events: dict[str, Event] = {}
        self._versions: list[int] = []
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._survivors: tuple[int, ...] = ()

    @property
    def pid(self) -> int | None:
        """The process id of the command, which is also its session id. None before the start."""
        return None if self._process is None else self._process.pid

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that the command has reported as committed so far."""
        return merged(self._versions)

    def run(self) -> Outcome:
        """Start the command, pass its lines on until it ends, and return its outcome.

        Call it on a thread that lives at least as long as the command, because the kernel kills the command when the
        thread that started it ends.
        """
        supervisor = _supervisor()
        status = 0
        try:
            process = self._process = self._start()
            self._heard_at = time.monotonic()
            if self._ended is not None:
                self.end(self._ended)
            for _ in self._lines(process):
                if supervisor is not None and os.getppid() != supervisor:
                    self.end("the Airflow supervisor of this task has ended")
                if time.monotonic() - self._heard_at > self._stall_s:
                    self.end(f"it wrote no line and committed nothing for {self._stall_s:,.0f} s")
                if time.monotonic() > self._end_by:
                    break
        finally:
            status = self._finish()
        return self._outcome(status)

    def end(self, reason: str) -> None:
        """Ask the command to end; `run` enforces it. Safe in a signal handler, and safe to call repeatedly."""
        if self._ended is None:
            self._ended = reason
            self._end_by = time.monotonic() + _GRACE_S
        if self._process is not None and not _exited(self._process):
            _signal_group(self._process.pid, signal.SIGTERM)

    def _start(self) -> subprocess.Popen[bytes]:
        cwd = self._command.cwd
        if cwd is not None and not os.path.isdir(cwd):
            raise InvalidInput(
                f"cannot start the command in `{cwd}`: no such folder",
                hint="set `cwd=` to a folder that exists on the worker",
            )
        guarded = [self._python, "-P", os.path.abspath(guard.__file__), str(os.getpid())]
        try:
            return subprocess.Popen(
                [*guarded, *self._command.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise InvalidInput(
                f"cannot start `{self._python} -m tidemill`: {error.strerror}",
                hint="set `python=` to an interpreter that has Tidemill installed",
            ) from error

    def _lines(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """Pass on the lines of the command. Yield several times a second until both pipes are closed."""
        assert process.stdout is not None
        assert process.stderr is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, Lines(self._stdout(), has_events=True))
            selector.register(process.stderr, selectors.EVENT_READ, Lines(self._text()))
            while selector.get_map():
                for key, _ in selector.select(_POLL_S):
                    data = os.read(key.fd, 1 << 16)
                    self._heard_at = time.monotonic()
                    key.data.feed(data)
                    if not data:
                        selector.unregister(key.fileobj)
                if self._end_by == float("inf") and _exited(process):
                    self._end_by = time.monotonic() + _LINGER_S
                yield

    def _stdout(self) -> Callable[[str], None]:
        take_text = self._text()

        def take(line: str) -> None:
            event = _event(line)
            if event is None:
                take_text(line if len(line) <= LONGEST_TEXT else f"{line[:LONGEST_TEXT]} … (cut)")
            else:
                self._take_event(event)

        return take

    def _text(self) -> Callable[[str], None]:
        """Return the function that takes lines of text of one stream."""
        levels = Levels()

        def take(line: str) -> None:
            self._last_lines.append(line)
            self._on_line(line, levels.of(line))

        return take

    def _take_event(self, event: Event) -> None:
        self._events[str(event["event"])] = event
        if event["event"] != "earlier":
            own = [event.get("version")] if event["event"] == "progress" else []
            versions = event.get("versions") or own
            self._versions += [version for version in versions if isinstance(version, int)]
        self._on_event(event)

    def _finish(self) -> int:
        """End all remaining processes of the command's session, reap the command and return its exit status."""
        process = self._process
        if process is None:
            return 0
        self._survivors = _end_session(process, _GRACE_S if self._ended is None else 0)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        return -signal.SIGKILL if process.pid in self._survivors else process.wait()

    def _outcome(self, status: int) -> Outcome:
        earlier = self._events.get("earlier", {}).get("versions") or []
        return Outcome(
            status=status,
            result=self._events.get("result"),
            error=self._events.get("error"),
            versions=self.versions,
            earlier=merged([version for version in earlier if isinstance(version, int)]),
            last_lines=tuple(self._last_lines),
            ended=self._ended,
            survivors=self._survivors,
        )


def environment(ours: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command: that of this process without Airflow's secrets, and `more`.

    Spark's Python workers start in the command's folder, which has the DAG files. PYTHONSAFEPATH keeps these from
    hiding modules of Python, as `-P` does for the command itself.
    """
    kept = {name: value for name, value in ours.items() if not name.startswith(_NOT_INHERITED)}
    return {**kept, "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1", **more}


def _event(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and event.get("event") in EVENTS else None


def _supervisor() -> int | None:
    """Return the pid of Airflow's supervisor, or None outside Airflow. Under a supervisor, stdin is its socket."""
    try:
        return os.getppid() if stat.S_ISSOCK(os.fstat(0).st_mode) else None
    except OSError:
        return None


def _exited(process: subprocess.Popen[bytes]) -> bool:
    """Whether the command has ended. It is not reaped, so that the system cannot reuse its pid for another session."""
    if process.returncode is not None:
        return True
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return True


def _end_session(process: subprocess.Popen[bytes], grace_s: float) -> tuple[int, ...]:
    """Send SIGTERM if the command still runs, then SIGKILL to all remaining processes of its session.

    Return the processes that are still there ten seconds after the first SIGKILL.
    """
    if not _exited(process):
        _signal_group(process.pid, signal.SIGTERM)
        _wait_until(lambda: _exited(process), grace_s)
    give_up = time.monotonic() + _UNKILLABLE_S
    while left := _left(process):
        if time.monotonic() > give_up:
            return tuple(left)
        _signal_group(process.pid, signal.SIGKILL)
        # Spark's Python daemon has a process group of its own, in the same session.
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _wait_until(lambda: not _left(process), _POLL_S)
    return ()


def _left(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the living processes of the command's session, and the command itself if it has not ended."""
    return sorted({*_members(process.pid), *([] if _exited(process) else [process.pid])})


def _wait_until(done: Callable[[], bool], seconds: float) -> None:
    give_up = time.monotonic() + seconds
    pause = 0.001
    while not done() and time.monotonic() < give_up:
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _members(session: int) -> list[int]:
    """Return the living processes of a session, from `/proc`; an empty list on systems without `/proc`."""
    pids = []
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{entry}/stat", "rb") as status:
            state, _, _, session_id = status.read().rpartition(b")")[2].split()[:4]
            if int(session_id) == session and state not in (b"Z", b"X"):
                pids.append(int(entry))
    return pids

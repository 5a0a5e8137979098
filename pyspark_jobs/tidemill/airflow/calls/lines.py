"""From the bytes that a command writes to lines of a log: where they end, how long they are, and their level.

INVARIANT: memory is bounded. A line without an end is cut while it arrives.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

LONGEST_TEXT = 8192
"""Bytes of a line of text that are kept."""
LONGEST_EVENT = 64 * 1024**2
"""Bytes of a JSON line that are kept. A cut event would not be one."""
_BAR_S = 5.0
_ENDS = re.compile(rb"[\r\n]")


class Lines:
    """Splits bytes into lines, at `\\n` and at the `\\r` of progress bars, and passes them to `take`.

    Empty lines are dropped. Of the frames of a bar, one is passed every five seconds, and the last one always. A longer
    line than `longest` bytes is cut; `longest` is that of JSON if the line begins with `{` and `has_events` is set.
    """

    def __init__(self, take: Callable[[str], None], *, has_events: bool = False) -> None:
        self._take = take
        self._has_events = has_events
        self._rest = bytearray()
        self._cut = 0
        self._frame: str | None = None
        self._frame_at = float("-inf")

    def feed(self, data: bytes) -> None:
        """Add bytes. Empty `data` means the end, and the rest counts as a line."""
        start = 0
        for end in _ENDS.finditer(data):
            self._add(data[start : end.start()])
            self._finish(is_frame=end[0] == b"\r")
            start = end.end()
        self._add(data[start:])
        if not data:
            self._finish(is_frame=False)

    def _add(self, data: bytes) -> None:
        is_event = self._has_events and bytes(self._rest[:1] or data[:1]).startswith(b"{")
        room = max(0, (LONGEST_EVENT if is_event else LONGEST_TEXT) - len(self._rest))
        self._rest += data[:room]
        self._cut += len(data[room:])

    def _finish(self, is_frame: bool) -> None:
        text = self._rest.decode(errors="replace").rstrip()
        if self._cut:
            text += f" … ({self._cut:,} more bytes)"
        self._rest, self._cut = bytearray(), 0
        if is_frame:
            self._take_frame(text)
            return
        for line in (self._frame, text):
            if line:
                self._take(line)
        self._frame = None

    def _take_frame(self, text: str) -> None:
        if text and time.monotonic() - self._frame_at >= _BAR_S:
            self._frame, self._frame_at = None, time.monotonic()
            self._take(text)
        elif text:
            self._frame = text


_LEVELS = {
    "TRACE": logging.DEBUG, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING,
    "WARNING": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL, "CRITICAL": logging.CRITICAL,
}  # fmt: skip
_WORDS = "|".join(_LEVELS)
_LEADS = re.compile(rf"(?i:\[({_WORDS})\]|({_WORDS}):)")
_STAMPED = re.compile(rf"\[?\d{{2,4}}[-/]\d\d[-/]\d{{2,4}}[ T]\d\d:\d\d:\d\d\S*[\s-]+(?:\S+[\s-]+)?\[?({_WORDS})\b")
_FAILED = re.compile(
    r"(Traceback \(most recent call last\):|Exception in thread |(InvalidInput|StoreUnavailable|Fenced|CorruptState|"
    r"InternalError): |Usage: |Error: )"
)
_CONTINUES = re.compile(r"\s|hint: |text: |Caused by: |\w[\w.]*(Error|Exception|Interrupt|Exit)(: |$)")


class Levels:
    """Tells the level of each line of a stream: from the line itself, or from the message that it continues.

    It knows the form of Python's, Spark's and Tidemill's messages, and tracebacks. All other lines are INFO.
    """

    def __init__(self) -> None:
        self._level = logging.INFO

    def of(self, line: str) -> int:
        """Return the level of the next line."""
        found = _LEADS.match(line) or _STAMPED.match(line)
        if found is not None:
            self._level = _LEVELS[next(filter(None, found.groups())).upper()]
        elif _FAILED.match(line):
            self._level = logging.ERROR
        elif not _CONTINUES.match(line):
            self._level = logging.INFO
        return self._level

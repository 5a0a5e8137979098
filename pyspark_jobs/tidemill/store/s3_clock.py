"""The clock of an S3 server, learned from the `Date` of its answers. Sends no requests of its own.

INVARIANT: the time between two answers is measured by a clock that never jumps, so setting the machine's clock does
not move the server's time.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import Any


class ServerClock:
    """The date of the newest answer, and when it came. Safe for threads."""

    def __init__(self) -> None:
        self._seen: tuple[int, float] | None = None

    def watch(self, client: Any) -> None:
        """Note the date of every answer that the boto3 `client` gets, errors included."""
        client.meta.events.register("after-call.s3", self._after_call)

    def now_ms(self) -> int | None:
        """Return the server's time, or None before its first answer."""
        seen = self._seen
        if seen is None:
            return None
        date_ms, at = seen
        return date_ms + int((time.perf_counter() - at) * 1000)

    def _after_call(self, parsed: dict[str, Any], **_: object) -> None:
        date = parsed.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
        try:
            self._seen = int(parsedate_to_datetime(date).timestamp() * 1000), time.perf_counter()
        except ValueError:
            return  # a server that sends no valid date has no clock here

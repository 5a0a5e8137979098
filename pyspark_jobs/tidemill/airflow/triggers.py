"""Triggers: what a task waits for without a slot, in Airflow's triggerer.

They read the newest commit of a branch and need no code of the pipeline. INVARIANT: reads run in threads, so a slow
store delays no other trigger. A trigger has an absolute end and keeps nothing: after a restart of the triggerer it goes
on from its arguments.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from ..clock import now_ms
from ..errors import InvalidInput, StoreUnavailable, TidemillError
from ..spelling import unknown
from .waiting.heads import Heads

_DEFAULT_POLL_S = 60.0
AGAIN_MS = 15 * 60_000
"""Time after which a sweep is started again for a deadline that an earlier one did not fire."""
_MARGIN_MS = 1_000
"""Time by which a sweep starts after a deadline, because clocks of machines differ."""
_LEAST_IDLE_MS = 60_000


def _event(event: str, **fields: Any) -> TriggerEvent:
    return TriggerEvent({"event": event, **fields})  # type: ignore[no-untyped-call]


class HeadTrigger(BaseTrigger):
    """Waits until a condition on the head of a branch holds, or until `until_ms`. Subclasses say which condition.

    Its event is a mapping: `event` is "met", "until" or "error", and `message` of an error is for people. A store that
    cannot be reached is tried again.
    """

    def __init__(
        self,
        *,
        root: str,
        pipeline: str,
        branch: str = "main",
        options: Mapping[str, Any] | None = None,
        until_ms: int | None = None,
        poll_s: float = _DEFAULT_POLL_S,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.heads = Heads(root, pipeline, branch, options or {})
        self.until_ms = until_ms
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments of this trigger. Airflow stores them encrypted."""
        place = f"{type(self).__module__}.{type(self).__qualname__}"
        return place, {**self.heads.as_arguments(), "until_ms": self.until_ms, "poll_s": self.poll_s}

    def __repr__(self) -> str:
        """Name the branch. Airflow logs this text, so it has no storage options."""
        return f"<{type(self).__name__} of {self.heads!r}>"

    def wake_ms(self, head: Any) -> int | None:
        """Return the time from which the condition holds for this head; None: not before another commit."""
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait and yield one event."""
        while True:
            wake = None
            try:
                wake = self.wake_ms(await self.heads.read_aside())
            except StoreUnavailable as error:
                self.log.warning("%s", error)
            except TidemillError as error:
                yield _event("error", message=str(error))
                return
            now = now_ms()
            if wake is not None and wake <= now:
                yield _event("met")
                return
            if self.until_ms is not None and self.until_ms <= now:
                yield _event("until")
                return
            times = [one - now for one in (wake, self.until_ms) if one is not None]
            await asyncio.sleep(min([self.poll_s, *(time / 1000 for time in times)]))


class DueTrigger(HeadTrigger):
    """Waits until a sweep would fire something: until the earliest deadline by batch time is over.

    Deadlines by event time come with data, which the run that reads it handles. Only if a watermark has an `idle` time,
    which is `idle_ms`, a sweep may fire them; it is started once in that time.

    `swept_ms` is the time of the last sweep, and `swept` the version and deadline that it found and did not fire. These
    are tried again after 15 minutes only.
    """

    def __init__(
        self,
        *,
        swept_ms: int = 0,
        swept: list[int] | None = None,
        idle_ms: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.swept_ms = swept_ms
        self.swept = swept
        self.idle_ms = idle_ms

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments of this trigger."""
        place, arguments = super().serialize()
        return place, {**arguments, "swept_ms": self.swept_ms, "swept": self.swept, "idle_ms": self.idle_ms}

    def wake_ms(self, head: Any) -> int | None:
        """Return the time of the next sweep, or None if this head has no deadline that a sweep would fire."""
        if head is None:
            return None
        times = []
        batch = head.next_deadline.get("batch")
        if batch is not None:
            is_swept = self.swept == [head.version, batch]
            times.append(max(batch + _MARGIN_MS, self.swept_ms + AGAIN_MS if is_swept else 0))
        if self.idle_ms is not None and any(timer != "batch" for timer in head.next_deadline):
            times.append(self.swept_ms + max(self.idle_ms, _LEAST_IDLE_MS))
        return min(times, default=None)


class VersionTrigger(HeadTrigger):
    """Waits until the branch has committed `version` or a later one."""

    def __init__(self, *, version: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.version = version

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments of this trigger."""
        place, arguments = super().serialize()
        return place, {**arguments, "version": self.version}

    def wake_ms(self, head: Any) -> int | None:
        """Return 0 if the version is committed, else None."""
        return 0 if head is not None and head.version >= self.version else None


class WatermarkTrigger(HeadTrigger):
    """Waits until a watermark, or the least of all without `watermark`, is at `time_ms` or later."""

    def __init__(self, *, time_ms: int, watermark: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.time_ms = time_ms
        self.watermark = watermark

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments of this trigger."""
        place, arguments = super().serialize()
        return place, {**arguments, "time_ms": self.time_ms, "watermark": self.watermark}

    def wake_ms(self, head: Any) -> int | None:
        """Return 0 if the watermark is there, else None. `InvalidInput` if the head has no such watermark."""
        if head is None:
            return None
        if not head.watermarks:
            raise InvalidInput(
                f"pipeline `{self.heads.pipeline}` has no watermark", hint="wait for a version, or use withWatermark"
            )
        if self.watermark is not None and self.watermark not in head.watermarks:
            raise unknown("watermark", self.watermark, sorted(head.watermarks))
        found = min(head.watermarks.values()) if self.watermark is None else head.watermarks[self.watermark]
        return 0 if found >= self.time_ms else None

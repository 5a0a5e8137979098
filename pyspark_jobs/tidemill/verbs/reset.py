"""`reset`: set watermarks or the batch time to another value, for example after one row with a wrong time.

It is the only way in which either goes back. CRASH: one conditional create of a commit is the whole reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ..driver.bounds import check_batch_time, check_watermark
from ..driver.context import Context
from ..driver.correct import correct, required
from ..driver.identity import check_root
from ..errors import InvalidInput
from ..protocol.kinds import Changes
from ..protocol.records import Commit
from ..protocol.successor import Origin
from ..spelling import unknown
from ..units import time_ms

Time = int | str | datetime
Watermarks = Time | Mapping[str, Time]


@dataclass(frozen=True)
class Reset:
    """What `reset` would change, in ms: watermarks before and after, by name, and the batch time before and after."""

    watermarks: dict[str, tuple[int, int]]
    batch_time: tuple[int, int] | None


def reset(
    context: Context, watermark: Watermarks | None = None, batch_time: Time | None = None, reason: str = ""
) -> Commit:
    """Commit the new watermarks and batch time, and return the commit. `InvalidInput` without a change or a reason."""
    required("reset", reason)
    check_root(context)
    origin = context.origin(context.head())
    found = _changes(context, origin, watermark, batch_time)
    changes: Changes = {"reason": reason}
    if found.watermarks:
        before = origin.head.watermarks if origin.head is not None else {}
        changes["watermarks"] = {**before, **{name: after for name, (_, after) in found.watermarks.items()}}
    if found.batch_time is not None:
        changes["batch_time_ms"] = found.batch_time[1]
    return correct(context, origin, "reset", changes)


def planned(context: Context, watermark: Watermarks | None = None, batch_time: Time | None = None) -> Reset:
    """Return what `reset` would change. Writes nothing."""
    return _changes(context, context.origin(context.head()), watermark, batch_time)


def _changes(context: Context, origin: Origin, watermark: Watermarks | None, batch_time: Time | None) -> Reset:
    head, zone = origin.head, context.job.time_zone
    before = head.watermarks if head is not None else {}
    given = watermark if isinstance(watermark, Mapping) else dict.fromkeys(context.job.watermarks, watermark)
    marks: dict[str, tuple[int, int]] = {}
    for name, time in given.items():
        if name not in context.job.watermarks:
            raise unknown("watermark", str(name), list(context.job.watermarks))
        if time is not None:
            after = check_watermark(time_ms(time, zone), f"watermark `{name}`")
            marks[name] = (before.get(name, 0), after)
    times = None
    if batch_time is not None:
        tolerance = context.settings.batch_time_tolerance
        times = (
            0 if head is None else head.batch_time_ms,
            check_batch_time(time_ms(batch_time, zone), "batch_time", tolerance),
        )
    if watermark is not None and not given and not isinstance(watermark, Mapping):
        raise InvalidInput("reset: found a watermark, but this pipeline has none (`withWatermark`)")
    if (marks or times) and all(old == new for old, new in (*marks.values(), *([times] if times else []))):
        raise InvalidInput("reset: every watermark and batch time already has the given value, so nothing would change")
    if not marks and times is None:
        raise InvalidInput("reset: found neither a watermark nor a batch time, expected at least one of them")
    return Reset(marks, times)

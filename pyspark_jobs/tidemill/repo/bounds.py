"""The bounds of time: which batch times a plan may have, and how far the driver's clock may be off.

INVARIANT: a batch time out of bounds is refused before the plan is written, because no later batch could go back.
"""

from __future__ import annotations

from typing import Any

from ..clock import now_ms
from ..counts import noun_with_names
from ..errors import InvalidInput, StoreUnavailable
from ..protocol.bounds import FIRST_EVENT_MS, LAST_MS
from ..protocol.records import Commit, Plan
from ..store import Store
from ..units import check_unit, iso

MOST_SKEW_MS = 60_000
"""How far the driver's clock may be from that of the store. S3 reports its time in whole seconds."""


def check_batch_time(value_ms: Any, what: str, tolerance_ms: int) -> int:
    """Return a batch time. `InvalidInput` if it is before the epoch or too far after the clock; `what` gave it."""
    if isinstance(value_ms, bool) or not isinstance(value_ms, int):
        raise InvalidInput(f"{what} is {value_ms!r}, expected ms since the epoch as an int")
    now = now_ms()
    check_unit(value_ms, what, now)
    if value_ms < 0:
        raise InvalidInput(f"{what} is {value_ms} ms, which is before 1970")
    if value_ms > LAST_MS:
        raise InvalidInput(f"{what} is {value_ms} ms, expected a time before the year 10000")
    if value_ms > now + tolerance_ms:
        raise InvalidInput(
            f"{what} is {iso(value_ms)}, but the clock says {iso(now)}; batch time never goes back, so later batches "
            "would wait for it",
            hint="give an earlier time; or, if it is meant, raise the setting `tidemill.batch_time_tolerance`",
        )
    return value_ms


def check_watermark(value_ms: int, what: str) -> int:
    """Return a watermark. `InvalidInput` if it is in another unit, or not in the years 1 to 9999; `what` gave it."""
    check_unit(value_ms, what, now_ms())
    if not FIRST_EVENT_MS <= value_ms <= LAST_MS:
        raise InvalidInput(f"{what} is {value_ms} ms, expected a time in the years 1 to 9999")
    return value_ms


def check_planned(plan: Plan, head: Commit | None, tolerance_ms: int) -> None:
    """Raise `InvalidInput` for a plan with a time too far after our clock, before it is written or carried out.

    A batch time never falls, so if that of `head` is ahead, all later plans have it, and only `reset` helps.
    """
    now = now_ms()
    if plan.batch_time_ms <= now + tolerance_ms:
        return
    if head is not None and head.batch_time_ms > now + tolerance_ms:
        raise InvalidInput(
            f"plan {plan.number} cannot have a batch time before {iso(head.batch_time_ms)}, that of version "
            f"{head.version}, but the clock says {iso(now)}",
            hint=f"if a clock was ahead when version {head.version} was made, set the batch time back with "
            f"`tidemill reset --batch-time {iso(now)}`, which also ends a plan that is open" + _followed(head, now),
        )
    raise InvalidInput(
        f"plan {plan.number} has the batch time {iso(plan.batch_time_ms)}, but the clock says {iso(now)}",
        hint="if a clock was wrong when it was planned, abandon it with `tidemill replan`",
    )


def _followed(head: Commit, now: int) -> str:
    """Return advice for watermarks that are ahead, too: with `idle` they follow the batch time."""
    ahead = [name for name, at_ms in head.watermarks.items() if at_ms > now]
    return f"; --watermark sets back {noun_with_names('watermark', ahead)}, which may have followed it" if ahead else ""


def check_clock(store: Store) -> None:
    """Raise `StoreUnavailable` if this machine's clock differs too much from the store's. Sends no request."""
    theirs, ours = store.clock_ms(), now_ms()
    if theirs is not None and abs(theirs - ours) > MOST_SKEW_MS:
        raise StoreUnavailable(
            f"plan a batch: the clock of this machine says {iso(ours)}, that of `{store.uri}` {iso(theirs)}; they may "
            f"differ by at most {MOST_SKEW_MS // 1000} s, because batch times and arrivals are compared",
            hint="set the clock of this machine, for example with NTP",
        )

"""The watermark: how far event time has advanced, computed as in Spark.

Pure functions, no clock. INVARIANT: a watermark never falls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

START_MS = 0
"""W(-1): a watermark before any event, as in Spark."""


class _Rule(Protocol):
    """How a watermark moves. Some steps use the least of several watermarks; `peers` are the others of such a group."""

    @property
    def delay_ms(self) -> int:
        """The distance of the watermark from the greatest event time."""

    @property
    def idle_ms(self) -> int | None:
        """Time without events after which the watermark follows the batch time; None: never."""

    @property
    def peers(self) -> tuple[str, ...]:
        """Names of other watermarks."""


def before_batch(names: Iterable[str], known: Mapping[str, int]) -> dict[str, int]:
    """Return W(N-1) of each watermark, from those of the last commit. A new one starts at the least of them.

    So a watermark that moved to another column makes no timeout due, and no key that ended accepts rows again.

    >>> before_batch(["orders.sent"], {"orders.made": 9_000, "clicks.at": 7_000})
    {'orders.sent': 7000}
    """
    least = min(known.values(), default=START_MS)
    return {name: known.get(name, least) for name in names}


def after_batch(
    rules: Mapping[str, _Rule],
    before: Mapping[str, int],
    greatest: Mapping[str, int | None],
    active: Mapping[str, int],
    batch_time_ms: int,
) -> dict[str, int]:
    """Return W(N) of each watermark, from W(N-1), the greatest event times of batch N and its batch time.

    `active` is the batch time of the last batch with events for a watermark; it defaults to that of this batch. A
    watermark is idle if batch N has no events for it and `active` is at least `idle_ms` ago. An idle watermark rises to
    the batch time less its delay, and at least to the least of its peers that are not idle.
    """
    after = {n: advance(before.get(n, START_MS), greatest.get(n), rule.delay_ms) for n, rule in rules.items()}
    idle = {
        name
        for name, rule in rules.items()
        if rule.idle_ms is not None
        and greatest.get(name) is None
        and batch_time_ms - active.get(name, batch_time_ms) >= rule.idle_ms
    }
    followed = {}
    for name in idle:
        peers = min((after[peer] for peer in rules[name].peers if peer in after and peer not in idle), default=START_MS)
        followed[name] = max(after[name], batch_time_ms - rules[name].delay_ms, peers)
    return after | followed


def advance(watermark_ms: int, max_event_ms: int | None, delay_ms: int) -> int:
    """Return W(N) from W(N-1) and the greatest event time of batch N, which is None if the batch had no events.

    >>> advance(START_MS, 10_000, 3_000), advance(9_000, 10_000, 3_000), advance(9_000, None, 3_000)
    (7000, 9000, 9000)
    """
    return watermark_ms if max_event_ms is None else max(watermark_ms, max_event_ms - delay_ms)

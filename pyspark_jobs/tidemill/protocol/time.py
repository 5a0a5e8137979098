"""The watermark: how far event time has come, as Spark computes it.

Pure, and no clock. INVARIANT: a watermark never falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

START_MS = 0
"""W(−1): a watermark before any event, as in Spark."""


class Rule(Protocol):
    """How a watermark moves. `peers`: the watermarks that count together with it, by the least of them."""

    @property
    def delay_ms(self) -> int:
        """How far it stays behind the greatest event time."""

    @property
    def idle_ms(self) -> int | None:
        """After how long without event times it follows the batch time; None: never."""

    @property
    def peers(self) -> tuple[str, ...]:
        """Other watermarks by name."""


def after_batch(
    rules: Mapping[str, Rule],
    before: Mapping[str, int],
    greatest: Mapping[str, int | None],
    active: Mapping[str, int],
    batch_time_ms: int,
) -> dict[str, int]:
    """W(N) of each watermark, from W(N−1), the greatest event times of batch N and its time.

    `active`: the batch time of the last batch that had event times of it; a missing one is this batch's. Where batch N
    has none and that is at least `idle_ms` ago, the watermark is idle: it follows the batch time, less its delay, and
    does not stay behind the least of its peers that are not idle.
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
    """W(N) from W(N−1) and the greatest event time of batch N (None: it had none).

    >>> advance(START_MS, 10_000, 3_000), advance(9_000, 10_000, 3_000), advance(9_000, None, 3_000)
    (7000, 9000, 9000)
    """
    return watermark_ms if max_event_ms is None else max(watermark_ms, max_event_ms - delay_ms)

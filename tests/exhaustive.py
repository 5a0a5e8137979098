"""Whether long campaigns try every case, or the sample that fits into a run of CI.

`make exhaustive` sets the variable. A sample is the same in every run, so that a failure can be repeated.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Sequence
from typing import TypeVar

from tidemill.store.fault import BegunWrite

EXHAUSTIVE = bool(os.environ.get("TIDEMILL_EXHAUSTIVE"))

Case = TypeVar("Case")
Way = TypeVar("Way")


def some(cases: Sequence[Case], number: int) -> list[Case]:
    """Return all cases if the run is exhaustive; otherwise so many of them, in their order."""
    if EXHAUSTIVE or len(cases) <= number:
        return list(cases)
    return [cases[at] for at in sorted(random.Random(number).sample(range(len(cases)), number))]


def examples(number: int) -> int:
    """Return how many random examples a long property test tries: so many if the run is exhaustive.

    Otherwise a third of them, but not fewer than 20.
    """
    return number if EXHAUSTIVE else min(number, max(20, number // 3))


def failing(writes: Sequence[BegunWrite], ways: Sequence[Way], number: int) -> list[tuple[int, Way]]:
    """Return which writes fail, by their numbers from 1, and how: each in all ways if the run is exhaustive.

    Otherwise so many, the ways in turn. Most of them are creates, which decide what counts.
    """
    if EXHAUSTIVE:
        return list(itertools.product(range(1, len(writes) + 1), ways))
    creates = [at for at, write in enumerate(writes, 1) if write.verb == "create"]
    others = [at for at, write in enumerate(writes, 1) if write.verb != "create"]
    first = some(creates, max(number * 2 // 3, number - len(others)))
    chosen = sorted([*first, *some(others, number - len(first))])
    tried = zip(itertools.cycle(chosen), itertools.cycle(ways), strict=False)
    return list(dict.fromkeys(itertools.islice(tried, number)))

"""Whether long campaigns try every case, or the sample that fits into a run of CI.

`make exhaustive` sets the variable. A sample is the same in every run, so that a failure can be repeated.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

EXHAUSTIVE = bool(os.environ.get("TIDEMILL_EXHAUSTIVE"))

Case = TypeVar("Case")


def some(cases: Sequence[Case], number: int) -> list[Case]:
    """Return all cases if the run is exhaustive; otherwise so many of them, in their order."""
    if EXHAUSTIVE or len(cases) <= number:
        return list(cases)
    return [cases[at] for at in sorted(random.Random(number).sample(range(len(cases)), number))]

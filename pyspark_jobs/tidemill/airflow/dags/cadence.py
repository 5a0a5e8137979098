"""How often a schedule starts runs, and the retries that fit it.

INVARIANT: delays are fixed, because Airflow multiplies an exponential delay by up to two. So the documented delays are
the real ones.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

OFTEN = timedelta(minutes=5)
_PRESETS = {
    "@once": None,
    "@continuous": timedelta(0),
    "@hourly": timedelta(hours=1),
    "@daily": timedelta(days=1),
    "@weekly": timedelta(days=7),
    "@monthly": timedelta(days=28),
    "@quarterly": timedelta(days=90),
    "@yearly": timedelta(days=365),
}
_FEW: Mapping[str, Any] = {"retries": 1, "retry_delay": timedelta(seconds=15)}
_MORE: Mapping[str, Any] = {"retries": 3, "retry_delay": timedelta(minutes=2)}
_SEEN = 61
"""Ticks of a cron expression that are compared: all those of an hour."""


def retries_for(schedule: object) -> Mapping[str, Any]:
    """Return the retries for a schedule: one after 15 s if it is more frequent than every 5 minutes, else three.

    The three come after 2 minutes each. The next scheduled run of a frequent schedule is as good as a retry.
    """
    period = period_of(schedule)
    return _FEW if period is not None and period < OFTEN else _MORE


def period_of(schedule: object) -> timedelta | None:
    """Return the shortest time between two runs of a schedule, or None if it has none or this cannot tell.

    It knows a `timedelta`, cron expressions, and Airflow's timetables of both, also beside assets.
    """
    if isinstance(schedule, timedelta):
        return schedule
    if isinstance(schedule, str):
        return _PRESETS[schedule] if schedule in _PRESETS else _of_cron(schedule)
    if type(schedule).__name__ == "ContinuousTimetable":
        return timedelta(0)
    for name in ("delta", "expression", "timetable"):
        inner = getattr(schedule, name, None)
        if isinstance(inner, str | timedelta) or (name == "timetable" and inner is not None):
            return period_of(inner)
    periods = [period_of(one) for one in getattr(schedule, "timetables", None) or ()]
    return min((period for period in periods if period is not None), default=None)


@functools.cache
def _of_cron(expression: str) -> timedelta | None:
    from croniter import CroniterError, croniter

    try:
        ticks = croniter(expression, datetime(2024, 1, 1, tzinfo=UTC))
        times = [ticks.get_next(float) for _ in range(_SEEN)]
    except CroniterError:
        return None  # Airflow reports it
    return timedelta(seconds=min(later - earlier for earlier, later in itertools.pairwise(times)))

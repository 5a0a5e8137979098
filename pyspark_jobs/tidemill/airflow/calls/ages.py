"""How far a pipeline is behind: its ages, and which of them exceed their limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any


def ages_of(status: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the ages that limits are for, in seconds; None if nothing has that age."""
    return {
        "oldest_waiting_s": status.get("oldest_waiting_s"),
        "lag_s": max((one["now"] for one in status["watermark_lag_s"].values()), default=None),
        "head_age_s": status.get("since_commit_s"),
    }


def exceeded(ages: Mapping[str, float | None], limits: Mapping[str, float]) -> list[str]:
    """Return the limits that are exceeded, in words.

    >>> ages = {"oldest_waiting_s": 7300.0, "lag_s": None, "head_age_s": 5.0}
    >>> exceeded(ages, {"oldest_waiting": 3600, "lag": 1, "head_age": 9})
    ['the oldest waiting file is 2:01:40 old, allowed are 1:00:00']
    """
    words = {
        "oldest_waiting": "the oldest waiting file is {} old",
        "lag": "the watermark is {} behind now",
        "head_age": "the newest commit is {} old",
    }
    found = []
    for name, limit in limits.items():
        age = ages[f"{name}_s"]
        if age is not None and age > limit:
            said = words[name].format(timedelta(seconds=int(age)))
            found.append(f"{said}, allowed are {timedelta(seconds=limit)}")
    return found

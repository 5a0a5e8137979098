"""What tests of bad input share: code that counts rows by key, and a check of refused calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tidemill as tm
from tests.world import Build, World


def counting(*names: str, key: str = "k", **aggregates: Any) -> Build:
    """Return code that counts rows by key, or aggregates otherwise, in an operator of each name."""

    def build(p: tm.Pipeline, world: World) -> None:
        grouped = world.read(p).groupBy(key)
        for name in names:
            grouped.agg(**(aggregates or {"n": tm.count()}), name=name)

    return build


def refused(call: Callable[[], Any], *parts: str) -> None:
    with pytest.raises(tm.InvalidInput) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)

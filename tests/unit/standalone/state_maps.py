"""Helpers for tests of `tm.StateMap`: a map of numbers, and the whole content of a map."""

from __future__ import annotations

from typing import Any

import tidemill as tm


def numbers() -> tm.StateMap:
    return tm.StateMap("int", "int")


def whole(states: tm.StateMap) -> set[tuple[Any, Any, int]]:
    return set(states.get_all())

"""A test-only verb in one new file: counts the keys of an operator at a version."""

from __future__ import annotations

from tidemill.reading.read import state
from tidemill.repo.opened import Opened


def count_keys(context: Opened, operator: str, version: int | None = None) -> int:
    return state(context, operator, version, None, None, None, None).num_rows

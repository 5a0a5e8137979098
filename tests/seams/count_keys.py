"""A test-only verb in one new file: counts the keys of an operator at a version."""

from __future__ import annotations

from tidemill.reading.read import state
from tidemill.repo.opened import Opened


def count_keys(repo: Opened, operator: str, version: int | None = None) -> int:
    return state(repo, operator, version, None, None, None, None).num_rows

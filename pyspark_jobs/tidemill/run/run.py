"""`run` and `sweep`: process waiting files, and fire due timeouts."""

from __future__ import annotations

from typing import Any

from ..repo.opened import Opened
from .drain import Drain, Drained, Limits, OnProgress
from .engine import Choice


def run(repo: Opened, spark: Any, engine: str, limits: Limits, on_progress: OnProgress | None = None) -> Drained:
    """Publish the outputs that an earlier run left, process waiting files, then fire due timeouts."""
    return Drain(repo, Choice(repo, spark, engine, limits.tasks), limits, on_progress).run()


def sweep(repo: Opened, spark: Any, engine: str, limits: Limits, on_progress: OnProgress | None = None) -> Drained:
    """Fire due timeouts without reading input."""
    return Drain(repo, Choice(repo, spark, engine, limits.tasks), limits, on_progress).sweep()

"""A repository with three versions, to go back in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.shop import arrive, opened, world
from tests.world import World, run
from tidemill.cli.main import main


def three(folder: Path, **options: Any) -> tm.Repository:
    """Three batches of a file each: a, b, a."""
    arrive(folder, "a", "b")
    r = opened(folder, **options)
    run(r)
    world(folder).put("c", "a,1\n")
    run(r)
    return r


def function_of(folder: Path, fn: Any) -> tm.Repository:
    def build(p: tm.Pipeline, world: World) -> None:
        world.read(p).groupBy("k").agg(n=tm.count(), name="counts").foreachBatch(fn, name="calls")

    return World(folder, build).open()


def command(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main([*arguments, "--root", "root"])
    shown = capfd.readouterr()
    return status, shown.out, shown.err

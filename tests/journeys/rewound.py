"""A repository with three versions, to go back in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.shop import arrive, opened
from tests.world import run
from tidemill.cli.main import main


def totals(r: tm.Repository, version: int | str | None = None) -> dict[str, int]:
    table = r.state("counts", version=version)
    return dict(zip(table["k"].to_pylist(), table["n"].to_pylist(), strict=True))


def three(folder: Path, **options: Any) -> tm.Repository:
    """Three batches of a file each: a, b, a."""
    arrive(folder, "a", "b")
    r = opened(folder, **options)
    run(r)
    (folder / "in" / "c.csv").write_text("a,1\n")
    run(r)
    return r


def function_of(folder: Path, fn: Any) -> tm.Repository:
    p = tm.Pipeline("shop")
    rows = p.read(tm.Files(str(folder / "in"), format="csv", schema="k string, v int", maxFilesPerTrigger=1))
    rows.groupBy("k").agg(n=tm.count(), name="counts").foreachBatch(fn, name="calls")
    r = tm.open(p, root=str(folder / "root"))
    r.init()
    return r


PIPELINE = """
import tidemill as tm
p = tm.Pipeline("shop")
rows = p.read(tm.Files("in", format="csv", schema="k string, v int", maxFilesPerTrigger=1))
rows.groupBy("k").agg(n=tm.count(), name="counts").write(tm.Json("out"))
"""


def command(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main([*arguments, "--root", "root"])
    shown = capfd.readouterr()
    return status, shown.out, shown.err

"""Four corrections of a shop, and what tests of what was agreed to, and of tries before, start from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.cli.main import main

Call = Callable[..., Any]
ACTS: dict[str, Call] = {
    "rewind": lambda r, **how: r.rewind(0, "why", **how),
    "skip": lambda r, **how: r.skip("bad.csv", "why", **how),
    "replan": lambda r, **how: r.replan("why", **how),
    "reset": lambda r, **how: r.reset(batch_time="2020-01-01T00:00:00Z", reason="why", **how),
}


def stored(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (folder / "root").rglob("*") if path.is_file()}


def versions(r: tm.Repository) -> list[tuple[int, str]]:
    return [(commit.version, commit.kind) for commit in r.commits()]


def called(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    capfd.readouterr()
    status = main(list(arguments))
    out, err = capfd.readouterr()
    return status, json.loads(out.splitlines()[-1]) if out else {}, err

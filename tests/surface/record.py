"""Writes what users and storage see of Tidemill to `recorded/`: `python -m tests.surface.record`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.surface import scenario, seen

RECORDED = Path(__file__).parent / "recorded"


def everything() -> Mapping[str, str]:
    """Return the recorded texts by the names of their files."""
    with tempfile.TemporaryDirectory() as folder:
        printed, objects = scenario.run(Path(folder))
    return {
        "help.txt": seen.helps(),
        "signatures.txt": seen.signatures(),
        "airflow.txt": seen.airflow(),
        "printed.txt": printed,
        "stored.txt": objects,
    }


if __name__ == "__main__":
    RECORDED.mkdir(exist_ok=True)
    for name, text in everything().items():
        (RECORDED / name).write_text(text, encoding="utf-8")

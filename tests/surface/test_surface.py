"""What users and storage see of Tidemill is what was recorded. A change that is meant is recorded again.

`python -m tests.surface.record` writes the files again; what changed is then read in the diff.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import pytest

from tests.surface.record import RECORDED, everything

NAMES = sorted(file.name for file in RECORDED.iterdir())


@pytest.fixture(scope="module")
def seen_now() -> Mapping[str, str]:
    return everything()


def test_every_file_is_compared(seen_now: Mapping[str, str]) -> None:
    assert sorted(seen_now) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_is_as_recorded(name: str, seen_now: Mapping[str, str]) -> None:
    recorded = (RECORDED / name).read_text(encoding="utf-8")
    differences = list(difflib.unified_diff(recorded.splitlines(), seen_now[name].splitlines(), "recorded", "now", n=2))
    assert not differences, "\n".join([*differences, "if this is meant: python -m tests.surface.record"])

"""A process that changes its folder after it has opened a repository by a relative path."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidemill as tm
from tests.world import World, run


def test_a_relative_root_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    world = World(tmp_path)
    monkeypatch.chdir(tmp_path)
    r = tm.open(world.pipeline(), root="lake")
    r.init()
    for number, folder in enumerate((tmp_path, tmp_path / "other")):
        world.arrive("a,1\n")
        monkeypatch.chdir(folder)
        assert run(r) == [number]
    assert not (tmp_path / "other/lake").exists()

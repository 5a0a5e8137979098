"""A process that changes its folder after it has opened a repository by a relative path."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidemill as tm


def test_a_relative_root_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "other").mkdir()
    p = tm.Pipeline("words")
    p.read(tm.Files(str(tmp_path / "in"), format="csv", schema="k string, n int")).groupBy("k").agg(n=tm.sum("n"))
    monkeypatch.chdir(tmp_path)
    r = tm.open(p, root="lake")
    r.init()
    for number, folder in enumerate((tmp_path, tmp_path / "other")):
        (tmp_path / f"in/{number}.csv").write_text("a,1\n")
        monkeypatch.chdir(folder)
        r.run(engine="local")
        assert r.head is not None and r.head.version == number
    assert not (tmp_path / "other/lake").exists()

"""A file of the input that this user may not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.sources import content


def test_an_unreadable_file_is_named_and_not_reported_as_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("k\na\n")
    p = tm.Pipeline("closed")
    p.read(tm.Files(str(tmp_path / "in"), format="csv", schema="k string", header=True)).groupBy("k").agg(n=tm.count())
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()

    def refused(*_: Any, **__: Any) -> Any:  # as root, who runs tests in containers, may read everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(content, "open", refused, raising=False)
    with pytest.raises(tm.StoreUnavailable, match=r"read `.*1\.csv` in .*: Permission denied") as caught:
        r.run(engine="local")
    assert caught.value.hint == "give this user access to the file"
    monkeypatch.undo()
    assert [one.numInputRows for one in r.run(engine="local")] == [1]

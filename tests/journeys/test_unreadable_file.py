"""A file of the input that this user may not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World
from tidemill.sources import content


def test_an_unreadable_file_is_named_and_not_reported_as_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, schema="k string", header=True)
    world.put("1", "k\na\n")
    r = world.open()

    def refused(*_: Any, **__: Any) -> Any:  # as root, who runs tests in containers, may read everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(content, "open", refused, raising=False)
    with pytest.raises(tm.StoreUnavailable, match=r"read `.*1\.csv` in .*: Permission denied") as caught:
        r.run(engine="local")
    assert caught.value.hint == "give this user access to the file"
    monkeypatch.undo()
    assert [one.numInputRows for one in r.run(engine="local")] == [1]

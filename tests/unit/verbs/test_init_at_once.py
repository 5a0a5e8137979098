"""An `init` beside another caller that creates the repository and runs the first batch meanwhile."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.store import Entry
from tidemill.store.memory import MemoryStore


def opened(folder: Path, root: str) -> tm.Repository:
    p = tm.Pipeline("at-once")
    rows = p.read(tm.Files(str(folder), format="csv", schema="k string"))
    rows.groupBy("k").agg(n=tm.count(), name="n")
    return tm.open(p, root=root)


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "a.csv").write_text("x\n")
    return f"memory://{uuid.uuid4().hex}"


def test_another_caller_that_creates_and_runs_meanwhile_is_no_loss(
    tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, acted = MemoryStore.list, []

    def listing(store: MemoryStore, prefix: str = "", start_after: str | None = None) -> Iterator[Entry]:
        if prefix == "branches/" and not acted:
            acted.append(prefix)
            other = opened(tmp_path, root)
            acted.append(other.init().uuid)
            other.run(engine="local")
        return real(store, prefix, start_after)

    monkeypatch.setattr(MemoryStore, "list", listing)
    found = opened(tmp_path, root).init()
    assert acted == ["branches/", found.uuid]
    assert opened(tmp_path, root).state().column("n").to_pylist() == [1]


def test_a_lost_init_record_is_still_refused(tmp_path: Path, root: str) -> None:
    repository: Any = opened(tmp_path, root)
    repository.init()
    repository.run(engine="local")
    repository.context.store.delete("refs/0000000000.json")
    repository.context.store.delete("refs/head.json")
    with pytest.raises(tm.CorruptState, match="shows that a repository was here"):
        opened(tmp_path, root).init()

"""An `init` beside another caller that creates the repository and runs the first batch meanwhile."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.protocol.entries import TagEntry
from tidemill.protocol.refs_log import RefsLog, position
from tidemill.repo import init
from tidemill.store import ListedObject
from tidemill.store.memory import MemoryStore


def opened(folder: Path, root: str) -> tm.Repository:
    p = tm.Pipeline("at-once")
    rows = p.read(tm.Files(str(folder), format="csv", schema="k string"))
    rows.groupBy("k").agg(n=tm.count(), name="n")
    return tm.open(p, root=root)


def total(batch_time: Any, k: Any, row: Any, state: Any) -> None:
    state.update((state.getOption or 0) + 1)


def seeded(folder: Path, root: str, *names: str) -> tm.Repository:
    """A pipeline with operators that have an initial state."""
    p = tm.Pipeline("at-once")
    rows = p.read(tm.Files(str(folder), format="csv", schema="k string")).groupBy("k")
    for name in names:
        spec = tm.StateSpec.function(total).initialState([("x", 5)])
        rows.mapWithState(spec, stateSchema="long", outputSchema="long", name=name)
    return tm.open(p, root=root)


def segments(r: tm.Repository) -> list[str]:
    return [entry.name for entry in r.opened.store.list("state/")]


def beside(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once, just after the next initial state was stored and before its entry is written."""
    real = init.store_initial_state

    def stored(*given: Any) -> Any:
        found = real(*given)
        monkeypatch.setattr(init, "store_initial_state", real)
        act()
        return found

    monkeypatch.setattr(init, "store_initial_state", stored)


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "a.csv").write_text("x\n")
    return f"memory://{uuid.uuid4().hex}"


def test_another_caller_that_creates_and_runs_meanwhile_is_no_loss(
    tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, acted = MemoryStore.list, []

    def listing(store: MemoryStore, prefix: str = "", start_after: str | None = None) -> Iterator[ListedObject]:
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
    repository.opened.store.delete("refs/0000000000.json")
    repository.opened.store.delete("refs/head.json")
    with pytest.raises(tm.CorruptState, match="shows that a repository was here"):
        opened(tmp_path, root).init()


def test_an_init_that_loses_leaves_no_segments(tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    winner, loser = seeded(tmp_path, root, "one"), seeded(tmp_path, root, "one")
    beside(monkeypatch, lambda: winner.init())
    assert loser.init().uuid == winner.init().uuid
    assert len(segments(winner)) == 1
    assert winner.state("one").to_pylist()[0]["state"] == 5


@pytest.mark.parametrize("same", [True, False], ids=["the same operators", "another entry"])
def test_an_init_that_adds_operators_after_another_entry_leaves_no_segments(
    same: bool, tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded(tmp_path, root, "one").init()
    before = segments(seeded(tmp_path, root, "one"))
    late = seeded(tmp_path, root, "one", "two")
    if same:
        beside(monkeypatch, lambda: seeded(tmp_path, root, "one", "two").init())
    else:
        tag = lambda refs, _: TagEntry(**position(refs, 0), name="here", branch="main", version=-1)  # noqa: E731
        beside(monkeypatch, lambda: RefsLog(late.opened.store).append(tag))
    late.init()
    assert len(segments(late)) == len(before) + 1
    assert late.state("two").to_pylist()[0]["state"] == 5

"""Files for sinks are stored at the same time as maps. All are written before the commit; errors of both are raised."""

from __future__ import annotations

import shutil
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, run
from tidemill.batch import apply
from tidemill.errors import InvalidInput
from tidemill.sinks import forms
from tidemill.store import open_store
from tidemill.store.fault import FaultStore

NO_THREAD_LONGER = 10.0


def both(p: tm.Pipeline, world: World) -> None:
    """Two operators, both with rows for sinks, and a stream without a key."""
    rows = world.read(p)
    rows.groupBy("k").agg(n=tm.count(), name="first")
    rows.groupBy("k").agg(s=tm.sum("n"), name="second")
    rows.select("n").write(tm.Parquet(world.out), name="all")


def ran(folder: Path, root: str) -> tm.Repository:
    """Run one batch."""
    world = World(folder, both, name="both", root=root, schema="k int, n int")
    world.put("0", [(n % 3, n) for n in range(9)])
    r = world.open()
    run(r)
    return r


def test_maps_and_sinks_are_stored_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, encode = apply.persist, forms.staged
    storing, encoding, seen = threading.Event(), threading.Event(), []

    def persist(store: Any, cache: Any, before: Any, after: Any, version: int, name: str) -> Any:
        if "second" in name:  # the last one: rows of others may still come before it
            storing.set()
            seen.append(encoding.wait(NO_THREAD_LONGER))
        return stored(store, cache, before, after, version, name)

    def encoded(*arguments: Any) -> Any:
        encoding.set()
        seen.append(storing.wait(NO_THREAD_LONGER))
        return encode(*arguments)

    monkeypatch.setattr(apply, "persist", persist)
    monkeypatch.setattr(forms, "staged", encoded)
    repository = ran(tmp_path, "memory://" + uuid.uuid4().hex)
    assert seen == [True] * 4
    assert sorted(repository.outputs(0, "second").column("s").to_pylist()) == [9, 12, 15]
    assert repository.outputs(0, "all").num_rows == 9


def test_all_is_written_before_the_commit_each_kind_in_its_order(tmp_path: Path) -> None:
    for _ in range(3):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        store = FaultStore(open_store("memory://" + uuid.uuid4().hex))
        ran(tmp_path, store.uri)
        names = [write.name for write in store.writes if write.verb in ("put", "create")]
        (commit,) = [place for place, name in enumerate(names) if "/commits/" in name]
        written = [name.split("/")[1:3] for name in names if "/state/" in name or "/output/" in name]
        assert all("/state/" in name or "/output/" in name for name in names[commit - len(written) : commit])
        assert [name for kind, name in written if kind == "state"] == ["first", "second", "_ledger"]
        assert [name for kind, name in written if kind == "output"] == ["all", "first", "second"]


@pytest.mark.parametrize(("fails", "raised"), [("storing", "storing"), ("encoding", "encoding"), ("both", "storing")])
def test_an_error_of_either_is_raised_and_no_thread_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, raised: str
) -> None:
    def broken(what: str) -> Any:
        def fail(*_: Any) -> Any:
            raise InvalidInput(f"{what} failed")

        return fail

    if fails != "encoding":
        monkeypatch.setattr(apply, "persist", broken("storing"))
    if fails != "storing":
        monkeypatch.setattr(forms, "staged", broken("encoding"))
    with pytest.raises(InvalidInput, match=f"^{raised} failed"):
        ran(tmp_path, "memory://" + uuid.uuid4().hex)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tidemill-beside")]

"""Files for sinks are stored at the same time as maps. All are written before the commit; errors of both are raised."""

from __future__ import annotations

import shutil
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.batch import apply
from tidemill.errors import InvalidInput
from tidemill.sinks import forms
from tidemill.store import open_store
from tidemill.store.fault import FaultStore

NO_THREAD_LONGER = 10.0


def run(folder: Path, root: str) -> Any:
    """One batch of two operators, both with rows for sinks, and a stream without a key."""
    (folder / "0.json").write_text("".join(f'{{"k": {n % 3}, "n": {n}}}\n' for n in range(9)))
    p = tm.Pipeline("both")
    rows = p.read(tm.Files(str(folder), format="json", schema="k int, n int"))
    rows.groupBy("k").agg(n=tm.count(), name="first")
    rows.groupBy("k").agg(s=tm.sum("n"), name="second")
    rows.select("n").write(tm.Parquet(str(folder.parent / "out")), name="all")
    repository = tm.open(p, root=root)
    repository.init()
    repository.run(engine="local")
    return repository


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    return made


def test_maps_and_sinks_are_stored_at_the_same_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    repository = run(folder, "memory://" + uuid.uuid4().hex)
    assert seen == [True] * 4
    assert sorted(repository.outputs(0, "second").column("s").to_pylist()) == [9, 12, 15]
    assert repository.outputs(0, "all").num_rows == 9


def test_all_is_written_before_the_commit_each_kind_in_its_order(folder: Path) -> None:
    for _ in range(3):
        shutil.rmtree(folder.parent / "out", ignore_errors=True)
        store = FaultStore(open_store("memory://" + uuid.uuid4().hex))
        run(folder, store.uri)
        names = [write.name for write in store.writes if write.verb in ("put", "create")]
        (commit,) = [place for place, name in enumerate(names) if "/commits/" in name]
        written = [name.split("/")[1:3] for name in names if "/state/" in name or "/output/" in name]
        assert all("/state/" in name or "/output/" in name for name in names[commit - len(written) : commit])
        assert [name for kind, name in written if kind == "state"] == ["first", "second", "_ledger"]
        assert [name for kind, name in written if kind == "output"] == ["all", "first", "second"]


@pytest.mark.parametrize(("fails", "raised"), [("storing", "storing"), ("encoding", "encoding"), ("both", "storing")])
def test_an_error_of_either_is_raised_and_no_thread_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fails: str, raised: str
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
        run(folder, "memory://" + uuid.uuid4().hex)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tidemill-beside")]

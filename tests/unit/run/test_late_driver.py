"""If garbage collection took the objects of a late driver or reader, the error says so, and not that they are lost."""

from __future__ import annotations

import uuid

import pytest

import tidemill as tm
from tidemill.clock import now_ms
from tidemill.protocol.entries import Floor
from tidemill.protocol.refs_log import RefsLog, position
from tidemill.run import drain


def counting(folder, root):
    p = tm.Pipeline("late")
    rows = p.read(tm.Files(str(folder), format="json", schema="k string", maxFilesPerTrigger=1))
    rows.groupBy("k").agg(n=tm.count(), name="n")
    return tm.open(p, root=root, conf={"tidemill.cache_bytes": 0, "tidemill.disk_cache_bytes": 0})


@pytest.fixture
def root() -> str:
    return f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text('{"k": "x"}\n')
    return tmp_path


def lose_segments(repository, version):
    for entry in list(repository.opened.store.list("state/n/")):
        if f"/{version:010d}-" in entry.name:
            repository.opened.store.delete(entry.name)


def raise_floor(repository, version):
    log = RefsLog(repository.opened.store)
    log.append(lambda refs, number: Floor(**position(refs, now_ms()), branch="main", version=version))


def test_a_driver_whose_plan_was_committed_by_another_run_is_fenced(folder, root, monkeypatch):
    late, other = counting(folder, root), counting(folder, root)
    late.init()
    late.run(engine="local", max_batches=1)
    real = drain.execute

    def execute(context, head, plan, *rest):
        monkeypatch.setattr(drain, "execute", real)
        other.run(engine="local")
        lose_segments(late, 0)
        return real(context, head, plan, *rest)

    monkeypatch.setattr(drain, "execute", execute)
    with pytest.raises(tm.Fenced, match="execute plan 1: another run committed versions up to 1 in the meantime"):
        late.run(engine="local")


def test_a_lost_segment_of_the_head_is_still_corrupt_state(folder, root):
    repository = counting(folder, root)
    repository.init()
    repository.run(engine="local", max_batches=1)
    lose_segments(repository, 0)
    with pytest.raises(tm.CorruptState, match="a commit names this object, but it is missing"):
        repository.run(engine="local")


def test_a_version_below_the_floor_is_no_longer_kept(folder, root):
    reader, repository = counting(folder, root), counting(folder, root)
    repository.init()
    repository.run(engine="local")
    assert reader.state("n", version=0).num_rows == 1
    raise_floor(repository, 1)
    lose_segments(repository, 0)
    for r in (reader, counting(folder, root)):
        with pytest.raises(
            tm.InvalidInput, match="version 0 of branch `main`: it is no longer kept; versions from 1 on"
        ):
            r.state("n", version=0)


def test_a_map_with_other_rows_than_its_commit_says_is_corrupt_state(folder, root, monkeypatch):
    from tidemill.reading import read

    repository = counting(folder, root)
    repository.init()
    repository.run(engine="local")
    assert repository.head.rows == {"n": {"partials": 1}, "_ledger": {"files": 2}}
    monkeypatch.setattr(read, "live_rows", lambda *args, given=read.live_rows: given(*args).slice(1))
    with pytest.raises(tm.CorruptState, match="found 0 rows, but the commit records 1"):
        repository.state("n")

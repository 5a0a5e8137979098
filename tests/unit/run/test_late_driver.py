"""If garbage collection took the objects of a late driver or reader, the error says so, and not that they are lost."""

from __future__ import annotations

import pytest

import tidemill as tm
from tests.world import World, run
from tidemill.clock import now_ms
from tidemill.protocol.entries import Floor
from tidemill.protocol.refs_log import RefsLog, position
from tidemill.run import drain


@pytest.fixture
def world(tmp_path):
    conf = {"tidemill.cache_bytes": 0, "tidemill.disk_cache_bytes": 0}
    found = World(tmp_path, root=f"memory://{tmp_path}", conf=conf)
    found.arrive("x,1\n", "x,1\n")
    return found


def lose_segments(repository, version):
    for entry in list(repository.opened.store.list("state/counts/")):
        if f"/{version:010d}-" in entry.name:
            repository.opened.store.delete(entry.name)


def raise_floor(repository, version):
    log = RefsLog(repository.opened.store)
    log.append(lambda refs, number: Floor(**position(refs, now_ms()), branch="main", version=version))


def test_a_driver_whose_plan_was_committed_by_another_run_is_fenced(world, monkeypatch):
    late, other = world.open(), world.open()
    run(late, max_batches=1)
    real = drain.execute

    def execute(context, head, plan, *rest):
        monkeypatch.setattr(drain, "execute", real)
        run(other)
        lose_segments(late, 0)
        return real(context, head, plan, *rest)

    monkeypatch.setattr(drain, "execute", execute)
    with pytest.raises(tm.Fenced, match="execute plan 1: another run committed versions up to 1 in the meantime"):
        run(late)


def test_a_lost_segment_of_the_head_is_still_corrupt_state(world):
    repository = world.open()
    run(repository, max_batches=1)
    lose_segments(repository, 0)
    with pytest.raises(tm.CorruptState, match="a commit names this object, but it is missing"):
        run(repository)


def test_a_version_below_the_floor_is_no_longer_kept(world):
    reader, repository = world.open(), world.open()
    run(repository)
    assert reader.state("counts", version=0).num_rows == 1
    raise_floor(repository, 1)
    lose_segments(repository, 0)
    for r in (reader, world.open(init=False)):
        with pytest.raises(
            tm.InvalidInput, match="version 0 of branch `main`: it is no longer kept; versions from 1 on"
        ):
            r.state("counts", version=0)


def test_a_map_with_other_rows_than_its_commit_says_is_corrupt_state(world, monkeypatch):
    from tidemill.reading import read

    repository = world.open()
    run(repository)
    assert repository.head.rows == {"counts": {"partials": 1}, "_ledger": {"files": 2}}
    monkeypatch.setattr(read, "live_rows", lambda *args, given=read.live_rows: given(*args).slice(1))
    with pytest.raises(tm.CorruptState, match="found 0 rows, but the commit records 1"):
        repository.state("counts")

"""What a reader notices of withdrawn files if the writer or another run works at the same time, and what that costs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.two_pipelines import error_of, read_shop, seen, totals
from tests.world import World
from tidemill.errors import StoreUnavailable
from tidemill.publishing import correct as publishing_correct
from tidemill.run import drain, withdrawn
from tidemill.run.withdrawn import SinksRead


@pytest.fixture
def shop(tmp_path: Path) -> World:
    return read_shop(tmp_path)


def test_a_withdrawal_that_was_interrupted_is_noticed_once_it_is_carried_out(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, repair = totals(shop.folder), publishing_correct.repair

    def dies(repo: Any, head: Any, *more: Any) -> list[int]:
        if head is not None and head.kind == "rewind":
            raise StoreUnavailable("the process dies")
        return repair(repo, head, *more)

    with monkeypatch.context() as patched:
        patched.setattr(publishing_correct, "repair", dies)
        with pytest.raises(StoreUnavailable):
            shop.open().rewind(0, reason="a bad file")
    assert reader.run() == []
    shop.arrive("c,1\n")
    reader.run()
    shop.run()
    error_of(reader)


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_file_that_is_withdrawn_between_the_listing_and_the_look(
    shop: World, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    """Whether the reader gets the file, as from a writer that stalled, or fails to read it: nothing is missed."""
    reader, look = totals(shop.folder), drain.sinks_read
    shop.arrive("c,1\n")
    shop.run()
    (file,) = (shop.folder / "out").glob("*-0000000002-*")
    content, times = file.read_bytes(), (file.stat().st_atime_ns, file.stat().st_mtime_ns)

    def late(*of: Any) -> SinksRead:
        monkeypatch.setattr(drain, "sinks_read", look)
        shop.open().rewind(1, reason="just now")
        shop.run()
        if comes_back:
            file.write_bytes(content)
            os.utime(file, ns=times)
        return look(*of)

    monkeypatch.setattr(drain, "sinks_read", late)
    if not comes_back:
        assert "missing" in error_of(reader).message
        reader.open().replan(reason="the file is gone")
        assert (reader.run(), seen(reader)) == ([3], {"a": 1, "b": 1, "c": 1})
        return
    assert reader.run() == [2]
    assert "read by version 2," in error_of(reader).message


def test_a_file_that_another_run_has_read_meanwhile(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run commits a file after it was withdrawn, and this run has looked before that commit."""
    reader, at, commit = totals(shop.folder, maxFilesPerTrigger=1), drain.Backlog.at, drain.Drain._commit
    shop.arrive("c,1\n")
    shop.run()

    def meanwhile(backlog: Any, head: Any) -> Any:
        monkeypatch.setattr(drain.Backlog, "at", at)
        monkeypatch.setattr(drain.Drain, "_commit", withdrawing)
        assert reader.run(max_batches=1) == [2]
        return at(backlog, head)

    def withdrawing(other: Any, ours: Any) -> Any:
        monkeypatch.setattr(drain.Drain, "_commit", commit)
        shop.open().rewind(1, reason="meanwhile")
        shop.run()
        return commit(other, ours)

    monkeypatch.setattr(drain.Backlog, "at", meanwhile)
    assert "version 3 of `shop` (rewind: meanwhile)" in error_of(reader).message


def test_files_that_an_earlier_release_read_are_noticed_with_the_next_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, reader = World(tmp_path), totals(tmp_path)
    shop.arrive("a,1\n", "b,1\n")
    shop.run()
    with monkeypatch.context() as before:
        before.setattr(drain, "sinks_read", lambda *_: SinksRead())
        reader.run()
    shop.open().rewind(0, reason="a bad file")
    assert reader.run() == []
    shop.run()
    assert "rewind: a bad file" in error_of(reader).message


def test_idle_runs_read_no_record_of_the_writer(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.open().rewind(0, reason="a bad file")
    reader = totals(shop.folder)
    reader.open().rewind(0, reason="as the hint says")
    for row in "cdef":
        shop.arrive(f"{row},1\n")
        shop.run()
        reader.run()
    asked: list[Any] = []
    monkeypatch.setattr(withdrawn, "read_record", lambda *of: asked.append(of))
    assert (reader.run(), asked) == ([], [])

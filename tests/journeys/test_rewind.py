"""Going back: what a user sees of a rewind, in the state, in the sinks, in the files that wait, and in errors."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.rewound import function_of, three
from tests.journeys.shop import arrive, files, opened, published, totals, world
from tests.world import run
from tidemill.publishing.correct import correct

BAD = "x,not a number\n"


def test_a_rewind_restores_state_watermark_and_batch_time_and_files_wait_again(tmp_path: Path) -> None:
    r = three(tmp_path)
    made = r.rewind(0, "wrong prices")
    assert (made.version, made.kind, made.reason) == (3, "rewind", "wrong prices")
    assert made.restores is not None and made.restores.version == 0
    assert totals(r) == {"a": 1}
    assert made.batch_time_ms == r.commit(0).batch_time_ms
    assert r.status().waiting_files == {"source": 2}
    assert run(opened(tmp_path)) == [4, 5]
    assert totals(r) == {"a": 2, "b": 1}


def test_old_versions_stay_readable_and_outputs_follow_the_effective_history(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.rewind(0, "a test")
    assert totals(r, 2) == {"a": 2, "b": 1}
    assert r.outputs(version=2)["k"].to_pylist() == ["a"]
    assert r.outputs()["_batch_id"].to_pylist() == [0]
    run(r)
    assert r.outputs()["_batch_id"].to_pylist() == [0, 4, 5]
    assert [commit.version for commit in r.log()] == [5, 4, 3, 2, 1, 0]


def test_a_bad_file_is_one_command(tmp_path: Path) -> None:
    r = three(tmp_path)
    made = r.rewind(0, "b.csv is wrong", without=["b.csv"])
    assert [(one.source, one.path) for one in made.skipped] == [("source", "b.csv")]
    run(opened(tmp_path))
    assert totals(opened(tmp_path)) == {"a": 2}
    assert [row["version"] for row in published(tmp_path)] == [0, 4]


def test_a_file_that_was_corrected_before_the_rewind_is_read_with_its_new_content(tmp_path: Path) -> None:
    r = three(tmp_path)
    world(tmp_path).put("b", "corrected,1\n")
    r.rewind(0, "b.csv was corrected")
    run(opened(tmp_path))
    assert totals(opened(tmp_path)) == {"a": 2, "corrected": 1}


def test_a_rewind_to_before_the_first_batch_starts_again_from_what_init_made(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.rewind(-1, "start again")
    assert totals(r) == {}
    assert files(tmp_path) == []
    assert run(opened(tmp_path)) == [4, 5, 6]
    assert totals(opened(tmp_path)) == {"a": 2, "b": 1}


def test_a_rewind_goes_to_a_tag(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.tag("before-b", 0)
    assert r.rewind("before-b", "a test").restores == r.commit(0).as_parent


def test_a_rewind_can_be_undone_and_the_files_appear_again(tmp_path: Path) -> None:
    r = three(tmp_path)
    before = [(row["k"], row["n"], row["version"]) for row in published(tmp_path)]
    r.rewind(0, "a mistake")
    assert len(files(tmp_path)) == 1
    r.rewind(2, "it was right")
    assert [(row["k"], row["n"], row["version"]) for row in published(tmp_path)] == before
    assert totals(r) == {"a": 2, "b": 1}
    assert r.status().waiting_files == {"source": 0}
    assert r.verify(deep=True).problems == []


def test_what_a_rewind_restores_is_held_while_retention_gives_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = opened(tmp_path)
    arrive(tmp_path, "a", "b", "c")
    run(r)
    before = published(tmp_path)
    r.rewind(0, "a mistake")

    def meanwhile(*arguments: Any) -> Any:
        assert opened(tmp_path).maintain(keep_versions=1).floor == 3
        return correct(*arguments)

    monkeypatch.setattr("tidemill.actions.carry_out.correct", meanwhile)
    assert r.rewind(2, "no mistake").version == 4
    assert opened(tmp_path).verify(deep=True).problems == []
    assert [(row["k"], row["n"]) for row in published(tmp_path)] == [(row["k"], row["n"]) for row in before]
    assert r.state().num_rows == 3


def test_published_files_of_undone_versions_are_deleted(tmp_path: Path) -> None:
    r = three(tmp_path)
    assert len(files(tmp_path)) == 3
    made = r.rewind(1, "a test")
    assert [one.version for one in made.withdraws["counts"]] == [2]
    assert [row["version"] for row in published(tmp_path)] == [0, 1]


def test_files_that_a_stalled_process_copies_after_the_withdrawal_are_withdrawn_by_the_next_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    r = three(tmp_path)
    kept = {path: path.read_bytes() for path in files(tmp_path)}
    r.rewind(0, "a test", without=["b.csv", "c.csv"])
    for path, data in kept.items():  # what a process does that stalled before the rewind
        path.write_bytes(data)
    assert len(files(tmp_path)) == 3
    with caplog.at_level(logging.WARNING, "tidemill"):
        assert run(opened(tmp_path)) == []  # nothing waits
    assert [row["version"] for row in published(tmp_path)] == [0]
    assert "2 files of withdrawn versions appeared again" in caplog.text
    arrive(tmp_path, "d")
    run(opened(tmp_path))
    for path, data in kept.items():
        path.write_bytes(data)
    assert opened(tmp_path).maintain().strays == {"counts": sorted(path.name for path in list(kept)[1:])}
    assert [row["version"] for row in published(tmp_path)] == [0, 4]


def test_a_process_that_stalls_in_publishing_withdraws_its_copies_itself(tmp_path: Path) -> None:
    from tidemill.publishing import publish as publishing

    r = three(tmp_path)
    stalled = [work for work in publishing.works(r.opened, r.commit(2)) if work.files]
    r.rewind(0, "a test")
    assert publishing.publish_work(opened(tmp_path).opened, stalled[0])  # it copies, and finds the record there
    assert [row["version"] for row in published(tmp_path)] == [0]


def test_a_function_is_called_with_the_batches_that_no_longer_count(tmp_path: Path) -> None:
    calls: list[Any] = []

    def fn(table: Any, batch_id: int, withdrawn: Any = ()) -> None:
        calls.append((batch_id, sorted(table["n"].to_pylist()), list(withdrawn)))

    arrive(tmp_path, "a", "b")
    r = function_of(tmp_path, fn)
    run(r)
    r.rewind(0, "a test")
    assert calls[2:] == [(2, [], [1])]
    r.rewind(1, "undone")
    assert calls[3:] == [(3, [1], [2])] or calls[3:] == [(3, [1], [])]
    run(r)
    assert totals(r) == {"a": 1, "b": 1}


def test_a_function_that_cannot_undo_its_batches_refuses_the_rewind(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    r = function_of(tmp_path, lambda table, batch_id: None)
    run(r)
    with pytest.raises(
        tm.InvalidInput, match="sink `calls`: the function given to foreachBatch has no parameter `withd"
    ):
        r.rewind(0, "a test")
    assert r.head is not None and r.head.version == 1


def test_a_sink_that_left_the_code_is_withdrawn_but_shows_no_version_again(tmp_path: Path) -> None:
    three(tmp_path)
    without = opened(tmp_path, sink=False)
    without.rewind(0, "a test")
    assert [row["version"] for row in published(tmp_path)] == [0]
    said = "rewind: sink `counts`: the rows of version 1 would have to be published again, but this code does not have"
    with pytest.raises(tm.InvalidInput, match=said) as refused:
        without.rewind(2, "undo")
    assert refused.value.hint == "rewind with code that has the sink, and then remove it"
    opened(tmp_path).rewind(2, "undo")
    assert [row["version"] for row in published(tmp_path)] == [0, 1, 2]


def test_files_of_a_sink_that_was_gone_for_a_while_follow_a_rewind(tmp_path: Path) -> None:
    three(tmp_path)
    arrive(tmp_path, "d")
    run(opened(tmp_path, sink=False))
    r = opened(tmp_path)
    r.rewind(0, "a test")
    assert [row["version"] for row in published(tmp_path)] == [0]
    run(opened(tmp_path, sink=False))
    r.rewind(2, "undo")
    assert [row["version"] for row in published(tmp_path)] == [0, 1, 2]
    assert r.verify(deep=True).problems == []

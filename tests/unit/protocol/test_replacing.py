"""What a `forget` has replaced of earlier versions: applied to commits and plans, one `forget` after the other."""

from __future__ import annotations

import dataclasses

import pytest

import tidemill as tm
from tests.unit.protocol import valid_records as make
from tidemill.protocol.codec import decode, encode
from tidemill.protocol.kinds import rules_of
from tidemill.protocol.log import Log
from tidemill.protocol.records import (
    REWRITE,
    Commit,
    OperatorMetrics,
    QuarantineFile,
    RemovedRows,
    ReplacedObject,
    Requeued,
)
from tidemill.protocol.replacing import Replacements
from tidemill.store import open_store

A, B, C = (make.segment(f"state/{name}.parquet") for name in "abc")


def replaced(old: str, name: str, **more: object) -> ReplacedObject:
    return ReplacedObject(old, name, f"sum of {name}", 7, 2, "e", **more)  # type: ignore[arg-type]


def forget(version: int, *objects: ReplacedObject, **more: object) -> Commit:
    return make.commit(version, kind="forget", requires=[REWRITE], replaced_objects=list(objects), **more)


def test_a_segment_keeps_its_range_and_one_without_rows_is_left_out() -> None:
    commit = make.commit(1, state={"spend": {"state": [A, B, C]}}, checksum="c")
    made = Replacements.of([forget(2, replaced(A.name, "new"), ReplacedObject(B.name))]).commit(commit)
    wanted = dataclasses.replace(A, name="new", checksum="sum of new", size=7, rows=2, etag="e")
    assert made.state == {"spend": {"state": [wanted, C]}}
    assert made.as_parent == commit.as_parent


def test_a_later_forget_replaces_what_an_earlier_one_has_stored() -> None:
    held = Requeued("requeued/a", "c", 5, 0, without=(0,))
    plan = make.plan(1, splits=(make.split("/requeued/a", requeued=held),))
    first = forget(2, replaced("requeued/a", "requeued/b", without=(1,)))
    second = forget(4, replaced("requeued/b", "requeued/c", without=(3,)))
    [split] = Replacements.of([first, second]).plan(plan).splits
    assert split.requeued == Requeued("requeued/c", "sum of requeued/c", 5, 0, without=(0, 1, 3))
    assert (split.path, split.etag, split.size) == ("/requeued/a", "etag", 7)
    file = QuarantineFile("requeued/b", "x", 1, 2)  # a version between the two names what the first one has stored
    commit = make.commit(3, quarantine=[file])
    assert Replacements.of([first, second]).commit(commit).quarantine[0].name == "requeued/c"


def test_live_rows_of_a_version_are_less_by_those_of_all_forgets() -> None:
    rows = {"spend": {"state": 9, "timers": 4}}
    commit = make.commit(1, rows=rows, operators={"spend": OperatorMetrics(rows_total=9)})
    forgets = [
        forget(2, removed_rows=[RemovedRows(1, "spend", "state", 2), RemovedRows(0, "spend", "state", 5)]),
        forget(3, removed_rows=[RemovedRows(1, "spend", "state", 1), RemovedRows(1, "spend", "timers", 1)]),
    ]
    made = Replacements.of(forgets).commit(commit)
    assert (made.rows, made.operators["spend"].rows_total) == ({"spend": {"state": 6, "timers": 3}}, 6)
    of_branch = dataclasses.replace(commit, branch="fix-3")
    assert Replacements.of(forgets).commit(of_branch) == of_branch


def test_a_log_applies_the_forgets_to_which_its_head_leads() -> None:
    store = open_store("memory://rewrites")
    log = Log(store)
    made = [
        make.commit(0, quarantine=[QuarantineFile("q/0", "c", 1, 1)]),
        forget(1, replaced("q/0", "q/1")),
        make.commit(2, quarantine=[QuarantineFile("q/1", "c", 1, 1)], rewrote_at=1),
        forget(3, replaced("q/1", "q/2"), rewrote_at=1),
        make.commit(4, quarantine=[QuarantineFile("q/2", "c", 1, 1)], rewrote_at=3),
    ]
    head = None
    for commit in made:
        commit = commit if head is None else dataclasses.replace(commit, parent=head.as_parent)
        head = log.create_commit(commit).commit
    assert [one.version for one in log.rewrites.forgets] == [3, 1]
    for reader in (log, Log(store)):
        assert reader.head() == head
        assert [file.name for commit in reader.commits() for file in commit.quarantine] == ["q/2", "q/2", "q/2"]
        assert [commit.as_parent for commit in reader.commits()][:-1] == [one.parent for one in reader.commits()][1:]
    assert Log(store).commit(0).quarantine[0].name == "q/0"  # nothing has led it to the head


def test_a_replay_passes_only_a_forget_that_has_rewritten() -> None:
    assert rules_of(forget(2)).replayed == "nothing"
    assert rules_of(make.commit(2, kind="forget")).replayed == "refused"


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd"])
def test_names_cannot_leave_the_repository(name: str) -> None:
    for one in (replaced(name, "new"), replaced("old", name)):
        with pytest.raises(tm.CorruptState, match="read commit `x`"):
            decode(Commit, encode(forget(2, one)), "x")

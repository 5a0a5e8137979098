"""The ledger: a file is taken once; one that was overwritten is an error, or new, as the source says."""

from __future__ import annotations

import dataclasses

import pytest

from tidemill._native import StateMap
from tidemill.errors import InvalidInput
from tidemill.protocol.records import HASH_END, Plan, Split
from tidemill.sources.contract import SourceFile
from tidemill.sources.ledger import LEDGER_SCHEMA, record, unseen

A = SourceFile("days", "a.csv", "e1", 10, 1000)
B = SourceFile("days", "b.csv", "e2", 20, 2000)


def empty() -> StateMap:
    return StateMap.open(LEDGER_SCHEMA, [], 0, HASH_END)


def plan(number: int, *files: SourceFile, row_groups: tuple[tuple[int, int], ...] = ()) -> Plan:
    splits = [Split(f.source, f.path, f.etag, f.size, f.modified_ms) for f in files]
    splits = [dataclasses.replace(s, row_groups=r) for s in splits for r in row_groups] if row_groups else splits
    return Plan(number, "batch", f"p{number}", "main", 5000, tuple(splits), 100, 5000)


def test_files_are_unseen_until_a_plan_with_them_is_recorded() -> None:
    ledger = empty()
    assert unseen([A, B], ledger, "error") == [A, B]
    record(ledger, plan(3, A))
    assert unseen([A, B], ledger, "error") == [B]
    assert unseen([], ledger, "error") == []
    found = ledger.scan().to_pylist()
    assert [(r["source"], r["path"], r["etag"], r["size"], r["modified_ms"], r["version"]) for r in found] == [
        ("days", "a.csv", "e1", 10, 1000, 3)
    ]


def test_a_file_of_several_splits_is_recorded_once() -> None:
    ledger = empty()
    record(ledger, plan(0, A, row_groups=((0, 1), (2, 3))))
    assert len(ledger) == 1


def test_the_same_path_of_another_source_is_another_file() -> None:
    ledger = empty()
    record(ledger, plan(0, A))
    other = dataclasses.replace(A, source="nights")
    assert unseen([A, other], ledger, "error") == [other]


def test_an_overwritten_file_is_an_error_unless_the_source_takes_it_as_new() -> None:
    ledger = empty()
    record(ledger, plan(0, A))
    changed = dataclasses.replace(A, etag="e9")
    with pytest.raises(InvalidInput) as caught:
        unseen([changed], ledger, "error")
    assert caught.value.first_line == (
        "the file `a.csv` of source `days` was overwritten after it had been taken: its etag is `e9`, it was `e1`"
    )
    assert unseen([changed, B], ledger, "new") == [changed, B]
    record(ledger, plan(1, changed))
    assert unseen([changed], ledger, "error") == []


def test_a_fork_of_the_ledger_takes_files_of_its_own() -> None:
    ledger = empty()
    record(ledger, plan(0, A))
    fork = ledger.copy()
    record(fork, plan(1, B))
    assert unseen([A, B], ledger, "error") == [B]
    assert unseen([A, B], fork, "error") == []

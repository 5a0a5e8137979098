"""The ledger: a file is read once. An overwritten file is an error or new, as the source says."""

from __future__ import annotations

import dataclasses

import pytest

import tidemill as tm
from tests.unit.protocol import valid_records
from tests.world import Build, World, run, state
from tidemill._native import StateMap
from tidemill.errors import InvalidInput
from tidemill.protocol.records import HASH_END, Plan, Split
from tidemill.sources.contract import SourceFile
from tidemill.sources.ledger import (
    LEDGER_SCHEMA,
    check_source_names,
    compare_with_ledger,
    look_up_files,
    record,
    record_skipped,
    record_touched,
)

A = SourceFile("days", "a.csv", "e1", 10, 1000)
B = SourceFile("days", "b.csv", "e2", 20, 2000)


def empty() -> StateMap:
    return StateMap.open(LEDGER_SCHEMA, [], 0, HASH_END)


def plan(number: int, *files: SourceFile, row_groups: tuple[tuple[int, int], ...] = ()) -> Plan:
    splits = [Split(f.source, f.path, f.etag, f.size, f.modified_ms) for f in files]
    splits = [dataclasses.replace(s, row_groups=r) for s in splits for r in row_groups] if row_groups else splits
    return valid_records.plan(number, splits=tuple(splits))


def unseen(
    files: list[SourceFile], ledger: StateMap, overwritten: str, fingerprints: dict[str, str] | None = None
) -> list[SourceFile]:
    return compare_with_ledger(files, ledger, overwritten, lambda file: (fingerprints or {}).get(file.path)).fresh


def test_files_are_unseen_until_a_plan_with_them_is_recorded() -> None:
    ledger = empty()
    assert unseen([A, B], ledger, "error") == [A, B]
    record(ledger, plan(3, A), {})
    assert unseen([A, B], ledger, "error") == [B]
    assert unseen([], ledger, "error") == []
    found = ledger.scan().to_pylist()
    assert [(r["source"], r["path"], r["etag"], r["size"], r["modified_ms"], r["version"]) for r in found] == [
        ("days", "a.csv", "e1", 10, 1000, 3)
    ]


def test_a_file_of_several_splits_is_recorded_once() -> None:
    ledger = empty()
    record(ledger, plan(0, A, row_groups=((0, 1), (2, 3))), {})
    assert len(ledger) == 1


def test_the_same_path_of_another_source_is_another_file() -> None:
    ledger = empty()
    record(ledger, plan(0, A), {})
    other = dataclasses.replace(A, source="nights")
    assert unseen([A, other], ledger, "error") == [other]


def test_an_overwritten_file_is_an_error_unless_it_counts_as_new() -> None:
    ledger = empty()
    record(ledger, plan(0, A), {})
    changed = dataclasses.replace(A, etag="e9", size=1234)
    for file, difference in (
        (changed, "found 1234 bytes, expected 10"),
        (
            dataclasses.replace(A, etag="e9", modified_ms=2000),
            "same size, found modification time 1970-01-01T00:00:02.000Z, expected 1970-01-01T00:00:01.000Z",
        ),
        (dataclasses.replace(A, etag="e9"), "same size and modification time, found ETag `e9`, expected `e1`"),
    ):
        with pytest.raises(InvalidInput) as caught:
            unseen([file], ledger, "error")
        expected = f"file `a.csv` of source `days` was modified after it was read: {difference}"
        assert caught.value.first_line == expected
    assert unseen([changed, B], ledger, "new") == [changed, B]
    record(ledger, plan(1, changed), {})
    assert unseen([changed], ledger, "error") == []


def test_all_overwritten_files_are_named() -> None:
    ledger = empty()
    files = [SourceFile("days", f"{n:02d}.csv", "e1", 10, 1000) for n in range(13)]
    record(ledger, plan(0, *files), {})
    changed = [dataclasses.replace(file, etag="e2") for file in files]
    with pytest.raises(InvalidInput) as caught:
        unseen(changed[:2], ledger, "error")
    assert caught.value.first_line.endswith("; so were `01.csv`")
    with pytest.raises(InvalidInput) as caught:
        unseen(changed, ledger, "error")
    assert "; so were `01.csv`, `02.csv`" in caught.value.first_line
    assert caught.value.first_line.endswith("`09.csv` and 3 more")
    assert unseen(changed, ledger, "ignore") == []


def test_a_file_with_the_same_bytes_under_another_etag_is_the_same_file() -> None:
    ledger = empty()
    record(ledger, plan(0, A), {"0": "f1"})
    touched = dataclasses.replace(A, etag="e9", modified_ms=9000)
    found = compare_with_ledger([touched], ledger, "error", lambda file: "f1")
    assert (found.fresh, found.touched) == ([], [touched])
    with pytest.raises(InvalidInput, match="same size, other content"):
        unseen([touched], ledger, "error", {"a.csv": "f2"})
    with pytest.raises(InvalidInput, match="found 11 bytes, expected 10"):
        unseen([dataclasses.replace(touched, size=11)], ledger, "error", {"a.csv": "f1"})
    record_touched(ledger, [touched], 0)
    assert unseen([touched], ledger, "error") == []
    [known] = look_up_files(ledger, [A])
    assert known is not None
    assert (known.etag, known.fingerprint, known.version) == ("e9", "f1", 0)


def test_a_skipped_file_is_not_unseen() -> None:
    ledger = empty()
    record_skipped(ledger, A, None, 4, 0)
    assert unseen([A, B], ledger, "error") == [B]
    with pytest.raises(InvalidInput, match="`a.csv` of source `days` was modified after it was skipped"):
        unseen([dataclasses.replace(A, etag="e2")], ledger, "error")


def test_a_fork_of_the_ledger_records_its_own_files() -> None:
    ledger = empty()
    record(ledger, plan(0, A), {})
    fork = ledger.copy()
    record(fork, plan(1, B), {})
    assert unseen([A, B], ledger, "error") == [B]
    assert unseen([A, B], fork, "error") == []


def named(name: str, *files: SourceFile) -> list[SourceFile]:
    return [dataclasses.replace(file, source=name) for file in files]


def test_a_renamed_source_is_refused_and_a_new_one_is_not() -> None:
    ledger = empty()
    record(ledger, plan(3, A, B), {})
    changed = dataclasses.replace(A, etag="e9")
    check_source_names({"days": [A, B], "nights": named("nights", A, B)}, ["nights"], ledger)  # both read one folder
    check_source_names({"nights": named("nights", changed)}, ["nights"], ledger)  # another file of that name
    check_source_names({"days": [B], "nights": named("nights", A)}, ["nights"], ledger)  # moved, from one to the other
    check_source_names({"days": [], "nights": named("nights", A)}, ["nights"], ledger)  # the same, the last one
    check_source_names({"nights": named("nights", A)}, [], ledger)  # it has read other files
    check_source_names({"nights": named("nights", A)}, ["nights"], empty())
    check_source_names({}, [], ledger)
    with pytest.raises(InvalidInput) as caught:
        check_source_names({"nights": named("nights", changed, B)}, ["nights"], ledger)
    assert caught.value.first_line == (
        "source `nights` would read file `b.csv` again: batch 3 already read it as `days`; you renamed the source"
    )
    assert caught.value.hint is not None
    assert "p.read(…, name='days')" in caught.value.hint


def test_swapped_source_names_are_refused() -> None:
    ledger = empty()
    record(ledger, plan(0, A), {})
    record(ledger, plan(1, *named("nights", B)), {})
    swapped = {"days": named("days", B), "nights": named("nights", A)}
    with pytest.raises(
        InvalidInput, match=r"source `nights` would read file `a\.csv` again: batch 0 already read it as `days`"
    ):
        check_source_names(swapped, ["days", "nights"], ledger)


def test_a_renamed_source_stops_a_run_and_changes_nothing(tmp_path) -> None:
    def counted(source: str) -> Build:
        return lambda p, world: world.read(p, source).groupBy("k").agg(n=tm.count(), name="counts")

    clicks = World(tmp_path, counted("clicks"))
    others = clicks.but(counted("others"))
    (first,) = clicks.arrive("a,1\n")
    assert clicks.run() == [0]
    (second,) = clicks.arrive("a,1\n")
    renamed = others.open(init=False)
    with pytest.raises(InvalidInput, match=r"source `others` would read file `0000\.csv` again: batch 0 already read"):
        run(renamed)
    assert len(renamed.commits()) == 1
    assert clicks.run() == [1]
    assert state(clicks.open(), "counts") == {"a": 2}
    first.unlink()
    second.unlink()
    others.put("2", "a,1\n")
    (progress,) = others.open(init=False).run(engine="local")
    assert progress.numInputRows == 1, "none of the files that were read remains, so the rename cannot be seen"

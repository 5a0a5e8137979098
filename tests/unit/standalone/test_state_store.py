"""`tm.StateStore`: the tests of Spark's StateStoreSuite, then Tidemill's further promises."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import CorruptState, Fenced, InvalidInput, StoreUnavailable
from tidemill.protocol.records import HASH_END
from tidemill.state import versions
from tidemill.state.layers import HashSpan, layered
from tidemill.store import open_store
from tidemill.store.fault import Crash, Effect, Fault, FaultStore


def store_at(root: Path | str, **options: Any) -> tm.StateStore:
    return tm.StateStore(str(root), "counts", 0, key="string", state="bigint", **options)


def commit(store: tm.StateStore, version: int, **states: int | None) -> int:
    opened = store.get(version)
    for key, state in states.items():
        if state is None:
            opened.remove(key)
        else:
            opened.put(key, state)
    return opened.commit()


def at(store: tm.StateStore, version: int) -> dict[str, int]:
    return dict(store.getReadOnly(version).iterator())


def test_get_put_remove_commit_and_all_data_iterator(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    opened = store.get(0)
    assert not opened.hasCommitted
    assert (opened.get("a"), dict(opened.iterator())) == (None, {})
    opened.put("a", 1)
    assert opened.get("a") == 1
    opened.put("b", 2)
    opened.put("aa", 3)
    opened.remove("b")
    assert dict(opened.iterator()) == {"a": 1, "aa": 3}
    assert at(store, 0) == {}  # what is not committed is not seen
    assert opened.commit() == 1
    assert opened.hasCommitted
    assert (at(store, 1), store.latest) == ({"a": 1, "aa": 3}, 1)
    for verb in (lambda: opened.put("c", 1), lambda: opened.remove("a"), opened.commit, opened.abort):
        with pytest.raises(InvalidInput, match="its changes were committed"):
            verb()
    opened = store.get(1)
    opened.remove("a")
    opened.put("aa", 4)
    assert opened.commit() == 2
    assert (at(store, 2), at(store, 1)) == ({"aa": 4}, {"a": 1, "aa": 3})


def test_removing_while_iterating(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    commit(store, 0, **{f"key-{number}": number for number in range(20)})
    opened = store.get(1)
    opened.put("new", 99)
    seen = {}
    for key, state in opened.iterator():
        seen[key] = state
        if state % 2:
            opened.remove(key)
        opened.put(f"of {key}", state)
    assert seen == {**{f"key-{number}": number for number in range(20)}, "new": 99}  # what there was when it began
    left = {f"key-{number}": number for number in range(0, 20, 2)}
    assert dict(opened.iterator()) == {**left, **{f"of {key}": state for key, state in seen.items()}}
    opened.commit()
    assert at(store_at(tmp_path), 2) == {**left, **{f"of {key}": state for key, state in seen.items()}}


def test_num_keys_metrics(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    opened = store.get(0)
    counts = []
    for change in (
        lambda: None,
        lambda: opened.put("a", 1),
        lambda: opened.put("a", 2),
        lambda: opened.put("b", 3),
        lambda: opened.remove("c"),
        lambda: opened.remove("a"),
    ):
        change()
        counts.append(opened.metrics["numKeys"])
    assert counts == [0, 1, 1, 2, 2, 1]
    assert opened.metrics["memoryUsedBytes"] > 0
    opened.commit()
    opened = store.get(1)
    opened.remove("b")
    opened.put("d", 4)
    opened.put("e", 5)
    assert (opened.metrics["numKeys"], store.getReadOnly(1).metrics["numKeys"]) == (2, 1)
    opened.abort()
    assert opened.metrics["numKeys"] == 1


def test_two_concurrent_stores_one_for_reading_and_one_for_writing(tmp_path: Path) -> None:
    commit(store_at(tmp_path), 0, a=1, b=2)
    reading, writing = store_at(tmp_path).getReadOnly(1), store_at(tmp_path).get(1)
    writing.put("a", 10)
    writing.remove("b")
    assert (reading.get("a"), reading.get("b"), dict(reading.iterator())) == (1, 2, {"a": 1, "b": 2})
    writing.commit()
    assert (reading.get("a"), reading.get("b"), dict(reading.iterator())) == (1, 2, {"a": 1, "b": 2})
    reading.abort()
    assert at(store_at(tmp_path), 2) == {"a": 10}


def test_abort(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    commit(store, 0, a=1)
    opened = store.get(1)
    opened.put("a", 2)
    opened.abort()
    assert (opened.get("a"), opened.hasCommitted, store.latest) == (1, False, 1)
    for verb in (lambda: opened.put("c", 1), opened.commit, opened.abort):
        with pytest.raises(
            InvalidInput, match=r"its changes were aborted\nhint: open a version for changes with get\(1\)"
        ):
            verb()


def test_read_only(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    commit(store, 0, a=1)
    opened = store.getReadOnly(1)
    for verb in (lambda: opened.put("c", 1), lambda: opened.remove("a"), opened.commit):
        with pytest.raises(InvalidInput, match="it is read-only"):
            verb()


def test_only_the_first_commit_on_a_version_succeeds(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    commit(store, 0, a=1)
    one, same, other = store.get(1), store.get(1), store_at(tmp_path).get(1)
    one.put("b", 2)
    same.put("b", 2)
    other.put("b", 3)
    assert one.commit() == 2
    assert same.commit() == 2  # a task that was run twice
    with pytest.raises(Fenced, match="another writer made this version with other changes"):
        other.commit()
    assert not other.hasCommitted
    assert (at(store, 2), store.latest) == ({"a": 1, "b": 2}, 2)


def test_a_commit_without_changes_makes_a_version(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    assert store.get(0).commit() == 1
    commit(store, 1, a=1)
    assert store.get(2).commit() == 3
    assert (at(store, 1), at(store, 3)) == ({}, {"a": 1})


def test_a_store_with_other_columns_is_an_error_even_if_empty(tmp_path: Path) -> None:
    assert store_at(tmp_path).get(0).commit() == 1
    other = tm.StateStore(str(tmp_path), "counts", 0, key="bigint", state="double")
    with pytest.raises(InvalidInput, match=r"has the key \(key string\) .* but was opened with \(key bigint\)"):
        other.get(0)
    again = tm.StateStore(str(tmp_path / "raced"), "op", 0, key="bigint", state="double")
    late = again.get(0)
    tm.StateStore(str(tmp_path / "raced"), "op", 0, key="string", state="bigint").get(0).commit()
    with pytest.raises(InvalidInput, match="but was opened with"):
        late.commit()


def test_states_too_large_for_one_segment_become_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits still succeed above the limit of a segment's column, and merges then write several segments."""
    monkeypatch.setattr(versions, "LARGEST_COLUMN", 2_000)
    store = tm.StateStore(str(tmp_path), "op", 0, key="bigint", state="string")
    expected: dict[int, str] = {}
    for version in range(30):
        opened = store.get(version)
        for key in range(version * 5, version * 5 + 10):
            expected[key] = f"{version} " * 20
            opened.put(key, expected[key])
        expected.pop(version, None)
        opened.remove(version)
        assert opened.commit() == version + 1
    assert dict(store.getReadOnly(30).iterator()) == expected
    live = store._record(30).segments
    assert any(segment.lo > 0 or segment.hi < HASH_END for segment in live)
    assert len({segment.name for segment in live}) == len(live)
    assert len(layered([HashSpan(segment.lo, segment.hi, segment.rows) for segment in live])) <= 8
    assert store.maintain(keep=1) > 0
    assert dict(store.getReadOnly(30).iterator()) == expected


def test_removed_keys_stay_removed_after_reload_and_any_version_is_readable(tmp_path: Path) -> None:
    chance, model, versions = random.Random(7), dict[str, int](), [dict[str, int]()]
    for version in range(60):
        opened = store_at(tmp_path).get(version)
        for _ in range(chance.randrange(6)):
            key = f"key-{chance.randrange(12)}"
            if chance.random() < 0.4:
                opened.remove(key)
                model.pop(key, None)
            else:
                opened.put(key, version)
                model[key] = version
        assert opened.metrics["numKeys"] == len(model)
        assert opened.commit() == version + 1
        versions.append(dict(model))
    for version, expected in enumerate(versions):
        assert at(store_at(tmp_path), version) == expected
        assert store_at(tmp_path).getReadOnly(version).metrics["numKeys"] == len(expected)
    live = store_at(tmp_path)._record(60).segments
    assert 1 <= len(live) <= 8  # however many versions there were


def test_maintenance(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for version in range(30):
        commit(store, version, **{f"key-{version % 7}": version})
    before = {version: at(store, version) for version in range(21, 31)}
    assert store.maintain(keep=10) > 0
    assert store.maintain(keep=10) == 0
    assert {version: at(store_at(tmp_path), version) for version in range(21, 31)} == before
    for version in (0, 20):
        with pytest.raises(InvalidInput, match=rf"version {version} was dropped; versions go from 21 to 30"):
            store.get(version)
    assert store.maintain(keep=20) == 0  # dropped versions do not come back
    assert commit(store, 30, new=1) == 31
    # Nobody makes a version again that there was.
    with pytest.raises(Fenced):
        commit(store, 25, other=1)


def test_corrupt_or_missing_files_are_an_error_never_an_empty_store(tmp_path: Path) -> None:
    for version in range(3):
        commit(store_at(tmp_path), version, **{f"key-{version}": version, "big": version})
    folder = tmp_path / "stores/counts/00000"
    record, segments = folder / "versions/0000000002.json", sorted((folder / "segments").iterdir())
    for file in [record, *segments]:
        data = file.read_bytes()
        file.write_bytes(data[:-9])
        assert_corrupt(tmp_path)
        file.write_bytes(data.replace(b"1", b"2", 1) if file == record else data[:20] + b"x" + data[21:])
        assert_corrupt(tmp_path)
        file.unlink()
        assert_corrupt(tmp_path)
        file.write_bytes(data)
    assert at(store_at(tmp_path), 3) == {"key-0": 0, "key-1": 1, "key-2": 2, "big": 2}


def assert_corrupt(root: Path) -> None:
    """Check that some version cannot be read, and that each version that can be read is complete."""
    from tidemill.state import cache

    cache._CACHE.clear()  # another process
    failed = 0
    for version in range(1, 4):
        try:
            found = at(store_at(root), version)
        except CorruptState:
            failed += 1
        else:
            assert found == {**{f"key-{n}": n for n in range(version)}, "big": version - 1}
    assert failed > 0


def test_a_version_that_does_not_exist_is_invalid_input(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    commit(store, 0, a=1)
    for version, message in (
        (2, "there is no version 2; the newest"),
        (-1, "version is -1, expected a number from 0"),
        ("1", "'1'"),
    ):
        with pytest.raises(InvalidInput, match=message):
            store.get(version)  # type: ignore[arg-type]


def test_another_schema_is_an_error_that_names_both(tmp_path: Path) -> None:
    commit(store_at(tmp_path), 0, a=1)
    other = tm.StateStore(str(tmp_path), "counts", 0, key="string", state="n int, s double")
    with pytest.raises(InvalidInput, match=r"the state \(state bigint\), but was opened with .* \(n int, s double\)"):
        other.get(1)


def test_partitions_and_operators_share_nothing(tmp_path: Path) -> None:
    commit(store_at(tmp_path), 0, a=1)
    other = tm.StateStore(str(tmp_path), "counts", 1, key="string", state="bigint")
    assert other.latest == 0
    for bad in (("Counts", 0), ("counts", -1), ("counts", True), ("counts", 100_000)):
        with pytest.raises(InvalidInput):
            tm.StateStore(str(tmp_path), *bad, key="string", state="bigint")
    with pytest.raises(InvalidInput, match="keep is 0, expected at least 1"):
        other.maintain(keep=0)


@pytest.mark.parametrize("effect", ["before", "after", "torn", "lost", "refused", "late"])
@pytest.mark.parametrize("write", range(1, 6))
def test_a_commit_that_fails_at_any_write_succeeds_once_when_retried(
    tmp_path: Path, write: int, effect: Effect
) -> None:
    inner = open_store(str(tmp_path))
    faulty = FaultStore(inner, [Fault(write, effect)])
    store = store_at(faulty.uri)
    opened = None
    try:
        opened = store.get(0)
        opened.put("a", 1)
        opened.commit()
    except Crash:
        opened = None
    except StoreUnavailable:
        if opened is not None:
            assert opened.commit() == 1
    recovered = store_at(tmp_path)
    assert commit(recovered, 0, a=1) == 1
    assert commit(recovered, 1, b=2) == 2
    assert (at(recovered, 1), at(recovered, 2), recovered.latest) == ({"a": 1}, {"a": 1, "b": 2}, 2)
    assert len(faulty.writes) >= min(write, 5)


def test_on_s3(s3_server: Any) -> None:
    root = s3_server.new_root()
    store = store_at(root, storage_options=s3_server.options)
    assert commit(store, 0, a=1, b=2) == 1
    assert commit(store, 1, a=None) == 2
    with pytest.raises(Fenced):
        commit(store, 1, c=5)
    assert at(store_at(root, storage_options=s3_server.options), 2) == {"b": 2}

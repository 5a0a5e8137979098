"""A `tm.StateStore` whose records were lost, damaged or swapped: `CorruptState`, never an older or an empty store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.errors import CorruptState, InvalidInput

VERSIONS = 4


def store_at(root: Path) -> tm.StateStore:
    return tm.StateStore(str(root), "counts", 0, key="string", state="bigint")


def commit(root: Path, version: int, state: int) -> int:
    opened = store_at(root).get(version)
    opened.put(f"key-{version}", state)
    return opened.commit()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for version in range(VERSIONS):
        commit(tmp_path, version, version)
    return tmp_path / "stores/counts/00000"


def record(folder: Path, version: int) -> Path:
    return folder / f"versions/{version:010d}.json"


def without_hint(folder: Path) -> None:
    (folder / "head.json").unlink()


LOSSES: dict[str, Callable[[Path], object]] = {
    "the last record": lambda folder: record(folder, VERSIONS).unlink(),
    "all records": lambda folder: shutil.rmtree(folder / "versions"),
    "the last two records and the hint": lambda folder: [
        *(record(folder, version).unlink() for version in (VERSIONS - 1, VERSIONS)),
        without_hint(folder),
    ],
    "all records and the hint": lambda folder: [shutil.rmtree(folder / "versions"), without_hint(folder)],
    "all records and segments": lambda folder: [shutil.rmtree(folder / part) for part in ("versions", "segments")],
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_never_shows_an_older_or_an_empty_store(folder: Path, tmp_path: Path, loss: str) -> None:
    LOSSES[loss](folder)
    left = len(list((folder / "versions").glob("*"))) if (folder / "versions").exists() else 0
    store = store_at(tmp_path)
    with pytest.raises(CorruptState, match=r"the version is missing, but .* (names it|was made);") as raised:
        _ = store.latest
    assert "restore `versions/" in str(raised.value)
    for call in (lambda: store.get(left), lambda: store.get(VERSIONS), lambda: store.maintain(keep=1)):
        with pytest.raises(CorruptState):
            call()
    assert not record(folder, left + 1).exists()  # and no version is made again


def test_floor_and_segments_show_the_loss_of_the_last_record_and_the_hint(folder: Path, tmp_path: Path) -> None:
    store_at(tmp_path).maintain(keep=1)
    without_hint(folder)
    record(folder, VERSIONS).unlink()
    with pytest.raises(CorruptState, match=r"versions/0000000004.json`: the version is missing, but `floors/`"):
        store_at(tmp_path).get(VERSIONS - 1)


def test_a_missing_record_between_others_is_never_made_again(folder: Path, tmp_path: Path) -> None:
    record(folder, 2).unlink()
    assert store_at(tmp_path).latest == VERSIONS
    for version in (1, 2):
        with pytest.raises(
            CorruptState, match=r"versions/0000000002.json`: the version is missing, but a newer version"
        ):
            store_at(tmp_path).get(version)


def test_a_store_that_was_open_before_the_loss_does_not_make_a_version_again(tmp_path: Path) -> None:
    commit(tmp_path, 0, 0)
    store = store_at(tmp_path)
    assert store.latest == 1
    for version in range(1, VERSIONS):
        commit(tmp_path, version, version)
    record(tmp_path / "stores/counts/00000", 2).unlink()
    with pytest.raises(CorruptState, match=r"segments/0000000003-.*` shows that it was made"):
        store.get(1)


@pytest.mark.parametrize("hint", [None, b"", b"\xff\x00", b'{"version": "4"}', b'{"version": -1}', b'{"version": 1}'])
def test_a_missing_invalid_or_old_hint_changes_nothing(folder: Path, tmp_path: Path, hint: bytes | None) -> None:
    without_hint(folder)
    if hint is not None:
        (folder / "head.json").write_bytes(hint)
    store = store_at(tmp_path)
    assert store.latest == VERSIONS
    assert dict(store.get(VERSIONS).iterator()) == {f"key-{version}": version for version in range(VERSIONS)}
    assert commit(tmp_path, VERSIONS, 4) == VERSIONS + 1
    assert store.latest == VERSIONS + 1
    record(folder, VERSIONS + 1).unlink()
    with pytest.raises(CorruptState, match=r"0000000005.json`: the version is missing, but the hint `head\.json`"):
        _ = store_at(tmp_path).latest


def test_the_hint_is_never_lowered(folder: Path, tmp_path: Path) -> None:
    before = (folder / "head.json").read_bytes()
    assert commit(tmp_path, 1, 1) == 2  # the same changes again
    assert (folder / "head.json").read_bytes() == before == b'{"version": 4}'


def test_a_damaged_floor_is_corrupt_state(folder: Path, tmp_path: Path) -> None:
    assert store_at(tmp_path).maintain(keep=2) >= 0
    (floor,) = (folder / "floors").glob("0*")
    data = floor.read_bytes()
    for damaged in (b"", data[:-3], data.replace(b"3", b"1", 1)):
        floor.write_bytes(damaged)
        for call in (lambda: store_at(tmp_path).latest, lambda: store_at(tmp_path).get(VERSIONS)):
            with pytest.raises(CorruptState):
                call()
    floor.write_bytes(data)
    assert store_at(tmp_path).maintain(keep=1) >= 0
    floor.with_name("0000000001.json").write_bytes(data)
    with pytest.raises(CorruptState, match=r"`floors/0000000001\.json` .* expected floor 1, found floor 0"):
        store_at(tmp_path).get(VERSIONS)
    floor.with_name("0000000001.json").unlink()
    (folder / "floors/head.json").unlink()
    assert store_at(tmp_path).get(VERSIONS).get("key-3") == 3


def test_a_record_copied_over_another_is_corrupt_state(folder: Path, tmp_path: Path) -> None:
    shutil.copy(record(folder, 1), record(folder, VERSIONS))
    with pytest.raises(CorruptState, match="found version 1"):
        store_at(tmp_path).get(VERSIONS)


@pytest.mark.parametrize("crashed", [1, VERSIONS + 1])
def test_segments_of_a_crashed_commit_are_not_damage(tmp_path: Path, crashed: int) -> None:
    for version in range(crashed - 1):
        commit(tmp_path, version, version)
    segments = tmp_path / "stores/counts/00000/segments"
    segments.mkdir(parents=True, exist_ok=True)
    (segments / f"{crashed:010d}-0123456789abcdef.parquet").write_bytes(b"torn")
    assert store_at(tmp_path).latest == crashed - 1
    assert commit(tmp_path, crashed - 1, 7) == crashed
    assert store_at(tmp_path).getReadOnly(crashed).get(f"key-{crashed - 1}") == 7
    with pytest.raises(InvalidInput, match=f"there is no version {crashed + 1}"):
        store_at(tmp_path).get(crashed + 1)

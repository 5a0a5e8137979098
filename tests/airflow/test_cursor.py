"""Cursors and rounds of listings: pure values, and their sharing."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tidemill.airflow.waiting.cursor import MOST, Cursor, announce_files
from tidemill.airflow.waiting.listings import Round
from tidemill.sources.contract import SourceFile


def file(name: str, modified_ms: int = 1_000, etag: str = "e", source: str = "source") -> SourceFile:
    return SourceFile(source, name, etag, 1, modified_ms)


def names(files: list[SourceFile]) -> list[str]:
    return [one.path for one in files]


def test_each_file_is_announced_once_while_it_waits() -> None:
    one, two = file("a"), file("b")
    cursor, fresh = announce_files(Cursor(), [one])
    assert names(fresh) == ["a"]
    cursor, fresh = announce_files(cursor, [one, two])
    assert names(fresh) == ["b"]
    cursor, fresh = announce_files(cursor, [two])
    assert fresh == []
    cursor, fresh = announce_files(cursor, [one, two])
    assert names(fresh) == ["a"], "a rewind gave it back"


@pytest.mark.parametrize("other", [file("a", etag="f"), file("a", source="other"), file("b")])
def test_another_etag_source_or_name_is_another_file(other: SourceFile) -> None:
    cursor, _ = announce_files(Cursor(), [file("a")])
    assert announce_files(cursor, [file("a"), other])[1] == [other]


def test_a_file_with_an_earlier_time_is_announced_too() -> None:
    """Names and times of producers are in no order."""
    cursor, _ = announce_files(Cursor(), [file("a", 5_000)])
    assert names(announce_files(cursor, [file("a", 5_000), file("b", 1)])[1]) == ["b"]


def test_a_cursor_stays_small_and_forgets_nothing_that_it_announced() -> None:
    many = [file(str(number), number // 3) for number in range(5 * MOST)]
    random.Random(7).shuffle(many)
    cursor, fresh = announce_files(Cursor(), many)
    assert len(fresh) == len(many)
    assert len(json.dumps(cursor.as_json())) < 25_000
    assert announce_files(cursor, many)[1] == []
    late = file("late", 10**9)
    cursor, fresh = announce_files(cursor, [*many, late])
    assert fresh == [late]
    few = many[:10]
    cursor, fresh = announce_files(cursor, few)
    assert fresh == []
    assert cursor.before_ms == -1
    assert announce_files(cursor, [*few, file("old", 0)])[1] == [file("old", 0)]


def test_a_cursor_survives_json_and_anything_else_is_an_empty_one() -> None:
    cursor, _ = announce_files(Cursor(), [file("a"), file("b")])
    assert Cursor.of(json.loads(json.dumps(cursor.as_json()))) == cursor
    for wrong in (None, 7, "x", [], {}, {"before_ms": "1", "marks": [1, 2]}, {"marks": {"a": 1}}):
        assert Cursor.of(wrong) == Cursor()


def test_a_folder_is_listed_once_in_a_round_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("1\n")
    from tidemill.airflow.waiting import listings

    threads: list[int] = []

    def listed(uri: str, options: Any) -> Any:
        threads.append(threading.get_ident())
        return real(uri, options)

    real = listings.list_folder
    monkeypatch.setattr(listings, "list_folder", listed)

    async def both() -> None:
        one, two = Round({}), Round({})
        first, again = await asyncio.gather(one.listing(str(tmp_path)), one.listing(str(tmp_path)))
        assert first is again
        assert [entry.name for entry in first.entries] == ["a.csv"]
        assert (await two.listing(str(tmp_path))).mark == first.mark
        (tmp_path / "b.csv").write_text("1\n")
        assert (await Round({}).listing(str(tmp_path))).mark != first.mark

    asyncio.run(both())
    assert len(threads) == 3
    assert threading.get_ident() not in threads


def test_a_trigger_that_is_cancelled_does_not_cancel_the_listing_of_others(tmp_path: Path) -> None:
    async def two() -> int:
        shared = Round({})
        waits = [asyncio.ensure_future(shared.listing(str(tmp_path))) for _ in range(2)]
        await asyncio.sleep(0)
        waits[0].cancel()
        return len((await waits[1]).entries)

    assert asyncio.run(two()) == 0


def test_a_round_that_takes_long_is_followed_by_a_longer_pause() -> None:
    async def timed(works_s: float) -> float:
        shared = Round({})
        started = time.monotonic()
        _, _ = await asyncio.gather(shared.work(asyncio.sleep(works_s)), shared.rest(0.05))
        return time.monotonic() - started

    assert asyncio.run(timed(0.2)) >= 2.0
    assert 0.05 <= asyncio.run(timed(0.0)) < 1.5


def entries(*names: str, modified_ms: int = 1) -> list[Any]:
    from tidemill.store import ListedObject

    return [ListedObject(name, 1, "e", modified_ms) for name in names]


class Folder:
    """Objects in the order of their names, and what was listed of them."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.listed: list[int] = []

    def put(self, *found: Any) -> None:
        self.objects |= {one.name: one for one in found}

    def list_folder(self, uri: str, options: Any, start_after: str | None = None) -> list[Any]:
        found = [self.objects[name] for name in sorted(self.objects) if start_after is None or name > start_after]
        self.listed.append(len(found))
        return found


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Folder:
    from tidemill.airflow.waiting import listings

    made = Folder()
    monkeypatch.setattr(listings, "list_folder", made.list_folder)
    return made


def rounds(known: Any, *between: Any) -> list[set[str]]:
    """The names that each round sees, with a change before each of them."""

    async def play() -> list[set[str]]:
        seen = []
        for change in between:
            change()
            seen.append({one.name for one in (await Round({}, known).listing("s3://lake/in")).entries})
        return seen

    return asyncio.run(play())


def test_of_a_large_folder_with_growing_names_the_end_is_listed(folder: Folder) -> None:
    folder.put(*(one for n in range(10_000) for one in entries(f"{n:06}.csv", modified_ms=n)))
    known: Any = {}
    first, second, third = rounds(
        known,
        lambda: None,
        lambda: folder.put(*entries("010000.csv", modified_ms=20_000)),
        lambda: folder.objects.pop("009999.csv"),
    )
    assert folder.listed == [10_000, 101, 99]
    assert second - first == {"010000.csv"}
    assert second - third == {"009999.csv"}


def test_a_name_in_the_middle_is_seen_by_the_next_whole_listing(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemill.airflow.waiting import listings

    folder.put(*(one for n in range(3_000) for one in entries(f"{n:06}.csv", modified_ms=n)))
    known: Any = {}
    first, second = rounds(known, lambda: None, lambda: folder.put(*entries("000001-late.csv", modified_ms=9_000)))
    assert first == second
    monkeypatch.setattr(listings, "WHOLE_S", -1.0)
    (third,) = rounds(known, lambda: None)
    assert third - first == {"000001-late.csv"}
    monkeypatch.setattr(listings, "WHOLE_S", 600.0)
    rounds(known, lambda: None)
    assert folder.listed[-1] == 3_001, "while the newest names are in no order, all is listed"
    folder.put(*(one for n in range(100) for one in entries(f"x{n:03}.csv", modified_ms=10_000)))
    rounds(known, lambda: None, lambda: None)
    assert folder.listed[-2:] == [3_101, 100]


@pytest.mark.parametrize("count", [1_000, 5_000])
def test_small_folders_and_names_in_no_order_are_listed_whole(folder: Folder, count: int) -> None:
    names = random.Random(1).sample(range(10**9), count)
    folder.put(*(one for n, name in enumerate(names) for one in entries(f"{name:09}.csv", modified_ms=n)))
    rounds({}, lambda: None, lambda: None, lambda: None)
    assert min(folder.listed) >= count * 0.9

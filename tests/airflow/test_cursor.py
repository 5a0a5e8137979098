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

from tidemill.airflow.cursor import MOST, Cursor, advance
from tidemill.airflow.listings import Round
from tidemill.sources.contract import SourceFile


def file(name: str, modified_ms: int = 1_000, etag: str = "e", source: str = "source") -> SourceFile:
    return SourceFile(source, name, etag, 1, modified_ms)


def names(files: list[SourceFile]) -> list[str]:
    return [one.path for one in files]


def test_each_file_is_announced_once_while_it_waits() -> None:
    one, two = file("a"), file("b")
    cursor, fresh = advance(Cursor(), [one])
    assert names(fresh) == ["a"]
    cursor, fresh = advance(cursor, [one, two])
    assert names(fresh) == ["b"]
    cursor, fresh = advance(cursor, [two])
    assert fresh == []
    cursor, fresh = advance(cursor, [one, two])
    assert names(fresh) == ["a"], "a rewind gave it back"


@pytest.mark.parametrize("other", [file("a", etag="f"), file("a", source="other"), file("b")])
def test_another_etag_source_or_name_is_another_file(other: SourceFile) -> None:
    cursor, _ = advance(Cursor(), [file("a")])
    assert advance(cursor, [file("a"), other])[1] == [other]


def test_a_file_with_an_earlier_time_is_announced_too() -> None:
    """Names and times of producers are in no order."""
    cursor, _ = advance(Cursor(), [file("a", 5_000)])
    assert names(advance(cursor, [file("a", 5_000), file("b", 1)])[1]) == ["b"]


def test_a_cursor_stays_small_and_forgets_nothing_that_it_announced() -> None:
    many = [file(str(number), number // 3) for number in range(5 * MOST)]
    random.Random(7).shuffle(many)
    cursor, fresh = advance(Cursor(), many)
    assert len(fresh) == len(many)
    assert len(json.dumps(cursor.as_json())) < 25_000
    assert advance(cursor, many)[1] == []
    late = file("late", 10**9)
    cursor, fresh = advance(cursor, [*many, late])
    assert fresh == [late]
    few = many[:10]
    cursor, fresh = advance(cursor, few)
    assert fresh == []
    assert cursor.before_ms == -1
    assert advance(cursor, [*few, file("old", 0)])[1] == [file("old", 0)]


def test_a_cursor_survives_json_and_anything_else_is_an_empty_one() -> None:
    cursor, _ = advance(Cursor(), [file("a"), file("b")])
    assert Cursor.of(json.loads(json.dumps(cursor.as_json()))) == cursor
    for wrong in (None, 7, "x", [], {}, {"before_ms": "1", "marks": [1, 2]}, {"marks": {"a": 1}}):
        assert Cursor.of(wrong) == Cursor()


def test_a_folder_is_listed_once_in_a_round_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("1\n")
    from tidemill.airflow import listings

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

"""`tidemill verify` as a cron job calls it: exit status, lines, JSON, and beside other verbs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.shop import PIPELINE, arrive, files, opened, world
from tests.world import run
from tidemill.cli.main import main
from tidemill.verifying import verify as deep_verify


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(PIPELINE)
    arrive(tmp_path, "a", "b", "c")
    run(opened(tmp_path))
    return tmp_path


def verify(*options: str) -> int:
    return main(["verify", "shop.py:p", "--root", "root", *options])


def test_a_whole_repository_has_no_problem(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert verify() == 0
    assert capfd.readouterr().out.startswith("checked 3 commits, ")
    assert verify("--deep", "--json") == 0
    [*_, last] = capfd.readouterr().out.splitlines()
    found = json.loads(last)
    assert (found["problems"], found["commits"], found["published"], found["deep"]) == ([], 3, 3, True)


def test_a_missing_segment_is_named_with_what_it_affects(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [segment] = sorted((shop / "root/shop/state/counts").rglob("0000000001-*.parquet"))
    segment.unlink()
    assert verify() == 1
    assert capsys.readouterr().out.splitlines()[:3] == [
        f"{segment.relative_to(shop / 'root/shop')}: the object is missing",
        "  affects: state of `counts` in versions 1 to 2",
        "  hint: restore the object from a backup; nothing is repaired silently",
    ]


def test_bytes_that_changed_are_found_by_deep_only(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [segment] = sorted((shop / "root/shop/state/counts").rglob("0000000001-*.parquet"))
    data = segment.read_bytes()
    segment.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    assert verify() == 0
    assert verify("--deep") == 1
    assert "found checksum" in capsys.readouterr().out


@pytest.mark.parametrize("part_bytes", [4 << 20, 40])
def test_a_state_with_other_rows_than_its_commit_says_is_found_by_deep_only(
    part_bytes: int, shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A commit that says so by mistake is consistent in itself, so a mistake in reading it stands for one here."""
    monkeypatch.setattr(deep_verify, "_PART_BYTES", part_bytes)  # counted in one part, in all
    assert verify("--deep") == 0
    as_recorded = deep_verify._maps

    def one_more(*given: Any) -> Any:
        return ((what, columns, segments, rows + 1) for what, columns, segments, rows in as_recorded(*given))

    monkeypatch.setattr(deep_verify, "_maps", one_more)
    capsys.readouterr()
    assert (verify(), verify("--deep")) == (0, 1)
    assert "of operator `counts`: found 3 rows, expected 4\n" in capsys.readouterr().out


def test_published_files_may_go_but_not_change(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, _ = files(shop)
    first.unlink()
    assert verify("--deep") == 0
    second.write_bytes(second.read_bytes().replace(b'"n":1', b'"n":2'))
    assert verify() == 0
    capsys.readouterr()
    assert verify("--deep") == 1
    name, _, hint, _ = capsys.readouterr().out.splitlines()
    assert name.startswith(f"file://{second}: found checksum ")
    assert hint == "  hint: move it out of the folder, and run `tidemill publish --from 1 --sink counts`"


def test_files_and_records_of_versions_that_are_no_longer_kept_are_checked_by_deep(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["maintain", "shop.py:p", "--root", "root", "--keep-versions", "1"]) == 0
    assert verify("--deep") == 0
    capsys.readouterr()
    first, *_ = files(shop)
    whole = first.read_bytes()
    first.write_bytes(whole.replace(b'"n":1', b'"n":2'))
    assert (verify(), verify("--deep")) == (0, 1)
    _, name, _, hint, _ = capsys.readouterr().out.splitlines()
    assert name.startswith(f"file://{first}: found checksum ")
    assert hint == "  hint: restore it from a backup: version 0 is no longer kept"
    first.write_bytes(whole)
    for name in ("published/main/counts", "branches/main/commits", "branches/main/plans"):
        record = shop / "root/shop" / name / "0000000000.json"
        data = record.read_bytes()
        record.write_bytes(data[:-1])
        assert verify("--deep") == 1
        assert f"{name}/0000000000.json" in capsys.readouterr().out
        record.write_bytes(data)
    assert verify("--deep") == 0


def test_files_that_were_published_again_at_a_new_place_are_compared_there(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "shop.py").write_text(PIPELINE.replace('"out"', '"new"'))
    assert main(["publish", "shop.py:p", "--root", "root", "--from", "0"]) == 0
    assert verify("--deep") == 0
    assert "3 published files" in capsys.readouterr().out
    altered = sorted((shop / "new").iterdir())[0]
    altered.write_text("altered\n")
    assert verify() == 1
    assert f"{altered.name}: found 8 bytes" in capsys.readouterr().out


def test_it_writes_nothing_and_works_in_a_copy(shop: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in shop.rglob("*")}
    verify("--deep")
    assert {path: path.stat().st_mtime_ns for path in shop.rglob("*") if path in before} == before
    (shop / "root").rename(shop / "copy")
    assert main(["verify", "shop.py:p", "--root", "copy", "--deep"]) == 0


def test_an_open_plan_and_leftovers_of_a_dead_run_are_no_problem(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive(shop, "d")
    r = opened(shop)
    monkeypatch.setattr(type(r.opened.log), "create_commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run(r)
    found = opened(shop).verify(deep=True)
    assert found.problems == []
    assert found.unnamed > 0


def test_no_repository_is_an_error_not_a_problem(tmp_path: Path) -> None:
    r = world(tmp_path).open(init=False)
    with pytest.raises(tm.InvalidInput, match="has no repository"):
        r.verify()

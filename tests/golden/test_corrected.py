"""A repository in format 1 with every correction: current code reads what is kept, verifies it, and continues it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.golden import make_corrected as make
from tests.golden.make_corrected import EXPECTED, FILES, TAG
from tidemill.protocol.codec import decode, decode_entry, encode
from tidemill.protocol.records import Commit, Plan, Published

RECORDS = sorted(
    path.relative_to(make.FOLDER / "root/ledger").as_posix()
    for path in (make.FOLDER / "root").rglob("*.json")
    if path.name not in ("head.json", "touched.json")
    and path.relative_to(make.FOLDER / "root/ledger").parts[0] != "output"
)


@pytest.fixture
def r(tmp_path: Path) -> tm.Repository:
    """Return a copy of the repository, opened with current code like in a new process."""
    shutil.copytree(make.FOLDER, tmp_path / "golden")
    folder = tmp_path / "golden"
    p = make.pipeline(str(folder / "input"), str(folder / "published"), "sums")
    return tm.open(p, root=str(folder / "root"), conf={"tidemill.cache_bytes": 0})


def totals(r: tm.Repository, version: int | str | None = None, operator: str = "sums") -> dict[str, int]:
    table = r.state(operator, version=version, partial=operator == "totals")  # the code has only the new name
    return dict(zip(table["who"].to_pylist(), table["total"].to_pylist(), strict=True))


def test_the_log_is_read(r: tm.Repository) -> None:
    assert [(commit.version, commit.kind) for commit in r.log()] == [
        (12, "batch"), (11, "migrate"), (10, "batch"), (9, "requeue"), (8, "batch"),
    ]  # fmt: skip
    assert [r.commit(version).kind for version in range(8)] == [
        "batch", "batch", "forget", "batch", "batch", "rewind", "rewind", "rewind",
    ]  # fmt: skip
    assert r.commit(5).reason == "04-bad.csv is wrong"
    assert r.commit(12).replaced == [(4, 4), (6, 6)]
    assert [(one.name, one.version) for one in r.tags()] == [(TAG, 3)]


@pytest.mark.parametrize("version", list(EXPECTED))
def test_the_state_of_every_kept_version_is_unchanged(r: tm.Repository, version: int | str) -> None:
    operator = "sums" if isinstance(version, int) and version > 10 else "totals"
    assert totals(r, version, operator) == EXPECTED[version]


def test_versions_below_the_floor_are_refused(r: tm.Repository) -> None:
    with pytest.raises(tm.InvalidInput, match="it is no longer kept; versions from 8 on are kept"):
        r.state(version=4)


def test_nothing_is_damaged_and_no_forgotten_key_is_left(r: tm.Repository) -> None:
    r.adopt("moved by a test", moved=True)
    assert r.verify(deep=True, forgotten=True).problems == []


def test_the_sink_shows_the_effective_history_without_forgotten_keys(r: tm.Repository) -> None:
    shown = [json.loads(line) for path in sorted(published(r).glob("*.json")) for line in path.read_text().splitlines()]
    assert sorted((row["who"], row["total"], row["_batch_id"]) for row in shown) == [
        ("ann", 1, 0), ("ann", 3, 12), ("bob", 5, 1), ("dan", 7, 3), ("eve", 3, 8), ("fay", 4, 10),
    ]  # fmt: skip


def published(r: tm.Repository) -> Path:
    return Path(r.opened.store.uri.removeprefix("file://")).parents[1] / "published"


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_written_as_it_was_read(name: str) -> None:
    data = (make.FOLDER / "root/ledger" / name).read_bytes()
    if name.startswith("refs/"):
        record: Any = decode_entry(data, name)
    else:
        kind = Plan if "/plans/" in name else Published if name.startswith("published/") else Commit
        record = decode(kind, data, name)
    assert encode(record) == data


def test_every_kind_of_entry_and_correction_is_there() -> None:
    folder = make.FOLDER / "root/ledger"
    entries = {json.loads(path.read_bytes())["kind"] for path in folder.glob("refs/00*.json")}
    assert entries >= {"init", "tag", "hold", "floor"}
    commits = {json.loads(path.read_bytes())["kind"] for path in folder.glob("branches/main/commits/*.json")}
    assert commits == {"batch", "forget", "rewind", "requeue", "migrate"}


def test_the_repository_goes_on(r: tm.Repository) -> None:
    r.adopt("moved by a test", moved=True)
    for name in FILES:  # Git keeps no times
        assert (published(r).parent / "input" / name).exists()
    (published(r).parent / "input" / "07.csv").write_text("gus,8\n")
    assert [one.version for one in r.run(engine="local")] == [13]
    assert totals(r) == {**EXPECTED[12], "gus": 8}
    assert totals(r, TAG, "totals") == EXPECTED[TAG]


def test_keys_that_were_forgotten_before_commits_named_the_last_forget_are_still_looked_for(r: tm.Repository) -> None:
    r.adopt("moved by a test", moved=True)
    assert [one.version for one in r.commit(12).forgotten] == [2], "repeated by every commit of this time"
    assert r.forget("sums", ["bob"], "asked to", columns={"out": "who"}, drop_refs=True).version == 13
    assert [one.version for one in r.opened.log.forgotten(r.head)] == [2, 13]
    assert r.verify(forgotten=True).problems == []
    folder = published(r).parent / "input"
    (folder / "07.csv").write_text("cid,8\ngus,1\n")
    r.run(engine="local")
    assert r.commit(14).forgotten == [] and r.commit(14).forgotten_at == 13
    (state,) = [one for one in r.verify(forgotten=True).problems if one.affects == "state of `totals`"]
    assert state.what == "it holds a forgotten key"

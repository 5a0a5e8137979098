"""Where a pipeline may write: not where it reads, and no folders that readers take for other times. Readers may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import InvalidInput
from tidemill.pipeline.places import check_places
from tidemill.testing import Tester

SCHEMA = "k string, at timestamp"


def looped(source: Any, sink: Any) -> tm.Pipeline:
    """A pipeline that reads and writes without a state."""
    p = tm.Pipeline("loop")
    p.read(tm.Files(source, format="json", schema=SCHEMA) if isinstance(source, str) else source).write(sink)
    return p


def refusal(p: tm.Pipeline, **storage_options: Any) -> str | None:
    """What `check_places` says against a pipeline; None where it takes it."""
    try:
        check_places(p, storage_options)
    except InvalidInput as error:
        return error.message
    return None


@pytest.mark.parametrize(
    "same", ["{}", "{}/", "file://{}", "file:{}", "~", "~/", "file:~", ".", "{}/../home", "../home"]
)
def test_a_sink_in_the_folder_that_is_read_is_refused(
    tmp_path: Path, same: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    sink = same.format(home)
    assert refusal(looped(str(home), tm.Json(sink))) == (
        f"sink `output` writes to `{sink}`, the folder that the source `source` reads"
    )


@pytest.mark.parametrize(
    ("source", "sink"),
    [("s3://lake/in", "s3a://lake/in/"), ("s3://lake", "s3://lake/"), ("memory://lake/in", "memory://lake/in")],
)
def test_a_folder_of_a_store_is_one_however_it_is_written(source: str, sink: str) -> None:
    assert "the folder that the source `source` reads" in str(refusal(looped(source, tm.Json(sink))))


def test_one_name_at_two_endpoints_is_two_folders() -> None:
    p, here, there = looped("s3://lake/in", tm.Json("s3://lake/in")), "http://a", "http://b"
    assert refusal(p, source={"endpoint_url": here}, sink={"endpoint_url": there}) is None
    assert refusal(p, source={"endpoint_url": here}, sink={"endpoint_url": here}) is not None


@pytest.mark.parametrize(
    ("sink", "recursive", "is_read"),
    [
        ("in/out", True, True),
        ("in/day=1", False, True),
        ("in/out", False, False),
        ("in/_out", True, False),
        ("in-out", True, False),
        (".", True, False),
    ],
)
def test_a_sink_below_the_folder_is_refused_where_its_files_are_read(
    tmp_path: Path, sink: str, recursive: bool, is_read: bool
) -> None:
    source = tm.Files(tmp_path / "in", format="json", schema=SCHEMA, recursiveFileLookup=recursive)
    found = refusal(looped(source, tm.Json(tmp_path / sink)))
    assert (found is not None) == is_read
    assert not is_read or "below the folder that the source `source` reads" in str(found)


@pytest.mark.parametrize(
    ("pattern", "is_read"),
    [("*.json", True), ("loop.output-*", True), ("*.jsonl", False), ("*.{csv,parquet}", False), ("[0-9]*", False)],
)
def test_a_sink_whose_names_the_source_leaves_out_is_taken(tmp_path: Path, pattern: str, is_read: bool) -> None:
    source = tm.Files(tmp_path, format="json", schema=SCHEMA, pathGlobFilter=pattern)
    assert (refusal(looped(source, tm.Json(tmp_path))) is not None) == is_read


def test_the_place_of_another_kind_of_sink_may_be_a_path_or_no_folder_at_all(tmp_path: Path) -> None:
    sink: Any = tm.Json(tmp_path)
    p = looped(str(tmp_path), sink)
    for path, is_read in ((tmp_path, True), (None, False), ("", False), ("jdbc://db/table", False)):
        sink.path = path
        assert (refusal(p) is not None) == is_read


def by_instants(time_zone: str, folder: Path) -> tm.Pipeline:
    """A pipeline whose sink has folders by a timestamp."""
    p = tm.Pipeline("days", timeZone=time_zone)
    p.read(tm.Rows(SCHEMA)).write(tm.Parquet(folder / "out", partitionBy=["at"]))
    return p


@pytest.mark.parametrize(
    "zone", ["UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "UCT", "Universal", "Greenwich", "Etc/GMT+0"]
)
def test_folders_by_instants_are_taken_in_utc_whatever_it_is_called(tmp_path: Path, zone: str) -> None:
    assert refusal(by_instants(zone, tmp_path)) is None


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/London", "Etc/GMT+1", "Africa/Abidjan"])
def test_folders_by_instants_are_refused_outside_utc(tmp_path: Path, zone: str) -> None:
    told = f"sink `output` is partitioned by `at`, a timestamp, and the pipeline's time zone is {zone}: "
    assert str(refusal(by_instants(zone, tmp_path))).startswith(told)


def test_what_the_hint_about_instants_says_runs(tmp_path: Path) -> None:
    p = by_instants("America/New_York", tmp_path)
    with pytest.raises(InvalidInput) as refused:
        Tester(p)
    hint = str(refused.value.hint)
    assert hint == (
        """partition by a date or a text: .sql('SELECT *, CAST("at" AS DATE) AS day FROM rows'), """
        "then partitionBy=['day']"
    )
    statement = hint.partition(".sql('")[2].partition("')")[0]
    days = tm.Pipeline("days", timeZone="America/New_York")
    days.read(tm.Rows(SCHEMA)).sql(statement).write(tm.Parquet(tmp_path / "out", partitionBy=["day"]))
    Tester(days).batch([("a", "2013-01-01T02:00:00Z")])
    assert [folder.name for folder in (tmp_path / "out").glob("day=*")] == ["day=2012-12-31"]


@pytest.mark.parametrize(
    "write",
    [
        lambda r: r.init(),
        lambda r: r.run(engine="local"),
        lambda r: r.sweep(engine="local"),
        lambda r: r.replan("it cannot run"),
    ],
)
def test_a_repository_that_may_not_be_written_any_more_can_be_read(tmp_path: Path, write: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"k":"a"}\n')
    before = tm.open(looped(str(tmp_path / "in"), tm.Json(tmp_path / "out")), root=str(tmp_path / "root"))
    before.init()
    before.run(engine="local")
    now = tm.open(looped(str(tmp_path / "in"), tm.Json(tmp_path / "in")), root=str(tmp_path / "root"))
    with pytest.raises(InvalidInput, match="the folder that the source `source` reads"):
        write(now)
    assert (now.head.version, now.outputs().num_rows, len(now.commits())) == (0, 1, 1)  # type: ignore[union-attr]

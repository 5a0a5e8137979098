"""Publishing by records: what a run publishes, asks and warns of."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

import tidemill as tm
from tests.world import World, run
from tidemill.cli import render
from tidemill.errors import InvalidInput, StoreUnavailable
from tidemill.publishing.publish import published_through


def orders(folder: Path, source: str = "in", sink: str = "out") -> World:
    """A pipeline with relative folders, unless others are given."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = p.read(tm.Files(source, format="csv", schema="k string", maxFilesPerTrigger=1))
        rows.groupBy("k").agg(n=tm.count(), name="n").write(tm.Json(sink))

    return World(folder, build, name="orders")


def test_a_missing_relative_folder_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Sources and sinks of a run in another folder than the one before: refused, and warned of."""
    here, there, elsewhere = tmp_path / "here", tmp_path / "there", tmp_path / "elsewhere"
    (there / "in").mkdir(parents=True)
    elsewhere.mkdir()
    world = orders(here)
    monkeypatch.chdir(here)
    r = world.open()
    for number in (0, 1):
        world.arrive("x\n")
        assert run(r) == [number]
    assert caplog.messages == []
    monkeypatch.chdir(elsewhere)
    with pytest.raises(InvalidInput, match="list source `source` at `in`: no such folder"):
        run(r)
    assert not (elsewhere / "out").exists()  # though version 1 may have to be published: not here
    caplog.clear()
    monkeypatch.chdir(there)
    assert run(r) == []
    assert caplog.messages == [
        f"sink `n`: version 1 was published in `out`, but this folder does not exist in {there}, the working folder of "
        "this process; new versions are published there. If the path is right, `tidemill publish --from 0` restores "
        "the files; otherwise use an absolute path"
    ]
    monkeypatch.chdir(elsewhere)
    with pytest.raises(InvalidInput, match="list source `source` at `in`: no such folder") as raised:
        run(r)
    assert raised.value.hint == (
        f"relative paths resolve against the working directory of the process, which is {elsewhere}"
    )


def test_a_missing_folder_is_a_warning_after_the_first_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    world = orders(tmp_path)
    world.arrive("x\n")
    assert world.run() == [0]
    shutil.rmtree(tmp_path / "out")
    assert world.run() == []
    assert [message.partition(", but")[0] for message in caplog.messages] == [
        "sink `n`: version 0 was published in `out`"
    ]


@pytest.mark.parametrize("form", ["~", "file:"])
def test_a_folder_by_home_or_scheme_is_not_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    """Neither a warning for a sink nor a hint for a source, though the text begins with no slash."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    place = "~" if form == "~" else f"file:{tmp_path}"
    world = orders(tmp_path, f"{place}/in", f"{place}/out")
    for number in range(3):
        world.arrive("x\n")
        assert world.run() == [number]
    assert caplog.messages == []
    assert len(list((tmp_path / "out").glob("*.json"))) == 3
    shutil.rmtree(world.inbox)
    with pytest.raises(InvalidInput, match="no such folder") as raised:
        world.run()
    assert raised.value.hint is None


def test_published_versions_are_found_by_their_records(tmp_path: Path) -> None:
    world = World(tmp_path)
    r = world.open()
    assert published_through(r.opened, r.head) == -1
    for version in range(2):
        world.arrive("x,1\n")
        run(r)
        assert published_through(r.opened, r.head) == version
    (record,) = (tmp_path / "root").rglob("published/main/counts/0000000001.json")
    record.unlink()  # as if the run had died before it published
    assert published_through(r.opened, r.head) == 0
    assert "through version 0; the next run publishes the rest" in str(render._status_rows(r.status()))


def test_status_says_what_is_published_without_asking_the_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink on S3 without credentials: the records say that nothing is published."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    world = orders(tmp_path, str(tmp_path / "in"), str(tmp_path / "out"))
    world.arrive("x\n")
    assert world.run() == [0]
    world.arrive("y\n")
    moved = orders(tmp_path, str(tmp_path / "in"), "s3://bucket/out").open(init=False)
    with pytest.raises(StoreUnavailable, match="credentials"):
        run(moved)  # it cannot tell who owns the new place
    found = moved.status()
    assert (found.head, found.published_through, found.published_known, found.problem) == (0, 0, True, None)
    later = dataclasses.replace(found, published_known=False, head=1)
    assert "at least through version 0; see `problem`" in str(render._status_rows(later))
    unlisted = orders(tmp_path, "s3://bucket/in", "s3://bucket/out").open(init=False).status()
    assert (unlisted.head, unlisted.published_through) == (0, 0)
    assert unlisted.problem is not None
    assert unlisted.problem.count("credentials") == 1  # of the source

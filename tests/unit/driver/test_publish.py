"""Publishing: committed files appear once, under names of their own, whatever was interrupted before."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.cli import render
from tidemill.driver.publish import published_through
from tidemill.errors import CorruptState, InvalidInput, StoreUnavailable
from tidemill.protocol.records import OutputFile, digest
from tidemill.sinks.contract import Publication
from tidemill.sinks.publish import public_name, publish_files
from tidemill.store import Store, open_store


def output(name: str, suffix: str = "", extension: str = ".parquet") -> OutputFile:
    """A file whose content is its name."""
    return OutputFile(name, digest(name.encode()), len(name), 1, 0, 0, 0, suffix, extension)


FILES = [output("output/s/main/0-a.parquet"), output("output/s/main/0-b.json", "country=UK/", ".json")]
WHOSE = Publication("p", "0123456789abcdef", "s", 7)
NAMES = ["country=UK/p.s-0000000007-00001-01234567.json", "p.s-0000000007-00000-01234567.parquet"]


def committed(store: Store) -> Store:
    for file in FILES:
        store.put(file.name, file.name.encode())
    return store


def names(store: Store) -> list[str]:
    return [entry.name for entry in store.list("")]


def test_names_are_made_of_pipeline_sink_version_part_and_repository() -> None:
    name = public_name(WHOSE, 1, FILES[1])
    assert name.startswith("country=UK/")
    assert name.endswith(".json")
    for part in ("p", "s", "0000000007", "00001"):
        assert part in name
    others = [
        public_name(Publication("q", "0123456789abcdef", "s", 7), 1, FILES[1]),
        public_name(Publication("p", "fedcba9876543210", "s", 7), 1, FILES[1]),
        public_name(Publication("p", "0123456789abcdef", "t", 7), 1, FILES[1]),
        public_name(Publication("p", "0123456789abcdef", "s", 8), 1, FILES[1]),
        public_name(WHOSE, 2, FILES[1]),
    ]
    assert len({name, *others}) == 6
    assert public_name(Publication("a-b", "u", "c", 7), 0, FILES[0]) != public_name(
        Publication("a", "u", "b-c", 7), 0, FILES[0]
    )


@pytest.mark.parametrize("sink_kind", ["file", "memory"])
def test_files_appear_once_and_a_second_time_copies_nothing(tmp_path: Path, sink_kind: str) -> None:
    store = committed(open_store(str(tmp_path / "root")))
    sink = open_store(str(tmp_path / "out") if sink_kind == "file" else f"memory://publish-{tmp_path.name}")
    assert publish_files(store, sink, FILES, WHOSE) == 2
    assert names(sink) == NAMES
    assert sink.get(NAMES[0]) == b"output/s/main/0-b.json"
    assert publish_files(store, sink, FILES, WHOSE) == 0


def test_unpublished_files_are_copied_and_published_ones_stay(tmp_path: Path) -> None:
    store = committed(open_store(str(tmp_path / "root")))
    sink = open_store(str(tmp_path / "out"))
    publish_files(store, sink, FILES[:1], WHOSE)
    before = sink.stat(NAMES[1])
    assert publish_files(store, sink, FILES, WHOSE) == 1
    assert names(sink) == NAMES
    assert sink.stat(NAMES[1]) == before


def test_a_missing_committed_file_is_corrupt_state(tmp_path: Path) -> None:
    with pytest.raises(CorruptState) as caught:
        publish_files(open_store(str(tmp_path / "root")), open_store(str(tmp_path / "out")), FILES, WHOSE)
    assert "publish `output/s/main/0-a.parquet` as " in caught.value.first_line


@pytest.mark.parametrize("sink_kind", ["file", "memory"])
@pytest.mark.parametrize("content", [b"output/s/main/0-b.jsoo", b"output/s/main/0-b.js", b""])
def test_a_committed_file_with_other_content_is_not_published(tmp_path: Path, sink_kind: str, content: bytes) -> None:
    store = committed(open_store(str(tmp_path / "root")))
    store.put(FILES[1].name, content)
    sink = open_store(str(tmp_path / "out") if sink_kind == "file" else f"memory://publish-{tmp_path.name}")
    with pytest.raises(CorruptState) as caught:
        publish_files(store, sink, FILES, WHOSE)
    assert caught.value.first_line == (
        f"publish `{FILES[1].name}` as {sink.uri}/{NAMES[0]}: found checksum {digest(content)}, "
        f"but the commit records {FILES[1].checksum}"
    )
    assert names(sink) == NAMES[1:]


def test_a_committed_file_of_another_size_is_corrupt_state(tmp_path: Path) -> None:
    store, sink = committed(open_store(str(tmp_path / "root"))), open_store(str(tmp_path / "out"))
    with pytest.raises(CorruptState, match="found size 25, but the commit records 27"):
        publish_files(store, sink, [dataclasses.replace(FILES[0], size=27)], WHOSE)
    assert names(sink) == []


def test_objects_outside_the_file_system_are_copied_by_their_store(tmp_path: Path) -> None:
    """Such a store checks its own objects, so the driver does not read the bytes."""
    store, sink = committed(open_store(f"memory://root-{tmp_path.name}")), open_store(f"memory://out-{tmp_path.name}")
    store.put(FILES[1].name, b"another")
    assert publish_files(store, sink, FILES, WHOSE) == 2
    assert sink.get(NAMES[0]) == b"another"


def orders(root: Path, source: str = "in", sink: str = "out") -> tm.Repository:
    """A pipeline with relative folders, unless others are given."""
    p = tm.Pipeline("orders")
    rows = p.read(tm.Files(source, format="csv", schema="k string", maxFilesPerTrigger=1))
    rows.groupBy("k").agg(n=tm.count(), name="n").write(tm.Json(sink))
    return tm.open(p, root=str(root))


def test_a_missing_relative_folder_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Sources and sinks of a run in another folder than the one before: refused, and warned of."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        (folder / "in").mkdir(parents=True)
    (here / "in" / "a.csv").write_text("x\n")
    r = orders(tmp_path / "root")
    monkeypatch.chdir(here)
    r.init()
    assert [one.version for one in r.run(engine="local")] == [0]
    (here / "in" / "b.csv").write_text("y\n")
    assert [one.version for one in r.run(engine="local")] == [1]
    assert caplog.messages == []
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="list source `source` at `in`: no such folder"):
        r.run(engine="local")
    assert not (tmp_path / "out").exists()  # though version 1 may have to be published: not here
    caplog.clear()
    monkeypatch.chdir(there)
    assert [one.version for one in r.run(engine="local")] == []
    assert caplog.messages == [
        f"sink `n`: version 0 was published in `out`, but this folder does not exist in {there}, the working folder of "
        "this process; new versions are published there: use an absolute path"
    ]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="list source `source` at `in`: no such folder") as raised:
        r.run(engine="local")
    assert raised.value.hint == (
        f"relative paths resolve against the working directory of the process, which is {tmp_path}"
    )


@pytest.mark.parametrize("form", ["~", "file:"])
def test_a_folder_by_home_or_scheme_is_not_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    """Neither a warning for a sink nor a hint for a source, though the text begins with no slash."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    place = "~" if form == "~" else f"file:{tmp_path}"
    (tmp_path / "in").mkdir()
    r = orders(tmp_path / "root", f"{place}/in", f"{place}/out")
    r.init()
    for name in "abc":
        (tmp_path / "in" / f"{name}.csv").write_text("x\n")
        assert len(r.run(engine="local")) == 1
    assert caplog.messages == []
    assert len(list((tmp_path / "out").glob("*.json"))) == 3
    shutil.rmtree(tmp_path / "in")
    with pytest.raises(InvalidInput, match="no such folder") as raised:
        r.run(engine="local")
    assert raised.value.hint is None


def test_published_versions_are_found_by_asking_the_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = orders(tmp_path / "root")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    r.init()
    assert published_through(r.context, r.head) == -1
    for version, name in enumerate("ab"):
        (tmp_path / "in" / f"{name}.csv").write_text("x\n")
        r.run(engine="local")
        assert published_through(r.context, r.head) == version
    (last,) = (tmp_path / "out").glob("*0000000001*")
    last.unlink()  # as if the run had died before it published
    assert published_through(r.context, r.head) == 0
    assert "through version 0; the next run publishes the rest" in str(render._status_rows(r.status()))


def test_status_reports_commits_even_if_a_sink_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink on S3 without credentials: status reports the commits, and why it does not know more."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("x\n")
    r = orders(tmp_path / "root", str(tmp_path / "in"), "s3://bucket/out")
    r.init()
    with pytest.raises(StoreUnavailable):
        r.run(engine="local")  # commits, and cannot publish
    found = r.status()
    assert (found.head, found.published_through, found.published_known) == (0, -1, False)
    assert found.problem is not None
    assert found.problem.startswith("cannot tell which versions are published: ")
    assert "credentials" in found.problem
    assert found.waiting_files == {"source": 0}
    assert "unknown; see `problem`" in str(render._status_rows(found))
    later = dataclasses.replace(found, published_through=0, head=1)
    assert "at least through version 0; see `problem`" in str(render._status_rows(later))
    unlisted = orders(tmp_path / "root", "s3://bucket/in", "s3://bucket/out").status()
    assert (unlisted.head, unlisted.published_known) == (0, False)
    assert unlisted.problem is not None
    assert unlisted.problem.count("credentials") >= 2  # of the source, and of the sink

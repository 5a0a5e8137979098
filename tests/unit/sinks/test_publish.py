"""Publishing into a folder: files appear once, with the content that the commit says, under names that say so."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.servers.s3 import S3Server
from tidemill.errors import CorruptState
from tidemill.protocol.records import OutputFile, PublishedFile, digest
from tidemill.sinks.contract import Change, Owner, SinkPlace
from tidemill.sinks.folder import Folder
from tidemill.sinks.public import parsed, public_name
from tidemill.store import Store, open_store


def output(name: str, suffix: str = "", extension: str = ".parquet") -> OutputFile:
    """A file whose content is its name."""
    return OutputFile(name, digest(name.encode()), len(name), 1, 0, 0, 0, suffix, extension)


FILES = [output("output/s/main/0-a.parquet"), output("output/s/main/0-b.json", "country=UK/", ".json")]
ON_S3 = pytest.mark.servers("use an S3 server")
WHOSE = Owner("p", "0123456789abcdef", "s")
NAMES = [
    "country=UK/p.s-0000000007-00001-01234567-" + FILES[1].checksum[:12] + ".json",
    "p.s-0000000007-00000-01234567-" + FILES[0].checksum[:12] + ".parquet",
]


class Opened(Folder):
    """A folder that is open already."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.uri, ".parquet")
        object.__setattr__(self, "store", store)

    def _store(self, at: SinkPlace) -> Store:
        del at
        return self.__dict__["store"]


def place(store: Store) -> SinkPlace:
    return SinkPlace(WHOSE, store, None)


def publish(store: Store, folder: Store, files: Sequence[OutputFile] = FILES) -> list[PublishedFile]:
    change = Change(7, pa.schema([]), list(enumerate(files)))
    return Opened(folder).apply(change, place(store)).files


def committed(store: Store) -> Store:
    for file in FILES:
        store.put(file.name, file.name.encode())
    return store


def names(store: Store) -> list[str]:
    return [entry.name for entry in store.list("")]


@pytest.fixture(
    params=["file", "memory", *(pytest.param(kinds, marks=ON_S3) for kinds in ("s3", "file to s3", "s3 to file"))]
)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Store, Store]:
    """A repository with the committed files, and an empty sink. The ETags are in the records, as a batch notes them."""
    root, _, sink = request.param.partition(" to ")

    def opened(kind: str, name: str) -> Store:
        if kind == "file":
            return open_store(str(tmp_path / name))
        if kind == "memory":
            return open_store(f"memory://{uuid.uuid4().hex}")
        server: S3Server = request.getfixturevalue("s3_server")
        return open_store(server.new_root(), server.options)

    return committed(opened(root, "root")), opened(sink or root, "out")


def with_etags(store: Store) -> list[OutputFile]:
    return [dataclasses.replace(file, etag=store.put(file.name, file.name.encode()) or "") for file in FILES]


def test_names_are_made_of_pipeline_sink_version_place_repository_and_content() -> None:
    name = public_name(WHOSE, 7, 1, FILES[1])
    assert name == NAMES[0]
    changes = [{"pipeline": "q"}, {"uuid": "fedcba9876543210"}, {"sink": "t"}]
    others = [public_name(dataclasses.replace(WHOSE, **change), 7, 1, FILES[1]) for change in changes]
    others += [public_name(WHOSE, 8, 1, FILES[1]), public_name(WHOSE, 7, 2, FILES[1])]
    others += [public_name(WHOSE, 7, 1, dataclasses.replace(FILES[1], checksum="0" * 32))]
    assert len({name, *others}) == 7
    one, two = Owner("a-b", "0" * 32, "c"), Owner("a", "0" * 32, "b-c")
    assert public_name(one, 7, 0, FILES[0]) != public_name(two, 7, 0, FILES[0])


def test_names_are_recognised() -> None:
    for name in NAMES:
        found = parsed(name)
        assert found is not None
        assert found.is_ours(WHOSE)
        assert (found.version, found.uuid) == (7, "01234567")
        assert found.is_of(dataclasses.replace(WHOSE, uuid="f" * 16))
        assert not found.is_ours(dataclasses.replace(WHOSE, uuid="f" * 16))
        assert not found.is_of(dataclasses.replace(WHOSE, sink="t"))
    for other in ("", "data.parquet", NAMES[1] + "/x", "p.s-7-0-01234567-0.parquet", "_SUCCESS"):
        assert parsed(other) is None


def test_the_version_of_a_sink_with_digits_in_its_name_is_not_mistaken() -> None:
    tricky = dataclasses.replace(WHOSE, sink="s-0000000007-00000")
    found = parsed(public_name(tricky, 7, 0, FILES[0]))
    assert found is not None
    assert (found.sink, found.is_of(WHOSE)) == (tricky.sink, False)


def test_files_appear_once_and_a_second_call_changes_nothing(stores: tuple[Store, Store]) -> None:
    store, folder = stores
    files = with_etags(store)
    made = publish(store, folder, files)
    assert names(folder) == NAMES
    assert folder.get(NAMES[0]) == b"output/s/main/0-b.json"
    assert [(one.name, one.checksum, one.size, one.rows) for one in made] == [
        (NAMES[1], FILES[0].checksum, FILES[0].size, 1),
        (NAMES[0], FILES[1].checksum, FILES[1].size, 1),
    ]
    before = list(folder.list())
    assert publish(store, folder, files) == made
    assert [entry.modified_ms for entry in folder.list()] == [entry.modified_ms for entry in before]
    etags = {entry.name: entry.etag for entry in folder.list()}
    assert all(one.etag in ("", etags[one.name]) for one in made)
    assert all(one.etag for one in made) is (folder.local_path("x") is None)


def test_missing_files_are_copied_and_others_stay(tmp_path: Path) -> None:
    store, folder = committed(open_store(str(tmp_path / "root"))), open_store(str(tmp_path / "out"))
    publish(store, folder, FILES[:1])
    before = folder.stat(NAMES[1])
    publish(store, folder)
    assert names(folder) == NAMES
    assert folder.stat(NAMES[1]) == before


def test_a_missing_committed_file_is_corrupt_state(tmp_path: Path) -> None:
    with pytest.raises(CorruptState) as caught:
        publish(open_store(str(tmp_path / "root")), open_store(str(tmp_path / "out")))
    assert "copy `output/s/main/0-a.parquet` to " in caught.value.first_line


@pytest.mark.parametrize("content", [b"output/s/main/0-b.jsoo", b"output/s/main/0-b.js", b""])
def test_a_replaced_committed_file_is_not_published(stores: tuple[Store, Store], content: bytes) -> None:
    store, folder = stores
    files = with_etags(store)
    store.put(FILES[1].name, content)
    with pytest.raises(CorruptState) as caught:
        publish(store, folder, files)
    assert caught.value.first_line.startswith(f"copy `{FILES[1].name}` to {folder.uri}/{NAMES[0]}: ")
    assert f"found checksum {digest(content)}, but the commit records {FILES[1].checksum}" in caught.value.first_line
    assert names(folder) == NAMES[1:]


def test_without_an_etag_bytes_are_compared_with_the_commit(stores: tuple[Store, Store]) -> None:
    store, folder = stores
    store.put(FILES[1].name, b"another")
    with pytest.raises(CorruptState, match="found checksum"):
        publish(store, folder)


def test_a_published_file_with_another_content_is_corrupt_state(stores: tuple[Store, Store]) -> None:
    store, folder = stores
    files = with_etags(store)
    folder.put(NAMES[0], b"another")
    with pytest.raises(CorruptState, match=f"compare {folder.uri}/{NAMES[0]}: found checksum") as caught:
        publish(store, folder, files)
    assert caught.value.hint.startswith("move the altered file out of the folder and repeat the command")
    assert folder.get(NAMES[0]) == b"another"
    store.delete(FILES[1].name)
    with pytest.raises(CorruptState) as lost:
        publish(store, folder, files)
    assert lost.value.hint.startswith("restore the file from a backup: the repository does not have its rows any more")


def test_a_version_that_another_history_published_is_refused(stores: tuple[Store, Store]) -> None:
    """A restored backup makes a version again, with other content."""
    store, folder = stores
    publish(store, folder)
    again = dataclasses.replace(FILES[0], checksum="0" * 32)
    with pytest.raises(CorruptState, match="which this repository published for the same version") as caught:
        publish(store, folder, [again])
    assert f"{folder.uri}/{NAMES[1]}" in caught.value.first_line
    assert names(folder) == NAMES


def test_files_of_other_sinks_versions_and_repositories_do_not_matter(stores: tuple[Store, Store]) -> None:
    store, folder = stores
    changes = [{"sink": "t"}, {}, {"uuid": "f" * 16}, {"pipeline": "q"}]
    others = [public_name(dataclasses.replace(WHOSE, **change), 7 if change else 8, 0, FILES[0]) for change in changes]
    for name in others:
        folder.put(name, b"other")
    publish(store, folder)
    assert names(folder) == sorted([*NAMES, *others])
    found = [(one.name, one.version, one.is_ours) for one in Opened(folder).seen(place(store))]
    ours = [(NAMES[0], 7, True), (NAMES[1], 7, True), (others[1], 8, True)]
    assert sorted(found) == sorted([*ours, (others[2], 7, False)])


def test_a_file_that_another_process_publishes_meanwhile_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, folder = committed(open_store(str(tmp_path / "root"))), open_store(str(tmp_path / "out"))
    monkeypatch.setattr(folder, "list", lambda *_: iter(()))
    folder.put(NAMES[1], FILES[0].name.encode())
    folder.put(NAMES[0], b"another")
    with pytest.raises(CorruptState, match=f"compare {folder.uri}/{NAMES[0]}: found checksum"):
        publish(store, folder)


def test_withdrawing_deletes_only_files_of_this_sink(tmp_path: Path) -> None:
    store, folder = committed(open_store(str(tmp_path / "root"))), open_store(str(tmp_path / "out"))
    publish(store, folder)
    folder.put("data.parquet", b"")
    for name in ("data.parquet", public_name(dataclasses.replace(WHOSE, sink="t"), 7, 0, FILES[0])):
        with pytest.raises(CorruptState, match="this is not the name of a file of sink `s`"):
            Opened(folder).remove(place(store), [NAMES[0], name])
    assert names(folder) == sorted([*NAMES, "data.parquet"])
    for _ in range(2):
        Opened(folder).remove(place(store), NAMES)
        assert names(folder) == ["data.parquet"]

"""Guarantees of the local store alone: durability, racing processes, leftovers of dead ones, failing disks."""

from __future__ import annotations

import errno
import multiprocessing
import os
import re
from pathlib import Path

import pytest

from tidemill.errors import InvalidInput, StoreUnavailable
from tidemill.store import Store, local_files, open_store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture(params=["unnamed", "named"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Files without a name until they are whole, or a file system that does not have these."""
    if request.param == "named":
        monkeypatch.setattr(local_files, "_UNNAMED", 0)
    return str(request.param)


@pytest.fixture
def store(root: Path) -> Store:
    return open_store(str(root))


def _race(root: str, rounds: int, number: int, barrier: multiprocessing.Barrier) -> list[int]:  # type: ignore[valid-type]
    store = open_store(root).at("race")
    won = []
    for turn in range(rounds):
        barrier.wait(60)
        if store.create(f"{turn:03d}", f"{number}".encode() * 1000):
            won.append(turn)
    return won


def test_of_many_processes_one_create_wins(root: Path, store: Store) -> None:
    context = multiprocessing.get_context("spawn")
    rounds, writers = 50, 4
    with context.Manager() as manager, context.Pool(writers) as pool:
        barrier = manager.Barrier(writers)
        won = pool.starmap(_race, [(str(root), rounds, number, barrier) for number in range(writers)])
    assert sorted(turn for turns in won for turn in turns) == list(range(rounds))
    for number, turns in enumerate(won):
        for turn in turns:
            assert store.get(f"race/{turn:03d}") == f"{number}".encode() * 1000


@pytest.mark.parametrize("verb", ["put", "create", "copy"])
@pytest.mark.parametrize("there", [False, True])
def test_file_and_folders_are_fsynced_before_a_write_returns(
    root: Path, store: Store, how: str, verb: str, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there and verb == "create":
        return
    store.put("source", b"content")
    if there:
        store.put("a/b/c", b"before")
    steps = record_steps(root, monkeypatch)
    if verb == "copy":
        store.copy("source", "a/b/c")
    else:
        getattr(store, verb)("a/b/c", b"content")
    # every new folder in the one above it, then the content, then the name
    folders = [] if there else ["mkdir /a", "fsync /", "mkdir /a/b", "fsync /a"]
    assert steps == [*folders, "fsync content", "name /a/b/c", "fsync /a/b"]


def record_steps(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what becomes durable in which order, without the folder of temporary names."""
    steps: list[str] = []
    real = {name: getattr(os, name) for name in ("fsync", "link", "replace", "mkdir")}

    def below_root(path: object) -> str:
        return str(path).removeprefix(str(root)) or "/"

    def step(verb: str, path: object) -> None:
        if not below_root(path).startswith("/.tmp"):
            steps.append(f"{verb} {below_root(path)}")

    def fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        is_content = "/.tmp/" in path or path.endswith(" (deleted)")
        steps.append("fsync content" if is_content else f"fsync {below_root(path)}")
        real["fsync"](descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", lambda a, b, **how: (real["link"](a, b, **how), step("name", b))[0])
    monkeypatch.setattr(os, "replace", lambda a, b: (real["replace"](a, b), step("name", b))[0])
    monkeypatch.setattr(os, "mkdir", lambda *a: (real["mkdir"](*a), step("mkdir", a[0]))[0])
    return steps


def test_a_hint_is_not_fsynced(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a/b", b"old")
    monkeypatch.setattr(os, "fsync", lambda fd: pytest.fail("fsynced"))
    store.put_hint("a/b", b"new")
    assert store.get("a/b") == b"new"


def test_nothing_is_left_in_the_folder_of_temporary_names(root: Path, store: Store, how: str) -> None:
    below = store.at("a").at("b")
    for write in (below.put, below.create, below.put_hint, below.put):
        write("c", b"content")
    below.copy("c", "d")
    assert sorted(path.name for path in root.rglob("*")) == ["a", "b", "c", "d"]


def test_files_left_by_a_dead_process_are_never_listed(root: Path, store: Store) -> None:
    store.at("p").put("a", b"")
    for folder in (root / ".tmp", root / "p" / ".tmp"):
        folder.mkdir(exist_ok=True)
        (folder / "1-stale").write_bytes(b"half")
    assert [entry.name for entry in store.list()] == ["p/a"]
    assert [entry.name for entry in store.at("p").list()] == ["a"]


def test_the_loser_of_a_create_sees_a_durable_winner(
    root: Path, store: Store, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a/b", b"")
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    assert not store.create("a/b", b"")
    assert synced[-1] == str(root / "a")


def test_a_link_whose_answer_was_lost_is_ours(store: Store, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def lost(source: str, target: str, **how: object) -> None:
        link(source, target, **how)
        raise FileExistsError(errno.EEXIST, "File exists", target)

    monkeypatch.setattr(os, "link", lost)
    assert store.create("a", b"content")


@pytest.mark.parametrize(
    ("number", "reason", "hint"),
    [
        (errno.ENOSPC, "No space left on device", "free space on the disk, then run again"),
        (errno.EDQUOT, "Disk quota exceeded", "free space or raise the quota, then run again"),
        (errno.EIO, "Input/output error", "check the disk"),
        (errno.EACCES, "Permission denied", "give this user access to the folder"),
        (errno.EROFS, "Read-only file system", "mount the file system for writing, or choose another root"),
        (errno.ESTALE, "Stale file handle", "check the file system, then run again"),
    ],
)
def test_errors_of_a_failing_disk_have_a_hint(
    root: Path, store: Store, how: str, number: int, reason: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("old", b"content")

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", fail)
        for verb, act in (
            ("write", lambda: store.put("a/b", b"")),
            ("create", lambda: store.create("a/b", b"")),
            ("write", lambda: store.copy("old", "a/b")),
        ):
            room = r"; needed \d bytes, [\d,]+ bytes free" if number == errno.ENOSPC else ""
            message = f"^{re.escape(f'{verb} `{root}/a/b`: {reason}')}{room}\nhint: {hint}$"
            with pytest.raises(StoreUnavailable, match=message):
                act()
        failing.setattr(os, "scandir", fail)
        with pytest.raises(StoreUnavailable, match=f"^{re.escape(f'list `{root}/`: {reason}')}"):
            list(store.list())
    assert [entry.name for entry in store.list()] == ["old"]
    assert [path.name for path in root.rglob("*") if path.is_file()] == ["old"]


def test_a_file_system_without_hard_links_is_refused(
    root: Path, store: Store, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(InvalidInput, match=f"create `{root}/a`: the file system refuses hard links"):
        store.create("a", b"")


def test_a_name_that_does_not_fit_the_file_system_is_refused(root: Path, store: Store, how: str) -> None:
    store.put("file", b"")
    store.put("folder/a", b"")
    writes = (store.put, store.create, store.put_hint)
    for name, reason in (
        ("file/a", "Not a directory"),
        ("file/a/b", "Not a directory"),
        ("n" * 300, "File name too long"),
    ):
        for write in writes:
            with pytest.raises(InvalidInput, match=f"`{root}/{name}`: {reason}; expected a name that the file system"):
                write(name, b"")
    for write in writes:
        with pytest.raises(InvalidInput, match=f"`{root}/folder`: (Is a directory|File exists); expected a name"):
            write("folder", b"")
    assert [entry.name for entry in store.list()] == ["file", "folder/a"]


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = open_store(str(tmp_path / "file"))
    with pytest.raises(InvalidInput, match="Not a directory"):
        store.put("a", b"")
    assert list(store.list()) == []


def test_reading_makes_no_folder(root: Path, store: Store) -> None:
    assert list(store.at("a").list()) == []
    assert store.stat("a") is None
    store.delete("a")
    assert not root.exists()


def test_the_etag_is_size_and_time(root: Path, store: Store) -> None:
    store.put("a", b"12345")
    found = os.stat(root / "a")
    entry = store.stat("a")
    assert entry is not None
    assert entry.etag == f"5-{found.st_mtime_ns}"
    assert entry.modified_ms == found.st_mtime_ns // 1_000_000


def test_links_are_followed_and_other_items_skipped(root: Path, store: Store, tmp_path: Path) -> None:
    store.put("a/b", b"content")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c").write_bytes(b"")
    (root / "folder-link").symlink_to(tmp_path / "elsewhere")
    (root / "link").symlink_to(root / "a" / "b")
    (root / "dangling").symlink_to(root / "nothing")
    (root / "of itself").symlink_to(root / "of itself")
    (root / "empty folder").mkdir()
    os.mkfifo(root / "pipe")
    assert [entry.name for entry in store.list()] == ["a/b", "folder-link/c", "link"]


def test_a_folder_linked_into_itself_is_listed_once_with_a_warning(
    root: Path, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.put("a/b/c", b"")
    (root / "a" / "b" / "loop").symlink_to(root / "a")
    (root / "a" / "top").symlink_to(root)
    (root / "outside").symlink_to(root.parent)
    for _ in range(2):
        assert [entry.name for entry in store.list()] == ["a/b/c"]
        assert [entry.name for entry in store.list("a/b/")] == ["a/b/c"]
    loop, top, outside = sorted(record.getMessage() for record in caplog.records)
    assert "`outside/`" in outside
    assert "the folder `a/b/loop/` is skipped, because it is a link to a folder above itself" in loop
    assert "`a/top/`" in top


def test_only_wanted_folders_are_read(root: Path, store: Store) -> None:
    for name in ("a", "b/c", "b/d/e", "f/g"):
        store.put(name, b"")
    asked: list[str] = []

    def enters(folder: str) -> bool:
        asked.append(folder)
        return folder == "b/"

    assert [entry.name for entry in store.list(enters=enters)] == ["a", "b/c"]
    assert sorted(asked) == ["b/", "b/d/", "f/"]


@pytest.mark.parametrize("name", [b"caf\xe9.csv", b"back\\slash.csv"])
def test_files_with_an_invalid_name_are_skipped_with_one_warning(
    root: Path, store: Store, name: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store.put("a", b"")
    for folder in ("", "b/"):
        path = root / folder / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    for _ in range(2):
        assert [entry.name for entry in store.list()] == ["a"]
    [warning] = caplog.messages
    assert "2 objects are skipped, because no store can address the name, for example" in warning
    assert repr(f"b/{os.fsdecode(name)}") in warning


def test_only_the_wanted_folders_are_read(root: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/1", "b/a/1", "b/b/1", "b/c/1", "c/1"):
        store.put(name, b"")
    scandir, read = os.scandir, []

    def traced(path: str) -> object:
        read.append(os.path.relpath(path, root))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", traced)
    assert [entry.name for entry in store.list("b/", "b/b/0")] == ["b/b/1", "b/c/1"]
    assert read == ["b", "b/b", "b/c"]
    read.clear()
    assert next(iter(store.list())).name == "a/1"
    assert read == [".", "a"]

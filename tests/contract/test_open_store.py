"""Which store each URI opens, and which URIs are refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.errors import InvalidInput
from tidemill.store import open_store, relative_folder


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/a/b", "file:///a/b"),
        ("/a/b/", "file:///a/b"),
        ("/a/../b//c", "file:///b/c"),
        ("file:///a/b/", "file:///a/b"),
        ("file:/a/b", "file:///a/b"),
        ("file://localhost/a", "file:///a"),
        ("/with space/ü=1", "file:///with space/ü=1"),
        ("/100%/a#b?c", "file:///100%25/a%23b%3Fc"),
        ("file:///100%25/with%20space", "file:///100%25/with space"),
        ("/", "file:///"),
        ("memory://x", "memory://x"),
        ("memory://x/a/b/", "memory://x/a/b"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a b/ü/", "s3://bucket/a b/ü"),
        ("s3a://bucket/a", "s3://bucket/a"),
    ],
)
def test_a_uri_opens_a_store_that_says_where_it_is(uri: str, expected: str) -> None:
    store = open_store(uri)
    assert store.uri == expected
    assert open_store(store.uri).uri == expected


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store("a/b").uri == f"file://{tmp_path}/a/b"
    assert open_store(".").uri == f"file://{tmp_path}"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert open_store("~/a").uri == f"file://{tmp_path}/home/a"


@pytest.mark.parametrize(
    "path", ["a/b", ".", "file:a/b", "file:./~", "a~", "~no-such-user/a", "localhost/a", "file:localhost/a"]
)
def test_a_relative_folder_is_the_folder_that_is_opened(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = relative_folder(path)
    assert folder is not None
    assert folder.startswith(str(tmp_path))
    assert open_store(path).local_path("x") == f"{folder}/x"


@pytest.mark.parametrize(
    "path", ["/a", "~", "~/a", "file:/a", "file:~/a", "file:///a", "file://localhost/a", "memory://a", "s3://a/b", ""]
)
def test_absolute_paths_and_uris_are_not_relative_folders(path: str) -> None:
    assert relative_folder(path) is None


def test_a_quoted_path_is_the_same_folder(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "100% #1"))
    store.put("a", b"")
    assert (tmp_path / "100% #1" / "a").exists()
    assert [entry.name for entry in open_store(store.uri).list()] == ["a"]


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("gs://bucket/a", "unknown scheme `gs`; expected `s3://bucket/prefix`, `file:///dir` or a path"),
        ("file://dir/a", "expected `file:///dir` with three slashes; with two, `dir` is a host"),
        ("", "expected the path of a folder"),
        ("file://", "three slashes"),
        ("s3://", "expected `s3://bucket/prefix`"),
        ("s3:///a", "expected `s3://bucket/prefix`"),
        ("s3://bucket/a//b", "open the S3 store `s3://bucket/a//b`: found `//`, `.` or `..` in the prefix"),
        ("s3://bucket/a/../b", "found `//`, `.` or `..` in the prefix"),
        ("fault://none", "the fault store is not in this process"),
    ],
)
def test_an_unknown_uri_is_refused(uri: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        open_store(uri)


def test_secrets_in_a_uri_are_refused_and_not_printed() -> None:
    with pytest.raises(InvalidInput) as refused:
        open_store("s3://AKIA:hunter2@bucket/a")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("uri", ["/a", "file:///a", "memory://x"])
def test_a_store_without_options_refuses_them(uri: str) -> None:
    with pytest.raises(InvalidInput, match="this store takes no options, found `region_name`"):
        open_store(uri, {"region_name": "x"})
    open_store(uri, {})


def test_one_name_is_one_memory_store() -> None:
    open_store("memory://one/a").put("b", b"content")
    assert open_store("memory://one").get("a/b") == b"content"
    assert list(open_store("memory://two").list()) == []


def test_a_memory_store_is_refused_in_another_process() -> None:
    code = "import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1]))"
    data = pickle.dumps(open_store("memory://here/a")).hex()
    done = subprocess.run([sys.executable, "-c", code, data], capture_output=True, text=True, check=False)
    assert "InvalidInput: open `memory://here` in another process" in done.stderr
    assert str(os.getpid()) in done.stderr


def test_a_local_folder_needs_no_boto3() -> None:
    code = "import sys, tidemill.store as s; s.open_store('/a'); print(sorted(m for m in sys.modules if 'boto' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""Every guarantee of `tidemill.store.contract` on names: which are allowed, listing and deleting."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.stores import KINDS, names
from tests.servers.s3 import S3Server
from tidemill.errors import CorruptState, InvalidInput
from tidemill.store import Store, open_store
from tidemill.store.fault import FaultStore

ODD_NAMES = [
    "plain",
    "with space/and more .json",
    " leading and trailing ",
    "ünïcødé/日本語/🎈.parquet",
    "a+b/c%20d/e%/f&g=h?i#j",
    "country=UK/dt=2013-01-01/x.parquet",
    "quote'double\"back`tick",
    "a:b;c,d!e*f(g)h[i]{j}|k<l>m^n~o$p@q",
    "..dots/...more/.hidden/_under",
    "tab\tand\nnewline",
    "n" * 200 + "/" + "m" * 200,
]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind."""
    match request.param:
        case "memory":
            yield open_store(f"memory://{uuid.uuid4().hex}")
        case "local":
            yield open_store(str(tmp_path / "root"))
        case "s3":
            server: S3Server = request.getfixturevalue("s3_server")
            yield open_store(server.new_root(), server.options)
        case "fault":
            yield FaultStore(open_store(f"memory://{uuid.uuid4().hex}"))


def in_order(found: list[str]) -> list[str]:
    return sorted(found, key=str.encode)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_work(store: Store, name: str) -> None:
    data = name.encode()
    assert store.create(name, data)
    assert not store.create(name, b"other")
    assert store.get(name) == data
    assert store.get_range(name, 1, 2) == data[1:3]
    assert names(store) == [name]
    store.copy(name, f"copy of/{name}")
    assert store.get(f"copy of/{name}") == data
    found = store.stat(name)
    assert found is not None
    assert (found.name, found.size) == (name, len(data))
    store.delete(name)
    assert names(store) == [f"copy of/{name}"]
    assert names(store.at("copy of")) == [name]


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", "a\\b", ".."])
def test_a_name_cannot_leave_the_store(store: Store, name: str) -> None:
    store.put("here", b"")
    for act in (store.get, store.stat, store.delete, store.local_path):
        with pytest.raises(CorruptState, match="outside the repository"):
            act(name)
    for write in (store.put, store.put_hint, store.create):
        with pytest.raises(CorruptState, match="outside the repository"):
            write(name, b"")
    with pytest.raises(CorruptState, match="outside the repository"):
        store.copy("here", name)
    with pytest.raises(CorruptState, match="outside the repository"):
        store.delete_many(["here", name])
    with pytest.raises(CorruptState, match="outside the repository"):
        list(store.list(f"{name}/x"))
    assert names(store) == ["here"]


@pytest.mark.parametrize("name", [".tmp/a", "a/.tmp/b", ".tmp", "nul\0"])
def test_reserved_names_are_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidInput, match="is not allowed: expected no part `.tmp` and no NUL"):
        store.put(name, b"")


def test_names_are_listed_by_the_bytes_of_the_full_name(store: Store) -> None:
    given = [
        "a",
        "a-b",
        "b/c",
        "b-c",
        "b!",
        "b0",
        "b/c-d/e",
        "b/c!",
        "é",
        "z",
        "Z",
        "日",
        "🎈",
        "\uffee",
        "b/a/b/c",
        "0",
    ]
    for name in given:
        store.put(name, b"")
    assert names(store) == in_order(given)
    assert names(store, "b/") == in_order([name for name in given if name.startswith("b/")])
    assert names(store.at("b")) == in_order([name[2:] for name in given if name.startswith("b/")])


def test_a_prefix_is_a_part_of_the_name(store: Store) -> None:
    for name in ("ab/c", "ab/d/e", "abc", "b/ab"):
        store.put(name, b"")
    assert names(store, "ab") == ["ab/c", "ab/d/e", "abc"]
    assert names(store, "ab/") == ["ab/c", "ab/d/e"]
    assert names(store, "ab/d") == ["ab/d/e"]
    assert names(store, "ab/d/e") == ["ab/d/e"]
    assert names(store, "ab/d/e/") == []
    assert names(store, "x/y/") == []


def test_listing_starts_after_a_name_that_need_not_exist(store: Store) -> None:
    given = in_order(["a", "a-b", "b/c!", "b/c-d/e", "b/c/f", "b/d", "b0", "c/a/a"])
    for name in given:
        store.put(name, b"")
    starts = [*given, "", "b", "b/", "b/c/", "b/c/g", "b/zz", "b/c-", "c/a", "zzz", "A"]
    for start in starts:
        assert names(store, start_after=start) == [name for name in given if name.encode() > start.encode()], start
        for prefix in ("b/", "b", "c/a/"):
            expected = [name for name in given if name.startswith(prefix) and name.encode() > start.encode()]
            assert names(store, prefix, start) == expected, (prefix, start)


def test_more_than_a_page_is_listed_once_each(store: Store) -> None:
    given = in_order([f"p/{number:04d}" for number in range(1050)])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put(name, b""), given))
    assert names(store, "p/") == given
    assert names(store, "p/", "p/0998") == given[999:]


def test_an_empty_store_lists_nothing(store: Store) -> None:
    assert names(store) == []
    assert names(store.at("nowhere/at all")) == []


def test_an_entry_says_size_time_and_etag(store: Store) -> None:
    store.put("a/b", b"12345")
    [listed] = store.list()
    assert listed == store.stat("a/b")
    assert (listed.name, listed.size) == ("a/b", 5)
    assert listed.etag
    assert '"' not in listed.etag
    assert 1_600_000_000_000 < listed.modified_ms < 4_000_000_000_000


def test_the_etag_changes_with_the_content(store: Store) -> None:
    store.put("a", b"one")
    before = store.stat("a")
    store.put("a", b"two")
    after = store.stat("a")
    assert before is not None
    assert after is not None
    assert before.etag != after.etag


def test_a_missing_object_has_no_entry(store: Store) -> None:
    assert store.stat("a") is None


def test_delete_removes_and_may_be_repeated(store: Store) -> None:
    store.put("a/b", b"")
    store.delete("a/b")
    store.delete("a/b")
    store.delete("never/was")
    assert names(store) == []


def test_many_objects_are_deleted_at_once_and_missing_ones_skipped(store: Store) -> None:
    given = [f"p/{number}" for number in range(5)] + ODD_NAMES
    for name in given:
        store.put(name, b"")
    store.put("kept", b"")
    for _ in range(2):
        store.delete_many(iter([*given, "never/was"]))
        assert names(store) == ["kept"]
    store.delete_many([])
    store.at("p").put("a", b"")
    store.at("p").delete_many(["a"])
    assert names(store) == ["kept"]


def test_more_than_a_request_can_delete_is_deleted(store: Store) -> None:
    given = [f"{number:04d}" for number in range(1005)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put(name, b""), given))
    store.delete_many(given)
    assert names(store) == []


def test_a_folder_is_not_deleted_with_many(store: Store) -> None:
    store.put("a/b", b"")
    store.delete_many(["a"])
    assert names(store) == ["a/b"]

"""Every guarantee of `tidemill.store.contract`: one suite for every kind of store."""

from __future__ import annotations

import pickle
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.stores import KINDS, names
from tests.servers.s3 import S3Server
from tidemill.errors import InvalidInput
from tidemill.store import ObjectMissing, ObjectReplaced, Store, open_store, probe
from tidemill.store.fault import Effect, Fault, FaultStore


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


@pytest.mark.parametrize("write", ["put", "put_hint", "create"])
def test_written_bytes_are_read_back(store: Store, write: str) -> None:
    getattr(store, write)("a/b", b"content")
    assert store.get("a/b") == b"content"


def test_put_overwrites(store: Store) -> None:
    store.put("a", b"a longer first")
    store.put("a", b"second")
    assert store.get("a") == b"second"
    store.put_hint("a", b"3")
    assert store.get("a") == b"3"


def test_a_missing_object_is_missing_and_says_where(store: Store) -> None:
    with pytest.raises(ObjectMissing) as missing:
        store.get("no/such")
    assert missing.value.name == "no/such"
    assert str(missing.value).startswith("no object `no/such` in `")


def test_a_folder_is_not_an_object(store: Store) -> None:
    store.put("a/b/c", b"")
    for folder in ("a", "a/b"):
        assert store.stat(folder) is None
        with pytest.raises(ObjectMissing):
            store.get(folder)
        store.delete(folder)
    assert names(store) == ["a/b/c"]


def test_an_object_is_not_a_folder(store: Store) -> None:
    store.put("a", b"")
    assert store.stat("a/b") is None
    assert names(store, "a/") == []
    with pytest.raises(ObjectMissing):
        store.get("a/b")
    store.delete("a/b")


def test_an_empty_object_exists(store: Store) -> None:
    store.put("empty", b"")
    assert store.get("empty") == b""
    assert not store.create("empty", b"x")
    found = store.stat("empty")
    assert found is not None
    assert found.size == 0
    assert names(store) == ["empty"]


def test_a_large_object_comes_back_whole(store: Store) -> None:
    data = bytes(range(256)) * (24 * 1024**2 // 256)
    store.put("large", data)
    assert store.get("large") == data
    assert store.get_range("large", 20 * 1024**2 + 3, 5) == data[3:8]


def test_a_range_ends_where_the_object_ends(store: Store) -> None:
    store.put("a", b"0123456789")
    assert store.get_range("a", 0, 3) == b"012"
    assert store.get_range("a", 8, 10) == b"89"
    assert store.get_range("a", 9, 1) == b"9"
    assert store.get_range("a", 10, 5) == b""
    assert store.get_range("a", 1000, 5) == b""
    assert store.get_range("a", 3, 0) == b""


def test_a_range_of_an_empty_object_is_empty(store: Store) -> None:
    store.put("a", b"")
    assert store.get_range("a", 0, 10) == b""


@pytest.mark.parametrize("length", [0, 1])
def test_a_range_of_a_missing_object_is_missing(store: Store, length: int) -> None:
    with pytest.raises(ObjectMissing):
        store.get_range("a", 0, length)


@pytest.mark.parametrize(("start", "length"), [(-1, 5), (0, -5)])
def test_a_range_is_not_counted_from_the_end(store: Store, start: int, length: int) -> None:
    store.put("a", b"0123456789")
    with pytest.raises(InvalidInput, match="expected both at least 0"):
        store.get_range("a", start, length)


def test_create_wins_once(store: Store) -> None:
    assert store.create("a/b", b"first") is True
    assert store.create("a/b", b"second") is False
    assert store.get("a/b") == b"first"


def test_create_loses_to_any_object(store: Store) -> None:
    store.put("a", b"put")
    store.put_hint("b", b"hint")
    store.copy("a", "c")
    assert [store.create(name, b"x") for name in "abc"] == [False, False, False]


def test_a_deleted_name_can_be_created_again(store: Store) -> None:
    store.create("a", b"1")
    store.delete("a")
    assert store.create("a", b"2") is True
    assert store.get("a") == b"2"


def race(store: Store, rounds: int, writers: int) -> list[list[bytes]]:
    """Return the winners of each round."""
    barrier = threading.Barrier(writers, timeout=60)  # a writer that fails must not block the others

    def write(number: int) -> list[bool]:
        won = []
        for turn in range(rounds):
            barrier.wait()
            won.append(store.create(f"race/{turn:03d}", f"{number}".encode() * 1000))
        return won

    with ThreadPoolExecutor(writers) as pool:
        won = list(pool.map(write, range(writers)))
    return [[f"{n}".encode() for n in range(writers) if won[n][turn]] for turn in range(rounds)]


def test_of_many_threads_one_create_wins(store: Store) -> None:
    winners = race(store, rounds=20, writers=8)
    assert [len(round_) for round_ in winners] == [1] * 20
    assert [store.get(f"race/{turn:03d}") for turn in range(20)] == [round_[0] * 1000 for round_ in winners]


def test_no_reader_sees_a_part(store: Store) -> None:
    contents = {bytes([letter]) * size for letter, size in ((97, 300_000), (98, 700_000))}
    store.put("a", min(contents))
    done = threading.Event()

    def overwrite() -> None:
        try:
            for turn in range(30):
                (store.put if turn % 2 else store.put_hint)("a", sorted(contents)[turn % 2])
        finally:
            done.set()

    writer = threading.Thread(target=overwrite)
    writer.start()
    seen = set()
    while not done.is_set():
        seen.add(store.get("a"))
    writer.join()
    assert seen <= contents


def test_copy_makes_an_equal_object_and_overwrites(store: Store) -> None:
    store.put("a/b", b"content")
    store.put("c", b"something longer than the content")
    store.copy("a/b", "c")
    store.copy("a/b", "d/e/f")
    store.put("a/b", b"changed")
    assert [store.get(name) for name in ("c", "d/e/f")] == [b"content", b"content"]


def test_an_object_can_be_copied_from_another_place(store: Store) -> None:
    store.at("a").put("b", b"content")
    store.at("z/y").copy_from(store.at("a"), "b", "c")
    assert store.get("z/y/c") == b"content"


def test_an_object_can_be_copied_from_another_kind_of_store(store: Store, tmp_path: Path) -> None:
    for other in (open_store(f"memory://{uuid.uuid4().hex}"), open_store(str(tmp_path / "other"))):
        other.put("a b", b"content")
        store.copy_from(other, "a b", "c")
        assert store.get("c") == b"content"
        other.copy_from(store, "c", "d")
        assert other.get("d") == b"content"
        store.delete("c")


def test_copying_a_missing_object_changes_nothing(store: Store) -> None:
    store.put("b", b"content")
    with pytest.raises(ObjectMissing) as missing:
        store.copy("a", "b")
    assert missing.value.name == "a"
    with pytest.raises(ObjectMissing) as missing:
        store.copy_from(store.at("x"), "a", "b")
    assert missing.value.uri.endswith("/x")
    assert store.get("b") == b"content"


def etag_of(store: Store, name: str) -> str:
    found = store.stat(name)
    assert found is not None
    return found.etag


def test_a_write_returns_the_etag_that_a_listing_shows(store: Store) -> None:
    put = store.put("a", b"content")
    copied = store.copy("a", "b")
    from_below = store.at("below").copy_from(store, "a", "c")
    if put is None:  # a folder, whose ETags do not identify content
        assert store.local_path("a") is not None
        assert copied is None and from_below is None
        return
    assert put == etag_of(store, "a")
    assert copied == etag_of(store, "b")
    assert from_below == etag_of(store, "below/c")
    assert store.put("a", b"other") not in (None, put)


def test_an_object_is_copied_if_it_has_the_expected_etag(store: Store, tmp_path: Path) -> None:
    store.put("a b", b"content")
    store.copy("a b", "copied", etag_of(store, "a b"))
    store.at("below").copy_from(store, "a b", "c", etag_of(store, "a b"))
    other = open_store(f"memory://{uuid.uuid4().hex}")
    other.copy_from(store, "a b", "d", etag_of(store, "a b"))
    assert [store.get("copied"), store.get("below/c"), other.get("d")] == [b"content"] * 3


def test_a_replaced_object_is_not_copied(store: Store) -> None:
    store.put("a", b"one")
    expected = etag_of(store, "a")
    store.put("a", b"replaced")
    store.put("b", b"before")
    other = open_store(f"memory://{uuid.uuid4().hex}")
    for act in (
        lambda: store.copy("a", "b", expected),
        lambda: store.at("below").copy_from(store, "a", "b", expected),
        lambda: other.copy_from(store, "a", "b", expected),
    ):
        with pytest.raises(ObjectReplaced) as replaced:
            act()
        assert (replaced.value.name, replaced.value.expected) == ("a", expected)
    assert str(replaced.value).endswith(f"was replaced: expected the ETag `{expected}`")
    assert store.get("b") == b"before"
    assert names(store) == ["a", "b"]


def test_a_conditional_copy_of_a_missing_object_is_missing(store: Store) -> None:
    with pytest.raises(ObjectMissing):
        store.copy("a", "b", "0" * 32)


def test_copies_within_a_store_need_no_reading_where_etags_identify_content(store: Store, tmp_path: Path) -> None:
    identified = store.put("a", b"") is not None
    assert store.copies_from(store.at("below")) is identified
    assert not store.copies_from(open_store(str(tmp_path / "other")))
    assert not open_store(str(tmp_path / "other")).copies_from(store)


def test_only_a_folder_reads_the_names_before_the_one_asked_for(store: Store) -> None:
    store.put("a", b"")
    assert store.lists_after is (store.local_path("a") is None)


def test_an_object_is_read_with_its_own_entry(store: Store) -> None:
    for data in (b"", b"content"):
        store.put("a/b", data)
        assert store.read("a/b") == (data, store.stat("a/b"))
    with pytest.raises(ObjectMissing):
        store.read("missing")


def test_only_a_store_that_is_waited_for_gets_several_requests_at_once(store: Store) -> None:
    assert (store.requests_at_once > 1) is store.uri.startswith("s3://")


def test_a_store_with_a_clock_of_its_own_shows_its_time(store: Store) -> None:
    store.put("a", b"")
    found = store.clock_ms()
    assert (found is None) is not store.uri.startswith("s3://")
    if found is not None:
        now_ms = time.time_ns() // 1_000_000
        assert now_ms - 60_000 < found < now_ms + 60_000


def test_a_store_seen_from_a_folder_is_the_same_store(store: Store) -> None:
    below = store.at("a b").at("c/d/")
    below.put("e", b"content")
    assert store.get("a b/c/d/e") == b"content"
    assert names(below) == ["e"]
    assert below.uri == f"{store.uri}/a b/c/d"
    assert below.create("e", b"") is False


def test_a_pickled_store_is_the_same_store(store: Store) -> None:
    below = store.at("a b/ü")
    again: Store = pickle.loads(pickle.dumps(below))
    again.put("c", b"content")
    assert again.uri == below.uri
    assert below.get("c") == b"content"


def test_a_local_path_can_be_read_by_others(store: Store) -> None:
    store.put("a/b c", b"content")
    path = store.local_path("a/b c")
    assert path is None or Path(path).read_bytes() == b"content"


def test_threads_share_a_store(store: Store) -> None:
    def turn(number: int) -> bytes:
        store.put(f"t/{number}", str(number).encode())
        return store.get(f"t/{number}")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(turn, range(100))) == [str(number).encode() for number in range(100)]


def test_the_probe_accepts_the_store_and_leaves_nothing(store: Store) -> None:
    probe(store)
    assert names(store) == []


@pytest.mark.parametrize("effect", ["refused", "lost"])
@pytest.mark.parametrize("number", [1, 2])
def test_the_probe_repeats_a_create_that_had_no_answer(
    store: Store, effect: Effect, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[probe.__module__], "_PAUSES_S", (0.0,))
    probe(FaultStore(store, [Fault(number, effect)]))
    assert names(store) == []


def test_the_probe_accepts_requests_that_arrive_twice(store: Store) -> None:
    class Twice(FaultStore):
        def create(self, name: str, data: bytes) -> bool:
            super().create(name, data)
            return super().create(name, data)

    probe(Twice(store))
    assert names(store) == []


@pytest.mark.parametrize("cheat", [lambda inner, name, data: inner.put(name, data) or True, lambda *_: False])
def test_the_probe_refuses_a_faulty_create(store: Store, cheat: Callable[..., bool]) -> None:
    class Cheating(FaultStore):
        def create(self, name: str, data: bytes) -> bool:
            return cheat(store, name, data)

    with pytest.raises(InvalidInput, match="expected conditional create"):
        probe(Cheating(store))
    assert names(store) == []

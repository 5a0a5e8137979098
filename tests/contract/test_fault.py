"""The fault store: the effect of each fault, and that a dead process does nothing more."""

from __future__ import annotations

import pickle
import uuid

import pytest

from tidemill.errors import InvalidInput, StoreUnavailable
from tidemill.store import ObjectReplaced, Store, open_store
from tidemill.store.fault import BegunWrite, Crash, Fault, FaultStore


@pytest.fixture
def inner() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


def five_writes(store: Store) -> None:
    """One of each verb, of which the second is a hint."""
    store.put("put", b"content")
    store.put_hint("hint", b"content")
    store.create("created", b"content")
    store.copy("put", "copied")
    store.delete("put")


def contents(store: Store) -> dict[str, bytes]:
    return {entry.name: store.get(entry.name) for entry in store.list()}


AFTER = [
    {},
    {"put": b"content"},
    {"put": b"content", "hint": b"content"},
    {"put": b"content", "hint": b"content", "created": b"content"},
    {"put": b"content", "hint": b"content", "created": b"content", "copied": b"content"},
    {"hint": b"content", "created": b"content", "copied": b"content"},
]


def test_every_write_is_numbered_and_reads_are_not(inner: Store) -> None:
    store = FaultStore(inner)
    five_writes(store)
    store.get("hint")
    store.get_range("hint", 0, 1)
    store.stat("hint")
    list(store.list())
    store.at("a/b").put("c", b"")
    assert store.writes == [
        BegunWrite(1, "put", "put"),
        BegunWrite(2, "put_hint", "hint"),
        BegunWrite(3, "create", "created"),
        BegunWrite(4, "copy", "copied"),
        BegunWrite(5, "delete", "put"),
        BegunWrite(6, "put", "a/b/c"),
    ]
    assert not store.crashed


@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize(("effect", "done"), [("before", 0), ("after", 1)])
def test_a_crash_comes_before_or_after_the_write(inner: Store, number: int, effect: str, done: int) -> None:
    store = FaultStore(inner, [Fault(number, effect)])  # type: ignore[arg-type]
    with pytest.raises(Crash, match=rf"\(write {number}, {effect}\)"):
        five_writes(store)
    assert contents(inner) == AFTER[number - 1 + done]
    assert store.crashed


@pytest.mark.parametrize("number", range(1, 6))
def test_only_a_hint_can_be_torn(inner: Store, number: int) -> None:
    with pytest.raises(Crash, match="torn"):
        five_writes(FaultStore(inner, [Fault(number, "torn")]))
    assert contents(inner) == (AFTER[1] | {"hint": b"con"} if number == 2 else AFTER[number - 1])


def test_a_dead_process_neither_reads_nor_writes(inner: Store) -> None:
    store = FaultStore(inner, [Fault(1, "after")])
    listing = store.list()
    inner.put("a", b"")
    below = store.at("b")
    with pytest.raises(Crash):
        below.put("c", b"")
    for act in (
        lambda: store.get("a"),
        lambda: store.get_range("a", 0, 1),
        lambda: store.stat("a"),
        lambda: next(listing),
        lambda: store.put("a", b"x"),
        lambda: store.create("d", b"x"),
        lambda: below.delete("c"),
        lambda: below.copy_from(store, "a", "d"),
        lambda: FaultStore(inner).copy_from(store, "a", "d"),
    ):
        with pytest.raises(Crash):
            act()
    assert contents(inner) == {"a": b"", "b/c": b""}
    assert len(store.writes) == 1


def test_each_name_of_a_bulk_delete_is_a_write(inner: Store) -> None:
    for name in "abc":
        inner.put(name, b"")
    store = FaultStore(inner, [Fault(2, "before")])
    with pytest.raises(Crash, match="delete `b`"):
        store.delete_many(["a", "b", "c"])
    assert store.writes == [BegunWrite(1, "delete", "a"), BegunWrite(2, "delete", "b")]
    assert list(contents(inner)) == ["b", "c"]


def test_a_lost_copy_is_conditional_and_done(inner: Store) -> None:
    etag = inner.put("a", b"content")
    store = FaultStore(inner, [Fault(1, "lost")])
    with pytest.raises(StoreUnavailable):
        store.copy("a", "b", etag)
    assert inner.get("b") == b"content"
    with pytest.raises(ObjectReplaced):
        store.copy("a", "b", "other")


def test_except_exception_does_not_catch_a_crash() -> None:
    assert not issubclass(Crash, Exception)


@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize(("effect", "done"), [("refused", 0), ("lost", 1)])
def test_an_answer_is_lost_with_or_without_the_write(inner: Store, number: int, effect: str, done: int) -> None:
    store = FaultStore(inner, [Fault(number, effect)])  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable, match=rf"\(write {number}, {effect}\): a fault of the test"):
        five_writes(store)
    assert contents(inner) == AFTER[number - 1 + done]
    store.put("more", b"")
    assert inner.get("more") == b""


def test_a_late_write_lands_when_the_next_one_begins(inner: Store) -> None:
    store = FaultStore(inner, [Fault(1, "late")])
    with pytest.raises(StoreUnavailable):
        store.create("a", b"mine")
    assert contents(inner) == {}
    assert store.create("a", b"again") is False
    assert contents(inner) == {"a": b"mine"}
    store.delete("a")
    store.put("b", b"")
    assert contents(inner) == {"b": b""}


def test_several_faults_make_one_plan(inner: Store) -> None:
    store = FaultStore(inner, [Fault(1, "refused"), Fault(2, "lost"), Fault(3, "before")])
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            store.put("a", b"")
    with pytest.raises(Crash):
        store.put("a", b"")


def test_its_uri_opens_it_again(inner: Store) -> None:
    store = FaultStore(inner, [Fault(3, "refused")])
    open_store(store.uri).put("a", b"")
    below = store.at("b")
    again: Store = pickle.loads(pickle.dumps(below))
    again.put("c", b"")
    with pytest.raises(StoreUnavailable):
        open_store(below.uri).put("d", b"")
    assert [write.name for write in store.writes] == ["a", "b/c", "b/d"]
    uri = store.uri
    del store, again
    open_store(uri)  # a child keeps it
    del below
    with pytest.raises(InvalidInput, match="or was garbage-collected"):
        open_store(uri)

"""`Numbered` beside a naive model: claims of several writers under faults, hints of every kind, and gaps."""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill import names
from tidemill.errors import CorruptState, InvalidInput, StoreUnavailable
from tidemill.protocol.numbered import HINT_EVERY, PAUSES_S, Numbered
from tidemill.store import ListedObject, ObjectMissing, Store, open_store
from tidemill.store.fault import Fault, FaultStore
from tidemill.store.full import is_full

HINT = "r/head.json"


class Seen:
    """A store that counts requests, and that lists after a name or not, as the test chooses."""

    def __init__(self, inner: Store, lists_after: bool) -> None:
        self._inner, self.lists_after = inner, lists_after
        self.requests: list[str] = []

    def get(self, name: str) -> bytes:
        self.requests.append("get")
        return self._inner.get(name)

    def stat(self, name: str) -> ListedObject | None:
        self.requests.append("stat")
        return self._inner.stat(name)

    def list(self, prefix: str = "", start_after: str | None = None, enters: Any = None) -> Iterator[ListedObject]:
        self.requests.append("list")
        return self._inner.list(prefix, start_after, enters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def new_store(lists_after: bool = True) -> Store:
    return Seen(open_store(f"memory://{uuid.uuid4().hex}"), lists_after)  # type: ignore[return-value]


def records_in(store: Store, first: int = 0) -> Numbered:
    return Numbered(store, "r/", "record", HINT, first, pause=lambda seconds: None)


def filled(store: Store, numbers: Any, hint: int | bytes | None = None) -> Store:
    """Return the store with records of these numbers and this hint."""
    for number in numbers:
        store.put(names.numbered("r/", number), f"record {number}".encode())
    if hint is not None:
        store.put(HINT, hint if isinstance(hint, bytes) else json.dumps({"version": hint}).encode())
    return store


def existing(store: Store) -> dict[int, bytes]:
    """Return all records, by the simplest means."""
    found = {names.number_in("r/", entry.name): store.get(entry.name) for entry in store.list("r/")}
    return {number: data for number, data in found.items() if number is not None}


# claims


@given(st.data(), st.booleans(), st.sampled_from([0, 1, 31, 500]))
@settings(max_examples=60, deadline=None)
def test_claims_of_several_writers_are_as_in_a_naive_model(data: st.DataObject, lists_after: bool, first: int) -> None:
    inner = new_store(lists_after)
    effects = data.draw(st.dictionaries(st.integers(1, 40), st.sampled_from(["lost", "refused", "late"]), max_size=25))
    faulty = FaultStore(inner, [Fault(number, effect) for number, effect in effects.items()])  # type: ignore[arg-type]
    writers = [records_in(faulty, first) for _ in range(3)]
    model: dict[int, bytes] = {}
    for step in range(data.draw(st.integers(1, 15))):
        writer = writers[data.draw(st.integers(0, 2))]
        newest = writer.newest()
        assert newest == max(existing(inner), default=None)
        number = first if newest is None else newest + data.draw(st.integers(0, 1))
        mine = f"step {step}".encode()
        try:
            found = writer.claim(number, mine)
        except StoreUnavailable:
            continue  # the record is there, will be, or was never made
        assert model.setdefault(number, found) == found == existing(inner)[number]
        assert writer.read(number) == found
        if data.draw(st.booleans()):
            writer.reached(number)
        assert model.items() <= existing(inner).items()  # nothing that was seen ever changes
    assert sorted(existing(inner)) == list(range(first, first + len(existing(inner))))
    assert records_in(inner, first).newest() == max(existing(inner), default=None)


def test_a_claim_of_a_free_number_writes_once_and_reads_nothing() -> None:
    store = FaultStore(new_store())
    assert records_in(store).claim(0, b"ours") == b"ours"
    assert [write.verb for write in store.writes] == ["create"]
    assert store._inner.requests == []  # type: ignore[attr-defined]


def test_a_claim_of_a_taken_number_returns_the_bytes_that_are_there() -> None:
    store = filled(new_store(), range(1))
    assert records_in(store).claim(0, b"ours") == b"record 0"
    assert existing(store) == {0: b"record 0"}


def test_a_write_that_arrives_late_wins_over_the_next_writer() -> None:
    inner = new_store()
    effects = [*["refused"] * len(PAUSES_S), "late"]
    store = FaultStore(inner, [Fault(number, effect) for number, effect in enumerate(effects, 1)])  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable, match="outcome unknown after 5 attempts"):
        records_in(store).claim(0, b"late")
    assert existing(inner) == {}
    assert records_in(store).claim(0, b"next") == b"late"


class Scripted(Seen):
    """A store whose `create` and `get` do in turn what the test says; then they work."""

    def __init__(self, creates: list[Any] = (), gets: list[Any] = ()) -> None:  # type: ignore[assignment]
        super().__init__(open_store(f"memory://{uuid.uuid4().hex}"), True)
        self.creates, self.gets, self.created = list(creates), list(gets), 0

    def create(self, name: str, data: bytes) -> bool:
        self.created += 1
        return bool(self._next(self.creates, lambda: self._inner.create(name, data)))

    def get(self, name: str) -> bytes:
        return bytes(self._next(self.gets, lambda: self._inner.get(name)))

    def _next(self, script: list[Any], act: Any) -> Any:
        step = script.pop(0) if script else act
        if isinstance(step, Exception):
            raise step
        return step() if callable(step) else step


AWAY = StoreUnavailable("the store is away", hint="wait")


def test_a_refusal_without_a_record_is_tried_again() -> None:
    store = Scripted([False, False])
    assert records_in(store).claim(0, b"ours") == b"ours"  # type: ignore[arg-type]
    assert store.created == 3


def test_refusals_without_a_record_end_as_an_unknown_outcome() -> None:
    store = Scripted([False] * 5)
    with pytest.raises(StoreUnavailable, match=r"\(the store said that the name exists, but it is missing\)"):
        records_in(store).claim(0, b"ours")  # type: ignore[arg-type]
    assert store.created == 5


def test_a_record_that_cannot_be_read_back_at_once_is_read_back_later() -> None:
    store = Scripted([], [AWAY, AWAY])
    store._inner.create("r/0000000000.json", b"theirs")
    assert records_in(store).claim(0, b"ours") == b"theirs"  # type: ignore[arg-type]


def test_the_hint_of_the_last_failure_is_shown() -> None:
    store = Scripted([AWAY] * 5, [ObjectMissing("r", "memory://")] * 5)
    with pytest.raises(StoreUnavailable, match="the store is away") as unknown:
        records_in(store).claim(0, b"ours")  # type: ignore[arg-type]
    assert unknown.value.hint == "wait"
    assert unknown.value.__cause__ is AWAY


def test_an_error_that_no_retry_mends_is_raised_at_once() -> None:
    store = Scripted([InvalidInput("the bucket is gone")])
    with pytest.raises(InvalidInput, match="the bucket is gone"):
        records_in(store).claim(0, b"ours")  # type: ignore[arg-type]
    assert store.created == 1


def test_an_error_after_the_write_was_done_is_no_error() -> None:
    store = Scripted([ValueError("the answer cannot be parsed")])
    store._inner.create("r/0000000000.json", b"ours")
    assert records_in(store).claim(0, b"ours") == b"ours"  # type: ignore[arg-type]


def test_pauses_grow_and_come_between_attempts() -> None:
    waited: list[float] = []
    store = Scripted([AWAY] * 5)
    with pytest.raises(StoreUnavailable):
        Numbered(store, "r/", "record", pause=waited.append).claim(0, b"ours")  # type: ignore[arg-type]
    assert tuple(waited) == PAUSES_S == tuple(sorted(PAUSES_S))


# the newest record


@given(
    st.booleans(),
    st.integers(0, 3),
    st.integers(0, 80),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_the_newest_record_is_found_with_any_hint(
    lists_after: bool, first: int, count: int, data: st.DataObject
) -> None:
    numbers = range(first, first + count)
    hints = st.none() | st.sampled_from([b"", b"\xff", b"[]", b'{"version": "7"}', b'{"version": true}'])
    good = st.integers(first, first + count - 1) if count else st.nothing()
    store = filled(new_store(lists_after), numbers, data.draw(hints | good))
    expected = first + count - 1 if count else None
    found = records_in(store, first)
    assert found.newest() == found.newest() == expected
    filled(store, [first + count])
    assert found.newest() == first + count


@pytest.mark.parametrize("lists_after", [True, False])
@pytest.mark.parametrize("hint", [3, 40, names.LAST_NUMBER])
def test_a_hint_above_the_newest_record_shows_a_loss(lists_after: bool, hint: int) -> None:
    store = filled(new_store(lists_after), range(3), hint)
    with pytest.raises(CorruptState, match=f"{hint:010d}.json`: the record is missing, but the hint `{HINT}` names it"):
        records_in(store).newest()


@pytest.mark.parametrize("lists_after", [True, False])
@pytest.mark.parametrize("missing", range(6))
@pytest.mark.parametrize("hint", [None, 0, 2, 4])
def test_a_gap_from_the_hint_on_is_never_passed_over(lists_after: bool, missing: int, hint: int | None) -> None:
    """A folder is not listed, so there a gap above the hint may end the search; it is never silently skipped."""
    store = filled(new_store(lists_after), [number for number in range(7) if number != missing], hint)
    found = records_in(store)
    if hint is not None and missing < hint:
        assert found.newest() == 6  # whoever reads the older records finds the loss
    elif lists_after or hint is None or missing == hint:
        with pytest.raises(CorruptState, match=f"{missing:010d}.json`: the record is missing, but"):
            found.newest()
    else:
        assert found.newest() in (missing - 1, 6)


@pytest.mark.parametrize(
    "foreign", ["r/notes.txt", "r/0000000009.json.bak", "r/00000000009.json", "r/x/0000000009.json"]
)
def test_objects_of_other_names_are_no_records(foreign: str) -> None:
    store = filled(new_store(), range(3))
    store.put(foreign, b"x")
    assert records_in(store).newest() == 2


def test_a_prefix_without_records_has_no_newest_one() -> None:
    store = new_store()
    store.put("r/head.json.old", b"x")
    assert records_in(store).newest() is None


@pytest.mark.parametrize(("lists_after", "requests"), [(True, ["get", "list"]), (False, ["get", "stat", "stat"])])
@pytest.mark.parametrize("count", [1, 10, 1000])
def test_a_search_with_a_good_hint_costs_the_same_for_any_number_of_records(
    lists_after: bool, requests: list[str], count: int
) -> None:
    store = filled(new_store(lists_after), range(count), count - 1)
    found = records_in(store)
    assert found.newest() == count - 1
    assert store.requests == requests  # type: ignore[attr-defined]
    assert found.newest() == count - 1
    assert store.requests == [*requests, "stat"]  # type: ignore[attr-defined]


def test_many_new_records_are_found_by_doubling_steps() -> None:
    store = filled(new_store(False), range(1001), 0)
    assert records_in(store).newest() == 1000
    assert len(store.requests) < 25  # type: ignore[attr-defined]


@pytest.mark.parametrize("hint", range(4))
def test_the_greatest_number_ends_the_search(hint: int) -> None:
    last = names.LAST_NUMBER
    store = filled(new_store(False), range(last - 4, last + 1), last - hint)
    for beyond in range(last + 1, last + 5):
        store.put(names.numbered("r/", beyond), b"a name with eleven digits names no record")
    assert records_in(store).newest() == last


# hints


@pytest.mark.parametrize(("lists_after", "hinted"), [(True, [0, HINT_EVERY]), (False, list(range(40)))])
def test_hints_are_written_where_they_save_requests(lists_after: bool, hinted: list[int]) -> None:
    store = new_store(lists_after)
    found, written = records_in(store), []
    for number in range(40):
        store.delete(HINT)
        found.claim(number, b"x")
        found.reached(number)
        if store.stat(HINT) is not None:
            assert json.loads(store.get(HINT)) == {"version": number}
            written.append(number)
    assert written == hinted


def test_records_without_a_hint_write_none() -> None:
    store = new_store(False)
    found = Numbered(store, "r/", "record")
    found.claim(0, b"x")
    found.reached(0)
    assert [entry.name for entry in store.list()] == ["r/0000000000.json"]
    assert found.newest() == 0


def test_an_older_record_does_not_lower_what_is_known() -> None:
    store = filled(new_store(), range(10))
    found = records_in(store)
    found.reached(9)
    found.reached(4)
    store.requests.clear()  # type: ignore[attr-defined]
    assert found.newest() == 9
    assert store.requests == ["stat"]  # type: ignore[attr-defined]


def test_a_hint_that_cannot_be_written_is_no_error() -> None:
    store = FaultStore(new_store(False), [Fault(2, "refused")])
    found = records_in(store)
    found.claim(0, b"x")
    found.reached(0)
    assert records_in(store).newest() == 0


def test_a_record_that_cannot_be_read_back_after_a_full_disk_may_exist() -> None:
    """The disk was full when the folder was made durable: the record has its name. Then the disk fails to read it."""
    store = new_store()
    create, reads = store.create, []

    def created(name: str, data: bytes) -> bool:
        create(name, data)
        raise StoreUnavailable(f"create `{name}`: {os.strerror(errno.ENOSPC)}")

    def unreadable(name: str) -> bytes:
        reads.append(name)
        raise StoreUnavailable(f"read `{name}`: {os.strerror(errno.EIO)}")

    store.create, store.get = created, unreadable  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="outcome unknown") as raised:
        records_in(store).claim(0, b"ours")
    assert not is_full(raised.value)  # so the run does not delete what the record names
    assert len(reads) == len(PAUSES_S) + 1

"""`refs/`: entries are folded in order, cost the same to read however many there are, and are never passed over."""

from __future__ import annotations

import dataclasses
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.unit.protocol import valid_records as make
from tidemill import names
from tidemill.errors import CorruptState, InvalidInput
from tidemill.protocol.codec import checksum_of, encode
from tidemill.protocol.entries import AdoptEntry, Base, DropBranchEntry, Entry, Floor, NewBranch, TagEntry
from tidemill.protocol.records import Parent
from tidemill.protocol.refs import MAIN, BranchRef, Refs, TaggedVersion, begin, fold, follow
from tidemill.protocol.refs_log import RefsLog, position
from tidemill.store import Store, open_store
from tidemill.store.fault import Crash, Fault, FaultStore


@pytest.fixture
def store() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


def log_of(store: Store) -> RefsLog:
    return RefsLog(store, pause=lambda seconds: None)


def beginning() -> Refs:
    return begin(dataclasses.replace(make.init(), checksum="checksum of init"))


def after(refs: Refs, kind: type[Entry], **fields: Any) -> Refs:
    """Return `refs` with an entry of a kind."""
    entry = kind(**{**position(refs, 2_000), **fields})  # type: ignore[arg-type]
    return follow(refs, dataclasses.replace(entry, checksum=checksum_of(encode(entry))))


# fold


def test_operators_are_added_and_removed_in_order() -> None:
    refs = follow(beginning(), make.added(beginning(), "one", "two", checksum="c1"))
    refs = follow(refs, make.added(refs, "three", removed=["one"], checksum="c2"))
    assert (sorted(refs.schemas), refs.former) == (["three", "two"], ["one"])
    assert sorted(follow(refs, make.added(refs, "one")).schemas) == ["one", "three", "two"]
    assert follow(refs, make.added(refs, "one")).former == []


def test_a_removed_operator_loses_its_initial_state_and_a_new_one_says_its_entry() -> None:
    seeds = {"one": {"state": [make.segment()]}}
    refs = follow(beginning(), make.added(beginning(), "one", seeds=seeds, checksum="c1"))
    assert (refs.seeds["one"].number, refs.seeds["one"].maps) == (1, seeds["one"])
    assert follow(refs, make.added(refs, "one")).seeds == {}
    assert follow(refs, make.added(refs, removed=["one"])).seeds == {}


def test_a_branch_name_can_be_used_again_under_another_id() -> None:
    fork = {"fork_branch": MAIN, "fork_version": 3, "fork_checksum": "c"}
    refs = after(beginning(), NewBranch, name="fix", id="fix-1", **fork)
    assert refs.branches["fix"] == BranchRef("fix", "fix-1", Parent(MAIN, 3, "c"))
    refs = after(refs, DropBranchEntry, name="fix", id="fix-1")
    assert (set(refs.branches), refs.dropped) == ({MAIN}, ["fix-1"])
    assert after(refs, NewBranch, name="fix", id="fix-3", **fork).branches["fix"].id == "fix-3"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (NewBranch, {"name": MAIN, "id": "main-1", "fork_branch": MAIN, "fork_version": 0, "fork_checksum": ""}),
        (NewBranch, {"name": "fix", "id": "fix-9", "fork_branch": MAIN, "fork_version": 0, "fork_checksum": ""}),
        (NewBranch, {"name": "fix", "id": "fix-1", "fork_branch": "no", "fork_version": 0, "fork_checksum": ""}),
        (DropBranchEntry, {"name": MAIN, "id": MAIN}),
        (DropBranchEntry, {"name": "fix", "id": "fix-1"}),
    ],
)
def test_an_entry_that_contradicts_earlier_ones_is_corrupt_state(kind: type[Entry], fields: dict[str, Any]) -> None:
    with pytest.raises(CorruptState, match="contradicts the entries before it"):
        after(beginning(), kind, **fields)


def test_an_entry_that_ends_unknown_merged_segments_is_refused() -> None:
    known: dict[str, Any] = {"operator": "op", "map": "m", "inputs": [], "outputs": []}
    refs = after(beginning(), Base, **known)
    assert [base.number for base in after(refs, Base, **known, ends=[1]).bases] == [2]
    with pytest.raises(CorruptState, match="it ends the merged segments of entry 7, which contradicts"):
        after(refs, Base, **known, ends=[7])


def test_tags_floors_bases_and_adoption_are_folded() -> None:
    refs = after(beginning(), TagEntry, name="good", branch=MAIN, version=4)
    assert refs.tags == {"good": TaggedVersion(MAIN, 4)}
    assert after(refs, TagEntry, name="good", branch=MAIN, version=None).tags == {}
    refs = after(refs, Floor, branch=MAIN, version=2)
    assert {branch: kept.version for branch, kept in refs.floors.items()} == {MAIN: 2}
    with pytest.raises(CorruptState, match="lowers the floor"):
        after(refs, Floor, branch=MAIN, version=1)
    refs = after(refs, Base, operator="op", map="m", inputs=[make.segment("a")], outputs=[make.segment("b")])
    assert [(base.number, base.operator, base.map) for base in refs.bases] == [(3, "op", "m")]
    refs = after(refs, AdoptEntry, root="memory://there", new_uuid="uuid-2", sources={"days": "memory://in"})
    assert (refs.root, refs.uuid, refs.uuids) == ("memory://there", "uuid-2", ["uuid-1", "uuid-2"])
    assert refs.sources == {"days": "memory://in"}
    assert after(refs, TagEntry, name="t", branch=MAIN, version=0).uuid == "uuid-2"


@pytest.mark.parametrize("change", [{"number": 2}, {"parent": "another"}, {"uuid": "another"}])
def test_an_entry_that_does_not_follow_is_corrupt_state(change: dict[str, Any]) -> None:
    entry = dataclasses.replace(make.added(beginning(), "one"), **change)
    with pytest.raises(CorruptState, match="read entry `refs/0000000001.json`: expected entry 1 of repository uuid-1"):
        follow(beginning(), entry)


# the log


def filled(store: Store, entries: int) -> Refs:
    """Return the refs of a repository with so many entries after the init record."""
    log = log_of(store)
    refs = log.create(make.init())
    for number in range(entries):
        refs = log.append(lambda refs, _, name=f"op-{number}": make.added(refs, name))  # type: ignore[misc]
    return refs


def test_there_is_no_repository_before_init(store: Store) -> None:
    assert log_of(store).read() is None


def test_init_makes_the_repository_once(store: Store) -> None:
    first = log_of(store).create(make.init(uuid="first", attempt="try-1"))
    assert first.uuid == "first"
    assert log_of(store).create(make.init(uuid="second", attempt="try-2")) == first
    assert log_of(store).read() == first


def test_init_fails_on_the_root_of_another_pipeline(store: Store) -> None:
    log_of(store).create(make.init())
    with pytest.raises(InvalidInput) as refused:
        log_of(store).create(make.init(pipeline="other"))
    assert str(refused.value) == (
        f"init pipeline `other` in `{store.uri}`: found the pipeline `retail` there\n"
        "hint: choose another root or another name"
    )


def test_entries_are_read_as_they_were_appended(store: Store) -> None:
    refs = filled(store, 5)
    assert refs.through == 5
    assert log_of(store).read() == log_of(store).read_entries() == refs
    assert sorted(refs.schemas) == [f"op-{number}" for number in range(5)]


class Counting(FaultStore):
    """A store that counts read requests too."""

    reads = 0

    def get(self, name: str) -> bytes:
        self.reads += 1
        return super().get(name)


@pytest.mark.parametrize("entries", [0, 1, 300])
def test_reading_costs_the_same_for_any_number_of_entries(store: Store, entries: int) -> None:
    refs = filled(store, entries)
    counted = Counting(store)
    log = log_of(counted)
    assert log.read() == refs
    assert counted.reads == 3  # the snapshot, the entry at which it ends, and none above it
    assert log.read() == refs
    assert counted.reads == 4


@pytest.mark.parametrize("damage", ["lost", "empty", "old", "foreign", "torn"])
def test_a_damaged_snapshot_is_not_needed(store: Store, damage: str) -> None:
    filled(store, 2)
    old = store.get(names.REFS_HEAD)
    refs = log_of(store).append(lambda refs, number: make.added(refs, f"op-{number}"))
    other = open_store(f"memory://{uuid.uuid4().hex}")
    filled(other, 3)
    if damage == "lost":
        store.delete(names.REFS_HEAD)
    else:
        data = {"empty": b"", "old": old, "foreign": other.get("refs/0000000001.json"), "torn": old[:100]}[damage]
        store.put(names.REFS_HEAD, data)
    assert log_of(store).read() == refs


def test_a_damaged_init_record_is_corrupt_state(store: Store) -> None:
    store.put(names.ref(0), b"{")
    with pytest.raises(CorruptState, match="read entry `refs/0000000000.json`: not JSON"):
        log_of(store).read()
    with pytest.raises(CorruptState, match="read entry `refs/0000000000.json`: not JSON"):
        log_of(store).create(make.init())


def test_an_entry_of_another_repository_is_corrupt_state(store: Store) -> None:
    filled(store, 2)
    other = open_store(f"memory://{uuid.uuid4().hex}")
    log_of(other).create(make.init(uuid="another"))
    log_of(other).append(lambda refs, number: make.added(refs, "op-0"))
    store.put(names.ref(1), other.get(names.ref(1)))
    with pytest.raises(CorruptState, match="found entry 1 of repository another"):
        log_of(store).read_entries()


@pytest.mark.parametrize("effect", ["lost", "late", "refused"])
def test_a_lost_answer_appends_once(store: Store, effect: str) -> None:
    filled(store, 0)
    faulty = FaultStore(store, [Fault(1, effect)])  # type: ignore[arg-type]
    refs = log_of(faulty).append(lambda refs, number: make.added(refs, "one"))
    assert log_of(store).read() == refs
    assert refs.through == 1


def test_concurrent_callers_append_all_their_entries(store: Store) -> None:
    filled(store, 0)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: log_of(store).append(lambda refs, number: make.added(refs, f"by-{name}")), range(6)))
    refs = log_of(store).read()
    assert refs is not None
    assert sorted(refs.schemas) == [f"by-{number}" for number in range(6)]
    assert refs == log_of(store).read_entries()


def test_an_entry_that_no_longer_makes_sense_is_not_appended(store: Store) -> None:
    filled(store, 0)
    late = log_of(store)
    late.read()
    log_of(store).append(lambda refs, number: make.added(refs, "one"))

    def make_once(refs: Refs, number: int) -> Entry:
        if "one" in refs.schemas:
            raise InvalidInput("`one` exists already")
        return make.added(refs, "one")

    with pytest.raises(InvalidInput, match="exists already"):
        late.append(make_once)
    assert log_of(store).read_entries() == late.read()


def test_an_entry_that_another_writer_made_is_not_appended_again(store: Store) -> None:
    filled(store, 0)
    late = log_of(store)
    late.read()
    log_of(store).append(lambda refs, number: make.added(refs, "one"))
    refs = late.append(lambda refs, number: None if "one" in refs.schemas else make.added(refs, "one"))
    assert (refs.through, list(refs.schemas)) == (1, ["one"])
    assert log_of(store).read_entries() == refs


@pytest.mark.parametrize("effect", ["before", "after", "torn"])
@pytest.mark.parametrize("number", [1, 2])
def test_after_a_crash_the_entry_is_there_or_not(store: Store, number: int, effect: str) -> None:
    filled(store, 1)
    with pytest.raises(Crash):
        log_of(FaultStore(store, [Fault(number, effect)])).append(  # type: ignore[arg-type]
            lambda refs, number: make.added(refs, "two")
        )
    refs = log_of(store).read()
    assert refs == log_of(store).read_entries()
    assert refs is not None
    assert ("two" in refs.schemas) == (number == 2 or effect == "after")


def test_fold_gives_what_reading_gives(store: Store) -> None:
    refs = filled(store, 3)
    init, *entries = (make_entry(store, number) for number in range(4))
    assert fold(init, entries) == refs


def make_entry(store: Store, number: int) -> Any:
    from tidemill.protocol.codec import decode_entry

    return decode_entry(store.get(names.ref(number)), names.ref(number))

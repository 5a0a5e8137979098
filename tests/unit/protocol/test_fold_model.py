"""`fold` beside a naive model: random entries, unknown ones, and histories whose chain of parents is broken."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.protocol import valid_records as make
from tidemill import names
from tidemill.errors import CorruptState, InvalidInput
from tidemill.protocol.codec import checksum_of, decode, decode_entry, encode
from tidemill.protocol.entries import (
    AdoptEntry,
    Base,
    DropBranchEntry,
    Entry,
    Floor,
    Init,
    NewBranch,
    Operators,
    RewriteEntry,
    TagEntry,
)
from tidemill.protocol.records import REWRITE, Parent
from tidemill.protocol.refs import MAIN, BaseOf, BranchRef, Kept, Refs, Seeds, TaggedVersion, begin, fold, follow

OPERATORS = ("a", "b", "c")
TAGS = ("good", "bad")


@dataclasses.dataclass
class Model:
    """What the entries say, as plain dicts that are changed in place."""

    uuid: str = "uuid-1"
    uuids: list[str] = dataclasses.field(default_factory=lambda: ["uuid-1"])
    root: str = "memory://r"
    operators: set[str] = dataclasses.field(default_factory=set)
    ever: set[str] = dataclasses.field(default_factory=set)
    seeds: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    rewrote_at: int | None = None
    branches: dict[str, tuple[str, Parent | None]] = dataclasses.field(default_factory=lambda: {MAIN: (MAIN, None)})
    dropped: list[str] = dataclasses.field(default_factory=list)
    tags: dict[str, int] = dataclasses.field(default_factory=dict)
    floors: dict[str, int] = dataclasses.field(default_factory=dict)
    bases: list[int] = dataclasses.field(default_factory=list)
    sources: dict[str, str] = dataclasses.field(default_factory=dict)
    confirmed: dict[str, int] = dataclasses.field(default_factory=dict)

    def check(self, refs: Refs) -> None:
        """Compare everything that is folded."""
        assert (refs.uuid, refs.uuids, refs.root) == (self.uuid, self.uuids, self.root)
        assert (set(refs.schemas), refs.former) == (self.operators, sorted(self.ever - self.operators))
        assert refs.seeds == {name: Seeds(number, seeds_of(of)) for name, (number, of) in self.seeds.items()}
        assert (refs.rewrote_at, refs.requires) == (self.rewrote_at, [] if self.rewrote_at is None else [REWRITE])
        assert refs.branches == {name: BranchRef(name, id, fork) for name, (id, fork) in self.branches.items()}
        assert refs.dropped == self.dropped
        assert refs.tags == {name: TaggedVersion(MAIN, version) for name, version in self.tags.items()}
        assert {branch: kept.version for branch, kept in refs.floors.items()} == self.floors
        assert refs.bases == [BaseOf(number, "a", "state", *segments_of(number)) for number in self.bases]
        assert (refs.sources, refs.confirmed) == (self.sources, self.confirmed)


def seeds_of(number: int) -> dict[str, Any]:
    return {"state": [make.segment(f"seed {number}")]}


def segments_of(number: int) -> tuple[list[Any], list[Any]]:
    return [make.segment(f"in {number}")], [make.segment(f"out {number}")]


def operators(draw: Any, model: Model, number: int) -> tuple[type[Entry], dict[str, Any]]:
    added = draw(st.sets(st.sampled_from(OPERATORS)))
    removed = draw(st.sets(st.sampled_from(sorted(model.operators)))) - added if model.operators else set()
    seeded = draw(st.sets(st.sampled_from(sorted(added)))) if added else set()
    model.operators = (model.operators - removed) | added
    model.ever |= added
    model.seeds = {name: of for name, of in model.seeds.items() if name not in added | removed}
    model.seeds |= dict.fromkeys(seeded, (number, number))
    seeds = {name: seeds_of(number) for name in seeded}
    return Operators, {
        "schemas": {n: make.operator("state") for n in added},
        "removed": sorted(removed),
        "seeds": seeds,
    }


def branch(draw: Any, model: Model, number: int) -> tuple[type[Entry], dict[str, Any]]:
    name = draw(st.sampled_from([name for name in ("fix", "try", "x") if name not in model.branches] or [f"b{number}"]))
    fork = Parent(draw(st.sampled_from([id for id, _ in model.branches.values()] + model.dropped)), 3, "c")
    model.branches[name] = (f"{name}-{number}", fork)
    fields = {"fork_branch": fork.branch, "fork_version": 3, "fork_checksum": "c"}
    return NewBranch, {"name": name, "id": f"{name}-{number}", **fields}


def drop_branch(draw: Any, model: Model, number: int) -> tuple[type[Entry], dict[str, Any]]:
    others = [name for name in model.branches if name != MAIN]
    if not others:
        return branch(draw, model, number)
    name = draw(st.sampled_from(others))
    id, _ = model.branches.pop(name)
    model.dropped.append(id)
    return DropBranchEntry, {"name": name, "id": id}


def tag(draw: Any, model: Model, number: int) -> tuple[type[Entry], dict[str, Any]]:
    name, version = draw(st.sampled_from(TAGS)), draw(st.none() | st.integers(-1, 9))
    model.tags.pop(name, None)
    if version is not None:
        model.tags[name] = version
    return TagEntry, {"name": name, "branch": MAIN, "version": version}


def base(draw: Any, model: Model, number: int) -> tuple[type[Entry], dict[str, Any]]:
    ended = draw(st.sets(st.sampled_from(model.bases))) if model.bases else set()
    model.bases = [*(known for known in model.bases if known not in ended), number]
    inputs, outputs = segments_of(number)
    return Base, {"operator": "a", "map": "state", "inputs": inputs, "outputs": outputs, "ends": sorted(ended)}


def floor(draw: Any, model: Model, number: int) -> tuple[type[Entry], dict[str, Any]]:
    name = draw(st.sampled_from([MAIN, "fix-1"]))
    model.floors[name] = model.floors.get(name, -1) + draw(st.integers(0, 3))
    return Floor, {"branch": name, "version": model.floors[name]}


def adopt(draw: Any, model: Model, number: int) -> tuple[type[Entry], dict[str, Any]]:
    model.uuid = draw(st.sampled_from(["uuid-1", "uuid-2", "uuid-3"]))
    model.uuids += [] if model.uuid in model.uuids else [model.uuid]
    model.root = f"memory://{number}"
    sources = draw(st.dictionaries(st.sampled_from(["days", "hours"]), st.just(f"memory://in/{number}")))
    model.sources |= sources
    model.confirmed |= dict.fromkeys(sources, number)
    return AdoptEntry, {"root": model.root, "new_uuid": model.uuid, "sources": sources}


def rewrite(draw: Any, model: Model, number: int) -> tuple[type[Entry], dict[str, Any]]:
    replaced = draw(st.sets(st.sampled_from(sorted(model.seeds)))) if model.seeds else set()
    model.seeds |= {name: (model.seeds[name][0], number) for name in replaced}
    model.rewrote_at = (model.rewrote_at or 0) + draw(st.integers(1, 3))
    return RewriteEntry, {"version": model.rewrote_at, "seeds": {name: seeds_of(number) for name in replaced}}


def unknown(draw: Any, model: Model, number: int) -> tuple[type[Entry], dict[str, Any]]:
    return Entry, {"ignorable": True}


STEPS = (operators, branch, drop_branch, tag, base, floor, adopt, rewrite, unknown)


@st.composite
def histories(draw: Any) -> tuple[list[bytes], Model]:
    """Return the bytes of an init record and of entries after it, and the model of them all."""
    init = make.init()
    model, found = Model(), [encode(init)]
    for number in range(1, draw(st.integers(0, 8)) + 1):
        uuid = model.uuid
        kind, fields = draw(st.sampled_from(STEPS))(draw, model, number)
        common = {
            "number": number,
            "parent": checksum_of(found[-1]),
            "uuid": uuid,
            "attempt": "a",
            "created_ms": number,
        }
        entry = kind(**common, **fields)
        data = encode(entry)
        if kind is Entry:
            data = make.sealed(json.loads(data) | {"kind": "lease", "holder": "x"})
        found.append(data)
    return found, model


def decoded(history: list[bytes]) -> tuple[Init, list[Entry]]:
    init, *entries = (decode_entry(data, names.ref(number)) for number, data in enumerate(history))
    assert isinstance(init, Init)
    return init, entries


@given(histories())
@settings(max_examples=100, deadline=None)
def test_random_entries_are_folded_as_by_a_naive_model(history: tuple[list[bytes], Model]) -> None:
    data, model = history
    refs = fold(*decoded(data))
    model.check(refs)
    assert (refs.through, refs.refs_checksum) == (len(data) - 1, checksum_of(data[-1]))
    assert (refs.origin, refs.pipeline, refs.created_ms) == (checksum_of(data[0]), "retail", 1_000)
    assert refs.start == Parent("", -1, checksum_of(data[0]))
    snapshot = encode(refs)
    assert decode(Refs, snapshot, names.REFS_HEAD) == refs


@given(histories(), st.data())
@settings(max_examples=40, deadline=None)
def test_a_snapshot_is_continued_like_the_entries_before_it(
    history: tuple[list[bytes], Model], data: st.DataObject
) -> None:
    init, entries = decoded(history[0])
    cut = data.draw(st.integers(0, len(entries)))
    refs = decode(Refs, encode(fold(init, entries[:cut])), names.REFS_HEAD)
    for entry in entries[cut:]:
        refs = follow(refs, entry)
    assert refs == fold(init, entries)
    assert (refs.checksum == "") == (cut < len(entries))  # it is known only for what was read or written as a whole


@given(histories(), histories(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_history_with_a_broken_chain_is_never_folded(
    history: tuple[list[bytes], Model], other: tuple[list[bytes], Model], data: st.DataObject
) -> None:
    """An entry was dropped, repeated, exchanged with the next, or comes from another history."""
    entries = decoded(history[0])[1]
    if not entries:
        return
    place = data.draw(st.integers(0, len(entries) - 1))
    init = decoded([encode(make.init(attempt="another"))])[0]
    broken = {
        "repeat": [*entries[: place + 1], *entries[place:]],
        "drop": [*entries[:place], *entries[place + 1 :]] if place < len(entries) - 1 else None,
        "exchange": [*entries[:place], *entries[place : place + 2][::-1], *entries[place + 2 :]]
        if place < len(entries) - 1
        else None,
    }
    begins = dict.fromkeys(broken, decoded(history[0])[0])
    broken["another beginning"], begins["another beginning"] = entries, init
    how = data.draw(st.sampled_from(sorted(name for name, found in broken.items() if found is not None)))
    with pytest.raises(CorruptState, match="read entry `refs/.*expected entry") as refused:
        fold(begins[how], broken[how] or [])
    assert refused.value.hint == "restore the objects below `refs/` from one backup"


def test_a_removed_operator_that_was_never_known_is_not_a_former_one() -> None:
    refs = follow(begin(init_record()), make.added(begin(init_record()), removed=["never"]))
    assert refs.former == []


def init_record() -> Init:
    return decoded([encode(make.init())])[0]


# entries of a kind that this Tidemill does not know


def lease(refs: Refs, **fields: Any) -> bytes:
    """Return the bytes of an entry of an unknown kind that follows `refs`."""
    common = {"number": refs.through + 1, "parent": refs.refs_checksum, "uuid": refs.uuid}
    raw = json.loads(encode(Entry(**common, attempt="a", created_ms=1)))  # type: ignore[arg-type]
    return make.sealed(raw | {"kind": "lease"} | fields)


def test_an_ignorable_entry_of_an_unknown_kind_moves_only_the_position() -> None:
    refs = begin(init_record())
    data = lease(refs, ignorable=True)
    after = follow(refs, decode_entry(data, names.ref(1)))
    assert after == dataclasses.replace(refs, through=1, refs_checksum=checksum_of(data))


@pytest.mark.parametrize("ignorable", [False, None, 1, "true", "yes", [True]])
def test_any_other_entry_of_an_unknown_kind_asks_for_a_newer_tidemill(ignorable: Any) -> None:
    data = lease(begin(init_record()), ignorable=ignorable)
    with pytest.raises(InvalidInput, match="it is of kind 'lease'; it was written by a newer Tidemill") as refused:
        decode_entry(data, names.ref(1))
    assert refused.value.hint == "upgrade tidemill on this machine"


def test_an_entry_that_requires_an_unknown_feature_asks_for_a_newer_tidemill_even_if_ignorable() -> None:
    data = lease(begin(init_record()), ignorable=True, requires=["leases"])
    with pytest.raises(InvalidInput, match="it requires leases"):
        decode_entry(data, names.ref(1))


@pytest.mark.parametrize("change", [{"number": 2}, {"parent": "x"}, {"uuid": "x"}])
def test_an_ignorable_entry_that_does_not_follow_is_corrupt_state(change: dict[str, Any]) -> None:
    refs = begin(init_record())
    with pytest.raises(CorruptState, match=r"expected entry 1 of repository uuid-1"):
        follow(refs, decode_entry(lease(refs, ignorable=True, **change), names.ref(1)))


@pytest.mark.parametrize("what", ["fork_branch", "again", "lower", "drop_main", "drop_other_id"])
def test_a_contradiction_anywhere_is_corrupt_state(what: str) -> None:
    refs = begin(init_record())
    fork = {"fork_branch": MAIN, "fork_version": 0, "fork_checksum": "c"}
    history: dict[str, list[tuple[type[Entry], dict[str, Any]]]] = {
        "fork_branch": [(NewBranch, {"name": "fix", "id": "fix-1", **fork, "fork_branch": "fix-1"})],
        "again": [(NewBranch, {"name": "fix", "id": f"fix-{number}", **fork}) for number in (1, 2)],
        "lower": [(Floor, {"branch": MAIN, "version": version}) for version in (5, 4)],
        "drop_main": [(DropBranchEntry, {"name": MAIN, "id": MAIN})],
        "drop_other_id": [
            (NewBranch, {"name": "fix", "id": "fix-1", **fork}),
            (DropBranchEntry, {"name": "fix", "id": "fix-2"}),
        ],
    }
    *before, (kind, fields) = history[what]
    for earlier, values in before:
        refs = follow(refs, placed(refs, earlier, values))
    with pytest.raises(CorruptState, match="which contradicts the entries before it"):
        follow(refs, placed(refs, kind, fields))


def placed(refs: Refs, kind: type[Entry], fields: dict[str, Any]) -> Entry:
    common = {"number": refs.through + 1, "parent": refs.refs_checksum, "uuid": refs.uuid}
    return kind(**common, attempt="a", created_ms=1, **fields)  # type: ignore[arg-type]


def test_the_same_floor_may_be_recorded_again() -> None:
    refs = begin(init_record())
    for _ in range(2):
        refs = follow(refs, placed(refs, Floor, {"branch": MAIN, "version": 5}))
    assert refs.floors == {MAIN: Kept(5, 1)}

"""`named`: every object of every record that names objects, each with what it must be; and the table of `successor`."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given, settings

from tests.unit.protocol import valid_records as make
from tests.unit.protocol.any_records import commits
from tidemill.protocol.kinds import BATCH, KINDS, RECORDED
from tidemill.protocol.named import Object, named
from tidemill.protocol.records import Commit, OutputFile, Segment, StoreVersion
from tidemill.protocol.refs import BaseOf, Seeds, begin
from tidemill.protocol.successor import Origin, successor

REFS = begin(dataclasses.replace(make.init(), checksum="checksum of init"))


def objects_in(value: Any) -> set[Object]:
    """Return every object below a value, found by walking through all of it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        here = {named_by(value)} if {"name", "checksum", "size"} <= vars(value).keys() else set()
        return here.union(*(objects_in(each) for each in vars(value).values()))
    each = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return set().union(*(objects_in(one) for one in each))


def named_by(one: Any) -> Object:
    return Object(one.name, one.checksum, one.size, getattr(one, "etag", ""))


@given(commits)
@settings(max_examples=30, deadline=None)
def test_a_commit_names_all_objects_in_it(commit: Commit) -> None:
    assert named(commit) == objects_in(commit)


def test_bases_and_seeds_are_named_by_refs_and_inputs_of_bases_are_not() -> None:
    base = BaseOf(4, "op", "state", [make.segment("input")], [make.segment("output", etag="e")])
    refs = dataclasses.replace(REFS, bases=[base], seeds={"op": Seeds(0, {"state": [make.segment("seed")]})})
    assert {one.name for one in named(refs)} == {"output", "seed"}
    assert Object("output", "checksum of output", 100, "e") in named(refs)


def test_a_version_of_a_state_store_names_its_segments() -> None:
    live: list[Segment] = [make.segment("a", etag="e"), make.segment("b")]
    record = StoreVersion(1, "try", "k string", "n bigint", live, 1, 5)
    assert named(record) == {Object("a", "checksum of a", 100, "e"), Object("b", "checksum of b", 100)}


def test_the_etag_of_an_output_is_kept() -> None:
    commit = make.commit(outputs={"out": [OutputFile("o", "c", 1, 1, 0, 0, 0, etag="e")]})
    assert named(commit) == {Object("o", "c", 1, "e")}


# what kinds of commits may change


def test_corrections_of_the_input_or_time_change_neither_state_nor_outputs() -> None:
    assert KINDS["batch"].changes == KINDS["sweep"].changes == BATCH
    assert KINDS["void"].changes == {"reason"}
    for kind, rules in KINDS.items():
        changes = rules.changes
        assert not changes & {"version", "branch", "parent", "pipeline_uuid", "refs_through", "refs_checksum", "kind"}
        if kind in ("void", "skip", "reset"):
            assert not changes & {"state", "outputs", "quarantine", "counts", "schemas"}
            assert "reason" in changes
    assert not RECORDED & {"state", "ledger", "watermarks", "batch_time_ms", "parent", "reason"}


def test_a_commit_names_the_newest_entry_that_it_knows() -> None:
    refs = dataclasses.replace(REFS, through=9, refs_checksum="checksum of 9", uuid="uuid-2")
    made = successor(Origin(refs, "main", make.commit(3)), "void", {"reason": "x"})
    assert (made.refs_through, made.refs_checksum, made.pipeline_uuid) == (9, "checksum of 9", "uuid-2")

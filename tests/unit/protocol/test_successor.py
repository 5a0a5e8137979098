"""`successor`: whatever a kind of commit may not change is inherited. `named`: every object of a record is named."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest

from tests.unit.protocol import valid_records as make
from tidemill.errors import InternalError
from tidemill.protocol.kinds import KINDS, RECORDED
from tidemill.protocol.named import named
from tidemill.protocol.records import (
    AddedOutput,
    Commit,
    Kind,
    OperatorMetrics,
    OutputFile,
    QuarantineFile,
    Requeued,
    Split,
)
from tidemill.protocol.refs import Seeds, begin
from tidemill.protocol.successor import Origin, successor

REFS = dataclasses.replace(
    begin(dataclasses.replace(make.init(), checksum="checksum of init")), ledger=[make.segment("start")]
)
REQUEUED = Split("in", "/r", "c", 1, 1, requeued=Requeued("r", "c", 1, 3))
HEAD = make.commit(
    7,
    checksum="checksum of 7",
    state={"op": {"m": [make.segment("s")]}},
    rows={"op": {"m": 10}, "_ledger": {"files": 3}},
    ledger=[make.segment("l")],
    watermarks={"in.ts": 9},
    event_time={"in.ts": {"max": 12, "min": 3, "watermark": 5, "active": 4_000}},
    schemas={"op": make.operator("m")},
    sinks={"out": {"kind": "json", "path": "/out", "schema": ""}},
    sources={"in": {"uri": "memory://in"}},
    next_deadline={"batch": 99},
    operators={"op": OperatorMetrics(rows=5, rows_total=10, state_bytes=100, timed_out=2)},
    outputs={"out": [OutputFile("o", "c", 1, 1, 0, 0, 0)]},
    quarantine=[QuarantineFile("q", "c", 1, 1)],
    waiting=[REQUEUED],
    requeued=[REQUEUED],
    durations_ms={"addBatch": 4},
    outstanding_files=3,
    engine={"name": "local"},
    airflow={"dag_id": "x"},
    published_through=6,
)
LASTING = (
    "state",
    "rows",
    "ledger",
    "watermarks",
    "schemas",
    "sinks",
    "sources",
    "next_deadline",
    "batch_time_ms",
    "waiting",
)
PASSING = (
    "outputs",
    "quarantine",
    "durations_ms",
    "outstanding_files",
    "engine",
    "airflow",
    "withdraws",
    "adds",
    "requeued",
)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_what_a_kind_may_not_change_is_inherited(kind: Kind) -> None:
    made = successor(Origin(REFS, "main", HEAD), kind, {})
    assert (made.version, made.kind, made.parent) == (8, kind, HEAD.as_parent)
    assert (made.refs_through, made.refs_checksum, made.pipeline_uuid) == (0, "checksum of init", "uuid-1")
    for name in LASTING:
        assert getattr(made, name) == getattr(HEAD, name), name
    for name in PASSING:
        assert not getattr(made, name), name
    assert made.event_time == {"in.ts": {"active": 4_000}}
    assert made.operators == {"op": OperatorMetrics(rows_total=10, state_bytes=100)}


def test_the_first_commit_follows_the_init_record_and_has_its_ledger() -> None:
    made = successor(Origin(REFS, "main", None), "void", {"reason": "a bad file"})
    assert (made.version, made.parent, made.reason) == (0, make.START, "a bad file")
    assert (made.state, made.ledger, made.batch_time_ms) == ({}, [make.segment("start")], 0)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_change_that_a_kind_may_not_make_is_an_internal_error(kind: Kind) -> None:
    fields = {field.name for field in dataclasses.fields(Commit)} - {"checksum", "format", "kind"}
    for name in sorted(fields - KINDS[kind].changes - RECORDED):
        with pytest.raises(InternalError, match=f"make a {kind} commit: it may not change {name}"):
            successor(Origin(REFS, "main", HEAD), kind, {name: None})


def test_only_a_reset_lowers_the_batch_time() -> None:
    for kind in ("batch", "sweep"):
        with pytest.raises(InternalError, match="its batch time 4999 is before that of version 7, 5000"):
            successor(Origin(REFS, "main", HEAD), kind, {"batch_time_ms": 4_999})  # type: ignore[arg-type]
    assert successor(Origin(REFS, "main", HEAD), "reset", {"batch_time_ms": 4_999}).batch_time_ms == 4_999


def test_every_object_of_a_commit_is_named() -> None:
    added: dict[str, Any] = {"out": [AddedOutput("fix-1", 3, [OutputFile("a", "c", 1, 1, 0, 0, 0)])]}
    found = named(dataclasses.replace(HEAD, adds=added, waiting=[], requeued=[REQUEUED]))
    assert {one.name for one in found} == {"s", "l", "o", "q", "a", "r"}
    assert "r" in {one.name for one in named(dataclasses.replace(HEAD, requeued=[]))}
    assert {one.checksum for one in found if one.name == "s"} == {"checksum of s"}


def test_every_object_of_refs_is_named() -> None:
    refs = dataclasses.replace(REFS, seeds={"op": Seeds(0, {"m": [make.segment("seed")]})})
    assert {one.name for one in named(refs)} == {"start", "seed"}


def test_a_record_without_objects_cannot_be_asked() -> None:
    with pytest.raises(TypeError, match="a Plan names no objects"):
        named(make.plan())

"""Records: what is written is read back, and anything else is refused with the place where it does not fit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit import protocol_records as make
from tidemill.errors import CorruptState
from tidemill.protocol.records import (
    FORMAT_VERSION,
    HASH_END,
    Added,
    Commit,
    Counts,
    Init,
    OperatorMetrics,
    OutputFile,
    Plan,
    QuarantineFile,
    Receipt,
    Segment,
    Split,
    decode,
    encode,
)

integers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=10)
jsons = st.recursive(st.none() | st.booleans() | integers | texts, lambda x: st.lists(x, max_size=3), max_leaves=5)
names = st.sampled_from(["a", "state/x/y.parquet", "ü/ 1"])
hashes = st.integers(0, HASH_END)


def some(kind: type, **known: Any) -> st.SearchStrategy[Any]:
    return st.builds(kind, **known)


segments = some(
    Segment, name=names, checksum=texts, size=integers, rows=integers, lo=hashes, hi=hashes, version=integers
)
states = st.dictionaries(texts, st.dictionaries(texts, st.lists(segments, max_size=2), max_size=2), max_size=2)
outputs = some(OutputFile, name=names, lo=hashes)
quarantines = some(QuarantineFile, name=names)
deep = st.dictionaries(texts, st.dictionaries(texts, jsons, max_size=2), max_size=2)
records = st.one_of(
    some(Init, seeds=states, schemas=deep, format=st.just(FORMAT_VERSION)),
    some(Added, schemas=deep, format=st.just(FORMAT_VERSION)),
    some(Plan, splits=st.lists(some(Split), max_size=3).map(tuple), format=st.just(FORMAT_VERSION)),
    some(
        Receipt,
        lo=hashes,
        hi=hashes,
        state=states,
        outputs=st.dictionaries(texts, st.lists(outputs, max_size=2), max_size=2),
        quarantine=st.lists(quarantines, max_size=2),
        operators=st.dictionaries(texts, some(OperatorMetrics), max_size=2),
    ),
    some(
        Commit,
        state=states,
        ledger=st.lists(segments, max_size=2),
        outputs=st.dictionaries(texts, st.lists(outputs, max_size=2), max_size=2),
        quarantine=st.lists(quarantines, max_size=2),
        operators=st.dictionaries(texts, some(OperatorMetrics), max_size=2),
        counts=some(Counts),
        schemas=deep,
        sinks=deep,
        code=st.dictionaries(texts, jsons, max_size=2),
        format=st.just(FORMAT_VERSION),
    ),
)


@given(records)
@settings(max_examples=50)
def test_what_is_written_is_read_back(record: Any) -> None:
    data = encode(record)
    assert decode(type(record), data, "x") == record
    assert encode(decode(type(record), data, "x")) == data


def test_a_hash_is_written_so_that_no_reader_rounds_it() -> None:
    raw = json.loads(encode(make.init(seeds={"op": {"map": [make.segment(lo=255, hi=HASH_END)]}})))
    [segment] = raw["seeds"]["op"]["map"]
    assert (segment["lo"], segment["hi"]) == ("00000000000000ff", "ffffffffffffffff")


def test_an_older_reader_ignores_fields_it_does_not_know() -> None:
    raw = json.loads(encode(make.plan())) | {"added_later": {"x": [1]}}
    assert decode(Plan, json.dumps(raw).encode(), "x") == make.plan()


def test_fields_with_a_default_may_be_missing() -> None:
    raw = json.loads(encode(make.plan()))
    del raw["outstanding_files"], raw["oldest_waiting_ms"]
    assert decode(Plan, json.dumps(raw).encode(), "x") == make.plan()


def test_metrics_add_up_field_by_field() -> None:
    one, two = OperatorMetrics(rows=1, late_rows=2, apply_ms=3), OperatorMetrics(rows=10, rows_total=7, apply_ms=4)
    assert one.plus(two) == OperatorMetrics(rows=11, late_rows=2, rows_total=7, apply_ms=7)


# what is refused

PLAN = json.loads(encode(make.plan(splits=(make.split(),))))
COMMIT = json.loads(encode(make.commit(state={"op": {"map": [make.segment()]}})))
SEGMENT = COMMIT["state"]["op"]["map"][0]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not JSON (Expecting value"),
        (b"{", "not JSON ("),
        (b"\xff", "not JSON ("),
        (b"[" * 100_000, "not JSON ("),
        (b"null", "the record: expected an object, found 'None'"),
        (b"[]", "the record: expected an object, found '[]'"),
        ({}, "field `number` is missing"),
        (PLAN | {"number": "1"}, "field `number`: expected an integer, found '1'"),
        (PLAN | {"number": True}, "field `number`: expected an integer, found 'True'"),
        (PLAN | {"number": 1.0}, "field `number`: expected an integer, found '1.0'"),
        (PLAN | {"number": None}, "field `number`: expected an integer, found 'None'"),
        (PLAN | {"branch": 1}, "field `branch`: expected a string, found '1'"),
        (PLAN | {"kind": "batches"}, "field `kind`: expected one of "),
        (PLAN | {"splits": {}}, "field `splits`: expected a list, found '{}'"),
        (PLAN | {"splits": [PLAN["splits"][0], 1]}, "field `splits[1]`: expected an object, found '1'"),
        (PLAN | {"splits": [{"source": "s"}]}, "field `splits[0].path` is missing"),
        (
            PLAN | {"splits": [PLAN["splits"][0] | {"row_groups": [1]}]},
            "field `splits[0].row_groups`: expected 2 values",
        ),
    ],
)
def test_what_is_no_plan_is_corrupt_and_says_where(raw: Any, message: str) -> None:
    data = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    with pytest.raises(CorruptState) as refused:
        decode(Plan, data, "plans/1.json")
    assert refused.value.first_line.startswith(f"read plan `plans/1.json`: {message}")
    assert refused.value.hint == "restore the object from a backup"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lo": 0}, "field `state.op.map[0].lo`: expected 16 hex digits, found '0'"),
        ({"lo": "ff"}, "field `state.op.map[0].lo`: expected 16 hex digits, found 'ff'"),
        ({"hi": "-00000000000000f"}, "field `state.op.map[0].hi`: expected 16 hex digits"),
        ({"hi": "10000000000000000"}, "field `state.op.map[0].hi`: expected 16 hex digits"),
        (
            {"name": "../../etc/passwd"},
            "read commit `x`: a record names the object '../../etc/passwd', which lies outside",
        ),
        ({"name": "/etc/passwd"}, "a record names the object '/etc/passwd', which lies outside"),
        ({"name": ""}, "a record names the object '', which lies outside"),
        ({"name": None}, "field `state.op.map[0].name`: expected a string, found 'None'"),
    ],
)
def test_a_segment_that_does_not_fit_is_corrupt(change: dict[str, Any], message: str) -> None:
    raw = COMMIT | {"state": {"op": {"map": [SEGMENT | change]}}}
    with pytest.raises(CorruptState, match=message.replace("[", r"\[")):
        decode(Commit, json.dumps(raw).encode(), "x")


@pytest.mark.parametrize(
    ("found", "hint"), [(FORMAT_VERSION + 1, "upgrade tidemill"), (0, None), ("1", None), (None, None), ([1], None)]
)
def test_another_format_is_refused(found: Any, hint: str | None) -> None:
    with pytest.raises(CorruptState) as refused:
        decode(Plan, json.dumps(PLAN | {"format": found}).encode(), "plans/1.json")
    expected = f"read plan `plans/1.json`: format {found}, this Tidemill reads format {FORMAT_VERSION}"
    assert (refused.value.first_line, refused.value.hint) == (expected, hint)

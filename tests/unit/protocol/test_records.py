"""Records: they are read back as written, and anything else is an error that names the field that does not fit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings

from tests.unit.protocol import valid_records as make
from tests.unit.protocol.any_records import records
from tidemill.errors import CorruptState, InternalError, InvalidInput
from tidemill.protocol.codec import decode, decode_entry, encode
from tidemill.protocol.entries import Entry, Init, Operators
from tidemill.protocol.records import (
    FORMAT_VERSION,
    HASH_END,
    Commit,
    OperatorMetrics,
    Plan,
    Receipt,
    digest,
)
from tidemill.protocol.refs import begin


@given(records)
@settings(max_examples=50, deadline=None)
def test_a_record_is_read_back_as_it_was_written(record: Any) -> None:
    data = encode(record)
    found = decode(type(record), data, "x")
    assert found == record
    assert encode(found) == data
    assert getattr(found, "checksum", digest(data[:-47])) == digest(data[:-47])


def as_json(record: Any) -> dict[str, Any]:
    """Return the JSON of a record without its checksum, so that a test can change the record."""
    raw: dict[str, Any] = json.loads(encode(record))
    del raw["checksum"]
    return raw


def test_a_hash_is_written_as_text_so_no_reader_rounds_it() -> None:
    raw = json.loads(encode(make.init(seeds={"op": {"map": [make.segment(lo=255, hi=HASH_END)]}})))
    [segment] = raw["seeds"]["op"]["map"]
    assert (segment["lo"], segment["hi"]) == ("00000000000000ff", "ffffffffffffffff")


def test_the_hash_of_a_deadline_is_written_only_if_set() -> None:
    for place, written in ((9, "0000000000000009"), (0, None)):
        record = make.init(seeds={"op": {"map": [make.segment(min_deadline_ms=5, min_deadline_hash=place)]}})
        [segment] = json.loads(encode(record))["seeds"]["op"]["map"]
        assert segment.get("min_deadline_hash") == written
        assert decode(Init, encode(record), "x") == record


def test_an_older_reader_ignores_fields_it_does_not_know() -> None:
    raw = as_json(make.plan()) | {"added_later": {"x": [1]}}
    assert decode(Plan, make.sealed(raw), "x") == make.plan()


def test_fields_with_a_default_may_be_missing() -> None:
    raw = as_json(make.plan())
    del raw["outstanding_files"], raw["oldest_waiting_ms"]
    assert decode(Plan, make.sealed(raw), "x") == make.plan()


def test_metrics_add_up_field_by_field() -> None:
    one, two = OperatorMetrics(rows=1, late_rows=2, apply_ms=3), OperatorMetrics(rows=10, rows_total=7, apply_ms=4)
    assert one.plus(two) == OperatorMetrics(rows=11, late_rows=2, rows_total=7, apply_ms=7)


# what is refused

REFS = begin(dataclasses.replace(make.init(), checksum="0" * 32))
PLAN = as_json(make.plan(splits=(make.split(),)))
COMMIT = as_json(
    make.commit(
        state={"op": {"map": [make.segment()]}},
        schemas={"op": make.operator("map")},
        sinks={"out": {"kind": "json", "path": "/out", "schema": "k string"}},
    )
)
SEGMENT = COMMIT["state"]["op"]["map"][0]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not JSON (Expecting value"),
        (b"{", "not JSON ("),
        (b"\xff", "not JSON ("),
        (b"[" * 100_000, "not JSON ("),
        (b"null", "it is not an object"),
        (b"[]", "it is not an object"),
        (b"{}", "the record does not end with its checksum"),
        ({"format": 1}, "field `number` is missing"),
        (PLAN | {"number": -1}, "field `number`: expected an integer from 0 to 9999999999, found '-1'"),
        (PLAN | {"number": 10**10}, "field `number`: expected an integer from 0 to 9999999999, found"),
        (PLAN | {"block_rows": 0}, "field `block_rows`: expected an integer from 1 to 2147483647, found '0'"),
        (PLAN | {"batch_time_ms": -1}, "field `batch_time_ms`: expected an integer from 0 to 253402300799999"),
        (PLAN | {"batch_time_ms": 10**16}, "field `batch_time_ms`: expected an integer from 0 to 253402300799999"),
        (PLAN | {"number": "1"}, "field `number`: expected an integer, found '1'"),
        (PLAN | {"number": True}, "field `number`: expected an integer, found 'True'"),
        (PLAN | {"number": 1.0}, "field `number`: expected an integer, found '1.0'"),
        (PLAN | {"number": None}, "field `number`: expected an integer, found 'None'"),
        (PLAN | {"branch": 1}, "field `branch`: expected a string, found '1'"),
        (PLAN | {"kind": 1}, "field `kind`: expected one of "),
        (PLAN | {"splits": {}}, "field `splits`: expected a list, found '{}'"),
        (PLAN | {"splits": [PLAN["splits"][0], 1]}, "field `splits[1]`: expected an object, found '1'"),
        (PLAN | {"splits": [{"source": "s"}]}, "field `splits[0].path` is missing"),
        (
            PLAN | {"splits": [PLAN["splits"][0] | {"row_groups": [1]}]},
            "field `splits[0].row_groups`: expected 2 values",
        ),
    ],
)
def test_an_invalid_plan_is_corrupt_state_that_names_the_field(raw: Any, message: str) -> None:
    data = raw if isinstance(raw, bytes) else make.sealed(raw)
    with pytest.raises(CorruptState) as refused:
        decode(Plan, data, "plans/1.json")
    assert refused.value.first_line.startswith(f"read plan `plans/1.json`: {message}")
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("restore the object from a backup")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lo": 0}, "field `state.op.map[0].lo`: expected 16 hex digits, found '0'"),
        ({"lo": "ff"}, "field `state.op.map[0].lo`: expected 16 hex digits, found 'ff'"),
        ({"hi": "-00000000000000f"}, "field `state.op.map[0].hi`: expected 16 hex digits"),
        ({"hi": "10000000000000000"}, "field `state.op.map[0].hi`: expected 16 hex digits"),
        (
            {"name": "../../etc/passwd"},
            "read commit `x`: a record names the object '../../etc/passwd', which is outside",
        ),
        ({"name": "/etc/passwd"}, "a record names the object '/etc/passwd', which is outside"),
        ({"name": ""}, "a record names the object '', which is outside"),
        ({"size": -1}, "field `state.op.map[0].size`: expected an integer from 0 to 9223372036854775807, found '-1'"),
        ({"sequence": -1}, "field `state.op.map[0].sequence`: expected an integer from 0 to"),
        ({"min_deadline_ms": 2**63}, "field `state.op.map[0].min_deadline_ms`: expected an integer from -9223372"),
        ({"name": None}, "field `state.op.map[0].name`: expected a string, found 'None'"),
        (
            {"lo": "00000000000000ff", "hi": "00000000000000fe"},
            "field `state.op.map[0]`: expected `lo` at or below `hi`, found '`lo` 00000000000000ff, `hi` 000000000000",
        ),
    ],
)
def test_an_invalid_segment_is_corrupt_state(change: dict[str, Any], message: str) -> None:
    raw = COMMIT | {"state": {"op": {"map": [SEGMENT | change]}}}
    with pytest.raises(CorruptState, match=message.replace("[", r"\[")):
        decode(Commit, make.sealed(raw), "x")


@pytest.mark.parametrize("found", [0, "1", None, [1]])
def test_an_unknown_format_version_is_corrupt_state(found: Any) -> None:
    with pytest.raises(CorruptState) as refused:
        decode(Plan, make.sealed(PLAN | {"format": found}), "plans/1.json")
    assert refused.value.first_line == f"read plan `plans/1.json`: found format {found}, expected {FORMAT_VERSION}"


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (PLAN | {"format": 2}, "read plan `x`: it has format 2, this Tidemill reads format 1"),
        (PLAN | {"requires": ["moons"]}, "read plan `x`: it requires moons"),
        (PLAN | {"kind": "moon"}, "read plan `x`: it is of kind 'moon'"),
        (COMMIT | {"kind": "split"}, "read commit `x`: it is of kind 'split'"),
        (COMMIT | {"requires": ["a", "b"]}, "read commit `x`: it requires a, b"),
    ],
)
def test_a_record_of_a_newer_tidemill_is_never_called_corrupt(raw: Any, what: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        decode(Commit if "version" in raw else Plan, make.sealed(raw), "x")
    assert refused.value.first_line == f"{what}; it was written by a newer Tidemill"
    assert refused.value.hint == "upgrade tidemill on this machine"


def test_an_entry_of_an_unknown_kind_is_skipped_only_if_it_says_so() -> None:
    raw = as_json(make.added(REFS, "op")) | {"kind": "moon"}
    with pytest.raises(InvalidInput, match="read entry `x`: it is of kind 'moon'; it was written by a newer Tidemill"):
        decode_entry(make.sealed(raw), "x")
    found = decode_entry(make.sealed(raw | {"ignorable": True}), "x")
    assert (type(found), found.number, found.parent) == (Entry, 1, REFS.refs_checksum)


# what a record describes


def refused(kind: Any, raw: dict[str, Any]) -> str:
    """Return the first line of the error for a record."""
    with pytest.raises(CorruptState) as caught:
        decode(kind, make.sealed(raw), "x")
    return caught.value.first_line


DESCRIBED = [
    ({}, "kind` is missing"),
    ({"kind": None}, "kind`: expected a string, found 'None'"),
    ({"key": "k"}, "key`: expected a list, found 'k'"),
    ({"key": ["k", 1]}, "key[1]`: expected a string, found '1'"),
    ({"maps": []}, "maps`: expected an object, found '[]'"),
    ({"maps": {"map": {}}}, "maps.map.key` is missing"),
    ({"maps": {"map": {"key": "k strin"}}}, "maps.map.key`: read schema `k strin`: at character 3: unknown type"),
    ({"maps": {"map": {"key": "k int", "sub_key": None}}}, "maps.map.sub_key`: expected a string, found 'None'"),
    ({"maps": {"map": {"key": "k int", "sub_key": "", "value": "double"}}}, "maps.map.value`: read schema `double`: "),
    ({"output": "a int, A int"}, "output`: schema `a int, A int` has column `A` twice"),
    ({"output": "a " + "array<" * 9_999}, "output`: "),
    ({"output": f"a decimal({'9' * 9_999})"}, "output`: "),
    ({"rules": ["sum(a)"]}, "rules`: expected an object, found"),
    ({"rules": {"total": 1}}, "rules.total`: expected a string, found '1'"),
    ({"inputs": ["int"]}, "inputs`: expected an object, found"),
    ({"inputs": {"total": None}}, "inputs.total`: expected a string, found 'None'"),
    ({"inputs": {"total": "itn"}}, "inputs.total`: read schema `value itn`: at character 7: unknown type"),
    ({"inputs": {"total": ""}}, "inputs.total`: found no type, expected one such as `int`"),
    ({"inputs": {"total": "int, n int"}}, "inputs.total`: found 2 columns, expected a type such as `int`"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), DESCRIBED)
@pytest.mark.parametrize("record", [make.init(), make.added(REFS, "op"), make.commit(state={"op": {"map": []}})])
def test_an_invalid_description_of_an_operator_is_corrupt_state(
    record: Any, change: dict[str, Any], message: str
) -> None:
    raw = as_json(record) | {"schemas": {"op": make.operator("map", **change) if change else {}}}
    kind = "commit" if isinstance(record, Commit) else "entry"
    assert refused(type(record), raw).startswith(f"read {kind} `x`: field `schemas.op.{message}")


@pytest.mark.parametrize(
    ("sinks", "message"),
    [
        ([], "sinks`: expected an object, found '[]'"),
        ({"out": None}, "sinks.out`: expected an object, found 'None'"),
        ({"out": {"kind": None, "schema": ""}}, "sinks.out.path` is missing"),
        ({"out": {"kind": 1, "path": None, "schema": ""}}, "sinks.out.kind`: expected a string, found '1'"),
        ({"out": {"kind": None, "path": [1], "schema": ""}}, "sinks.out.path`: expected a string, found '[1]'"),
        ({"out": {"kind": None, "path": None, "schema": "k strin"}}, "sinks.out.schema`: read schema `k strin`: at"),
    ],
)
def test_an_invalid_description_of_a_sink_is_corrupt_state(sinks: Any, message: str) -> None:
    assert refused(Commit, COMMIT | {"sinks": sinks}).startswith(f"read commit `x`: field `{message}")


def test_fields_of_a_newer_writer_are_kept() -> None:
    schemas = {"op": make.operator("map", added_later=[1])}
    assert decode(Commit, make.sealed(COMMIT | {"schemas": schemas}), "x").schemas == schemas


@pytest.mark.parametrize(
    ("kind", "state", "message"),
    [
        ("batch", {}, "operator `op` is in `schemas`"),
        ("sweep", {"other": {"map": []}}, "operator `op` is in `schemas`"),
        ("batch", {"op": {"other": []}}, "map `map` of operator `op` is in `schemas`"),
        ("void", {"op": {}}, "map `map` of operator `op` is in `schemas`"),
        ("void", {}, "operator `op` is in `schemas`"),
    ],
)
def test_an_operator_never_starts_empty_because_a_commit_lacks_its_state(kind: str, state: Any, message: str) -> None:
    raw = COMMIT | {"kind": kind, "state": state}
    assert refused(Commit, raw) == f"read commit `x`: {message}, but missing from `state`"


def test_an_operator_without_maps_is_in_the_state_too() -> None:
    raw = COMMIT | {"schemas": {"op": make.operator()}}
    assert decode(Commit, make.sealed(raw | {"state": {"op": {}}}), "x").state == {"op": {}}
    assert refused(Commit, raw | {"state": {}}) == (
        "read commit `x`: operator `op` is in `schemas`, but missing from `state`"
    )


def test_a_record_that_could_not_be_read_is_not_written() -> None:
    for record in (make.init(schemas={"op": {}}), make.commit(schemas={"op": make.operator("map")})):
        with pytest.raises(InternalError, match="write (entry|commit): .*; nothing was written"):
            encode(record)


@pytest.mark.parametrize(
    ("field", "value"),
    [("watermarks", {"a": 2**63}), ("next_deadline", {"a": -(2**63) - 1}), ("committed_ms", -1), ("version", 10**10)],
)
def test_an_integer_that_could_not_be_read_is_not_written(field: str, value: Any) -> None:
    with pytest.raises(InternalError, match=rf"write commit: field `{field}.*: expected an integer from"):
        encode(make.commit(**{field: value}))


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"write commit: found text that is not UTF-8, at the end of .*a reason \\udcff"
    ):
        encode(make.commit(reason="a reason \udcff"))


# checksums

WRITTEN = {
    Init: encode(make.init(seeds={"op": {"map": [make.segment()]}})),
    Operators: encode(make.added(REFS, "op")),
    Plan: encode(make.plan(splits=(make.split("ü.csv"),))),
    Receipt: encode(make.receipt()),
    Commit: encode(make.commit(state={"op": {"map": [make.segment()]}})),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_record_ends_with_the_checksum_of_the_bytes_before_it(kind: type) -> None:
    data = WRITTEN[kind]
    body, found = data[:-47], json.loads(data)["checksum"]
    assert data == body + b',"checksum":"' + found.encode() + b'"}'
    assert found == digest(body) == hashlib.blake2b(body, digest_size=16).hexdigest()


@pytest.mark.parametrize("kind", WRITTEN)
def test_an_altered_byte_of_a_record_is_always_detected(kind: Any) -> None:
    """Any altered byte breaks the JSON, the format or the checksum."""
    data = WRITTEN[kind]
    word = range(len(data) - 45, len(data) - 37)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        if at in word:
            with pytest.raises(CorruptState, match="the record does not end with its checksum"):
                decode(kind, bytes(changed), "x")
        else:
            with pytest.raises((CorruptState, InvalidInput)):  # format 1 may become format 3
                decode(kind, bytes(changed), "x")


def test_an_altered_value_fails_the_checksum() -> None:
    data = WRITTEN[Commit]
    known, changed = json.loads(data)["checksum"], data.replace(b'"hi":"f', b'"hi":"e')
    with pytest.raises(CorruptState) as caught:
        decode(Commit, changed, "x")
    message = f"read commit `x`: checksum of the content is {digest(changed[:-47])}, expected {known}"
    assert (caught.value.first_line, caught.value.hint) == (
        message, "restore the object from a backup; nothing is repaired silently",
    )  # fmt: skip


def test_an_altered_entry_of_any_kind_is_corrupt_state() -> None:
    with pytest.raises(CorruptState, match="read entry `x`: checksum of the content is"):
        decode_entry(WRITTEN[Operators].replace(b'"operators"', b'"operatora"'), "x")


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_record_without_its_checksum_is_corrupt(kind: Any) -> None:
    data = WRITTEN[kind]
    raw = json.loads(data)
    del raw["checksum"]
    for without in (json.dumps(raw, indent=1).encode(), data[:-47] + b"}"):
        with pytest.raises(CorruptState, match="the record does not end with its checksum"):
            decode(kind, without, "x")


@pytest.mark.parametrize("checksum", [None, 1, "", "0" * 32, {}])
def test_a_checksum_that_does_not_end_the_record_is_corrupt(checksum: Any) -> None:
    data = json.dumps({"checksum": checksum} | PLAN, separators=(",", ":")).encode()
    with pytest.raises(CorruptState, match="read plan `x`: the record does not end with its checksum"):
        decode(Plan, data, "x")
    with pytest.raises(CorruptState, match="the record does not end with its checksum"):
        decode(Plan, WRITTEN[Plan] + b"\n", "x")

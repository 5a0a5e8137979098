"""The encoder and the readers beside naive ones: the same bytes, and the same records as their constructors make."""

from __future__ import annotations

import dataclasses
import json
import pickle
import typing
from typing import Any

import pytest
from hypothesis import given, settings

from tests.unit.protocol import valid_records as make
from tests.unit.protocol.any_records import records
from tidemill.protocol.bounds import Hexadecimal
from tidemill.protocol.codec import decode, encode
from tidemill.protocol.records import Commit, Plan, Receipt, Segment, StoreFloor, StoreVersion, digest

OMITTED_IF_EMPTY = {
    "failed", "failure", "min_deadline_hash", "etag", "requeued", "waiting", "renamed", "restores", "replaced",
    "shown_by", "sink", "forgotten", "forgotten_at", "replays", "computed", "promoted", "promotions", "state_changes",
    "kept_late_rows", "late_examples", "bad_files", "quarantined_files", "released", "follows", "following",
    "operators_through", "peak_memory_bytes", "position", "positions", "late_inputs", "reached_rows", "failed_rows",
    "behind", "late_behind", "failed_behind", "asked", "given", "without", "sinks_read",
    "found_by", "left", "again", "replaced_objects", "removed_rows", "rewrote_at",
}  # fmt: skip


def naive(value: Any, kind: Any = None) -> Any:
    """Return a record as plain JSON values, field by field."""
    if Hexadecimal() in typing.get_args(kind):
        return f"{value:016x}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = typing.get_type_hints(type(value), include_extras=True)
        found = {field.name: (field, getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {
            name: naive(each, hints[name])
            for name, (field, each) in found.items()
            if each or name not in OMITTED_IF_EMPTY or field.default is field.default_factory is dataclasses.MISSING
        }
    if isinstance(value, dict):
        return {name: naive(each) for name, each in value.items()}
    return [naive(each) for each in value] if isinstance(value, list | tuple) else value


@given(records)
@settings(max_examples=50, deadline=None)
def test_a_record_is_written_as_by_a_naive_encoder(record: Any) -> None:
    fields = {name: value for name, value in naive(record).items() if name != "checksum"}
    body = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()[:-1]
    assert encode(record) == body + f',"checksum":"{digest(body)}"}}'.encode()


@given(records)
@settings(max_examples=20, deadline=None)
def test_a_record_that_was_read_is_as_its_constructor_makes_it(record: Any) -> None:
    found = decode(type(record), encode(record), "x")
    made = type(record)(**{field.name: getattr(found, field.name) for field in dataclasses.fields(found)})
    assert list(vars(found).items()) == list(vars(made).items())
    assert (repr(found), pickle.loads(pickle.dumps(found))) == (repr(made), made)


@pytest.mark.parametrize("kind", [Commit, Plan, Receipt, StoreVersion, StoreFloor, Segment])
def test_defaults_of_records_that_were_read_are_not_shared(kind: type) -> None:
    from tidemill.protocol.typed import reader

    needed = {
        Commit: make.commit(),
        Plan: make.plan(),
        Receipt: make.receipt(),
        Segment: make.segment(),
        StoreVersion: StoreVersion(1, "a", "k string", "n bigint", [make.segment()], 1, 5),
        StoreFloor: StoreFloor(0, 1, 5),
    }[kind]
    raw = naive(needed)
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING:
            raw.pop(field.name, None)
    one, two = reader(kind)(raw), reader(kind)(raw)
    assert one == two == dataclasses.replace(needed, **defaults(kind))
    for field in dataclasses.fields(kind):
        if field.default_factory is not dataclasses.MISSING:
            assert getattr(one, field.name) is not getattr(two, field.name)


def defaults(kind: type) -> dict[str, Any]:
    """Return the defaults of a record class."""
    found = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


def test_a_value_that_is_no_json_is_an_error() -> None:
    with pytest.raises(TypeError, match="a object is no JSON value"):
        encode(make.commit(code={"x": object()}))

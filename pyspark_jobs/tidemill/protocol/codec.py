"""Records to JSON and back, strictly typed by their annotations. A record ends with a checksum of its own bytes.

INVARIANT: decoding fails for bytes that differ from those written, for an integer out of its range, and for an operator
that is described but has no state. A record that needs a newer Tidemill says so, and is never called corrupt. Fields
that this version does not know are ignored.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import CorruptState, InternalError, InvalidInput
from .bounds import Hexadecimal, Range
from .described import DescribedOperator, DescribedSink, DescribedSource
from .entries import ENTRIES, Entry
from .records import (
    FEATURES,
    FORMAT_VERSION,
    MOVED,
    Commit,
    Kind,
    Plan,
    PlanKind,
    Published,
    Receipt,
    StoreFloor,
    StoreVersion,
    digest,
)
from .refs import Refs
from .typed import Unfit, hints, reader

AnyRecord = Plan | Receipt | Commit | Published | Refs | Entry | StoreVersion | StoreFloor
Record = TypeVar("Record", Plan, Receipt, Commit, Published, Refs, Entry, StoreVersion, StoreFloor)

_OMITTED = {
    "failed", "failure", "min_deadline_hash", "etag", "requeued", "waiting", "renamed", "restores", "replaced",
    "shown_by", "sink", "forgotten", "forgotten_at", "replays", "computed", "promoted", "promotions", "state_changes",
    "kept_late_rows", "late_examples", "bad_files", "quarantined_files", "released", "follows", "following",
    "operators_through", "peak_memory_bytes", "position", "positions", "late_inputs", "reached_rows", "failed_rows",
    "behind", "late_behind", "failed_behind", "asked", "given", "without", "sinks_read",
    "found_by", "left", "again", "replaced_objects", "removed_rows", "rewrote_at",
}  # fmt: skip
"""Fields that are written only if they are set, because most records have none."""
_OMITTED_OF: dict[type[Any], set[str]] = {Refs: {"requires"}}
"""The same of fields that other records always write."""
_DESCRIBED = {
    "schemas": dict[str, DescribedOperator],
    "sinks": dict[str, DescribedSink],
}
_KINDS = {Commit: typing.get_args(Kind), Plan: typing.get_args(PlanKind)}
_SUFFIX = re.compile(rb',"checksum":"([0-9a-f]{32})"}')
_SUFFIX_BYTES = 47
_RESTORE = "restore the object from a backup; nothing is repaired silently"
MOVED_TO = "the repository was moved to"
"""Words of the error that a fence raises, before the URI."""


def encode(record: AnyRecord) -> bytes:
    """Return the record as UTF-8 JSON. Equal records give equal bytes; the last field is the checksum of the rest.

    `InternalError` for a record that `decode` would reject because of its descriptions, or because an integer is out of
    its range. Once written, it could never be read. `InvalidInput` for text that is not UTF-8, such as a reason from a
    terminal with another encoding.
    """
    try:
        _check_described(record)
        _check_ranges(record)
    except ValueError as error:
        raise InternalError(f"write {_word(type(record))}: {error}; nothing was written") from error
    plain = _fields(record)
    plain.pop("checksum", None)
    try:
        body = _JSON.encode(plain).encode()[:-1]
    except UnicodeEncodeError as error:  # arguments and names of files need not be UTF-8
        text = error.object[max(error.start - 40, 0) : error.end]
        raise InvalidInput(
            f"write {_word(type(record))}: found text that is not UTF-8, at the end of {text!r}; nothing was written"
        ) from error
    return body + f',"checksum":"{digest(body)}"}}'.encode()


def checksum_of(data: bytes) -> str:
    """Return the checksum at the end of an encoded record."""
    return data[-34:-2].decode()


def decode(kind: type[Record], data: bytes, name: str) -> Record:
    """Return the record in `data`, the content of the object `name`.

    `CorruptState` if `data` is not such a record, `InvalidInput` if a newer Tidemill wrote it.
    """
    return _typed(kind, _parsed(data, _word(kind), name), name)


def decode_entry(data: bytes, name: str) -> Entry:
    """Return the entry of `refs/` in `data`. An entry of an unknown kind is an `Entry` if it may be ignored.

    `CorruptState` if `data` is not an entry, `InvalidInput` if a newer Tidemill wrote it and it may not be ignored.
    """
    raw = _parsed(data, "entry", name)
    kind = raw.get("kind")
    if kind in ENTRIES:
        return _typed(ENTRIES[kind], raw, name)
    if raw.get("ignorable") is not True:
        raise _newer("entry", name, f"it is of kind {str(kind)[:80]!r}")
    return _typed(Entry, raw, name)


def _word(kind: type[AnyRecord]) -> str:
    return "entry" if issubclass(kind, Entry) else kind.__name__.lower()


def _typed(kind: type[Record], raw: Any, name: str) -> Record:
    expected = _word(kind)
    try:
        record = typing.cast(Record, reader(kind)(raw))
        _check_described(record)
        return record
    except (TypeError, ValueError) as error:
        raise CorruptState(f"read {expected} `{name}`: {error}", hint="restore the object from a backup") from error
    except CorruptState as error:  # a name that leaves the repository
        raise CorruptState(f"read {expected} `{name}`: {error.message}") from error


def _parsed(data: bytes, expected: str, name: str) -> dict[str, Any]:
    """Return the JSON of a record after the checks that come before its fields: checksum, format, features, kind."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptState(
            f"read {expected} `{name}`: not JSON ({error})", hint="restore the object from a backup"
        ) from error
    version = raw.get("format") if isinstance(raw, dict) else None
    if type(version) is int and version > FORMAT_VERSION:  # its checksum may be another one, too
        raise _newer(expected, name, f"it has format {version}, this Tidemill reads format {FORMAT_VERSION}")
    fault = _checksum_fault(data) if isinstance(raw, dict) else "it is not an object"
    if fault is not None:
        raise CorruptState(f"read {expected} `{name}`: {fault}", hint=_RESTORE)
    _check_understood(raw, expected, name)
    return typing.cast(dict[str, Any], raw)


def _check_understood(raw: dict[str, Any], expected: str, name: str) -> None:
    """Raise `InvalidInput` for a record that only a newer Tidemill reads correctly."""
    version, requires = raw.get("format"), raw.get("requires", [])
    if version != FORMAT_VERSION:
        raise CorruptState(
            f"read {expected} `{name}`: found format {str(version)[:80]}, expected {FORMAT_VERSION}", hint=_RESTORE
        )
    if isinstance(requires, list) and MOVED in requires:
        raise InvalidInput(
            f"read {expected} `{name}`: the repository was moved to `{str(raw.get('reason'))[:400]}`, and nothing is "
            "committed here any more",
            hint="use the root of that place; to move the repository back, remove this folder and copy that one here",
        )
    unknown = [word for word in requires if word not in FEATURES] if isinstance(requires, list) else []
    if unknown:
        raise _newer(expected, name, f"it requires {', '.join(map(str, unknown))[:80]}")
    for kind, known in _KINDS.items():
        if expected == _word(kind) and isinstance(raw.get("kind"), str) and raw["kind"] not in known:
            raise _newer(expected, name, f"it is of kind {raw['kind'][:80]!r}")


def _newer(expected: str, name: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"read {expected} `{name}`: {what}; it was written by a newer Tidemill", hint="upgrade tidemill on this machine"
    )


def _checksum_fault(data: bytes) -> str | None:
    """Return what is wrong with the checksum of a record, or None if it is right."""
    suffix = _SUFFIX.fullmatch(data[-_SUFFIX_BYTES:])
    if suffix is None:
        return "the record does not end with its checksum"
    expected, found = suffix[1].decode(), digest(data[:-_SUFFIX_BYTES])
    return None if found == expected else f"checksum of the content is {found}, expected {expected}"


def _check_described(record: Any) -> None:
    """Raise ValueError if the description of an operator or sink is malformed, or a described operator has no state.

    INVARIANT: a commit has a list of segments for each map of each operator that it describes, even if the list is
    empty. Without the list, the operator would start empty by accident.
    """
    for name, shape in _DESCRIBED.items():
        try:
            reader(shape)(getattr(record, name, {}))
        except Unfit as error:
            error.way.append(f".{name}")
            raise
    if isinstance(record, Commit):
        reader(dict[str, DescribedSource])(record.sources)
        _check_state(record)


def _check_ranges(record: Any) -> None:
    """Raise ValueError if an integer of the record itself is out of range. Those of segments are not looked at."""
    for name, read in _bounded(record.__class__).items():
        try:
            read(getattr(record, name))
        except Unfit as error:
            error.way.append(f".{name}")
            raise


@functools.cache
def _bounded(kind: Any) -> dict[str, Callable[[Any], Any]]:
    """Return the fields of a record class that are an integer with a range, or an object of such integers."""
    return {name: reader(hint) for name, hint in hints(kind).items() if _has_range(hint)}


def _has_range(hint: Any) -> bool:
    inner = typing.get_args(hint)[-1] if typing.get_origin(hint) is dict else hint
    return any(isinstance(mark, Range) for mark in getattr(inner, "__metadata__", ()))


def _check_state(record: Commit) -> None:
    """Raise ValueError if a described operator has no list of segments for one of its maps."""
    for operator, description in record.schemas.items():
        maps = record.state.get(operator)
        if maps is None:
            raise ValueError(f"operator `{operator}` is in `schemas`, but missing from `state`")
        for name in description["maps"]:
            if name not in maps:
                raise ValueError(f"map `{name}` of operator `{operator}` is in `schemas`, but missing from `state`")


def _fields(record: Any) -> dict[str, Any]:
    """Return the fields of a record for the JSON encoder, which calls this again for the records among them."""
    hashes, omitted = _special_fields(record.__class__)
    fields = dict(vars(record))  # in the order of their declaration
    for name in omitted:
        if not fields[name]:
            del fields[name]
    for name in hashes:
        if name in fields:
            fields[name] = f"{fields[name]:016x}"
    return fields


@functools.cache
def _special_fields(kind: type[Any]) -> tuple[list[str], list[str]]:
    """Return the names of the hashes of a record class, and of the fields that are written only if they are set."""
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"a {kind.__name__} is no JSON value")
    hashes = [name for name, hint in hints(kind).items() if Hexadecimal() in typing.get_args(hint)]
    fields = dataclasses.fields(kind)
    omitted = _OMITTED | _OMITTED_OF.get(kind, set())
    return hashes, [f.name for f in fields if f.name in omitted and _has_default(f)]


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False, default=_fields)

"""Records to JSON and back, strictly typed by their annotations. A record ends with a checksum of its own bytes.

INVARIANT: decoding fails for an unknown format version, for bytes that differ from those written, and for an operator
that is described but has no state. Fields that this version does not know are ignored.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from typing import Any, TypeVar

from ..errors import CorruptState, InternalError
from .described import DescribedOperator, DescribedSink
from .records import (
    ENTRIES,
    FORMAT_VERSION,
    Added,
    Commit,
    Init,
    Plan,
    Receipt,
    Seeded,
    StoreFloor,
    StoreVersion,
    digest,
)
from .typed import HASHES, Unfit, reader

Record = TypeVar("Record", Init, Added, Seeded, Plan, Receipt, Commit, StoreVersion, StoreFloor)

# Fields that were added after the first records. They are written only if set, so that old records keep their bytes.
_LATER = {"failed", "failure", "min_deadline_hash"}
_DESCRIBED = {"schemas": dict[str, DescribedOperator], "sinks": dict[str, DescribedSink]}
_SUFFIX = re.compile(rb',"checksum":"([0-9a-f]{32})"}')
_SUFFIX_BYTES = 47


def encode(record: Init | Added | Plan | Receipt | Commit | StoreVersion | StoreFloor) -> bytes:
    """Return the record as UTF-8 JSON. Equal records give equal bytes; the last field is the checksum of the rest.

    `InternalError` for a record that `decode` would reject because of its descriptions. Once written, it could never be
    read.
    """
    try:
        _check_described(record)
    except ValueError as error:
        raise InternalError(f"write {type(record).__name__.lower()}: {error}; nothing was written") from error
    body = json.dumps(_plain(record), separators=(",", ":"), ensure_ascii=False).encode()[:-1]
    return body + f',"checksum":"{digest(body)}"}}'.encode()


def decode(kind: type[Record], data: bytes, name: str) -> Record:
    """Return the record in `data`, the content of the object `name`. `CorruptState` if `data` is not such a record."""
    expected = kind.__name__.lower()
    raw = _parsed(data, expected, name)
    try:
        record = typing.cast(Record, reader(kind)(raw))
        _check_described(record)
        return record
    except (TypeError, ValueError) as error:
        raise CorruptState(f"read {expected} `{name}`: {error}", hint="restore the object from a backup") from error
    except CorruptState as error:  # a name that leaves the repository
        raise CorruptState(f"read {expected} `{name}`: {error.message}") from error


def decode_entry(data: bytes, name: str) -> Added:
    """Return the entry of `refs/` in `data`. `CorruptState` if `data` is not an entry, or has an unknown `kind`."""
    raw = _parsed(data, "entry", name)
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if kind not in ENTRIES:
        raise CorruptState(
            f"read entry `{name}`: unknown kind {str(kind)[:80]!r}, this Tidemill knows {', '.join(ENTRIES)}",
            hint="upgrade tidemill if a newer version wrote the entry; otherwise restore it from a backup",
        )
    return decode(ENTRIES[kind], data, name)


def _parsed(data: bytes, expected: str, name: str) -> Any:
    """Return the JSON of a record. `CorruptState` for an unknown format version or a checksum that does not match."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptState(
            f"read {expected} `{name}`: not JSON ({error})", hint="restore the object from a backup"
        ) from error
    version = raw.get("format", FORMAT_VERSION) if isinstance(raw, dict) else FORMAT_VERSION
    if version != FORMAT_VERSION:
        raise CorruptState(
            f"read {expected} `{name}`: found format {str(version)[:80]}, this Tidemill reads format {FORMAT_VERSION}",
            hint="upgrade tidemill" if isinstance(version, int) and version > FORMAT_VERSION else None,
        )
    fault = _checksum_fault(data) if isinstance(raw, dict) and "checksum" in raw else None
    if fault is not None:
        raise CorruptState(
            f"read {expected} `{name}`: {fault}",
            hint="restore the object from a backup; nothing is repaired silently",
        )
    return raw


def _checksum_fault(data: bytes) -> str | None:
    """Return what is wrong with the checksum of a record that has one, or None if it is right."""
    suffix = _SUFFIX.fullmatch(data[-_SUFFIX_BYTES:])
    if suffix is None:
        return "the record has a checksum, but does not end with it"
    expected, found = suffix[1].decode(), digest(data[:-_SUFFIX_BYTES])
    return None if found == expected else f"checksum of the content is {found}, expected {expected}"


def _check_described(record: Any) -> None:
    """Raise ValueError if the description of an operator or sink is malformed, or a described operator has no state.

    INVARIANT: a commit has a list of segments for each map of each operator that it describes, even if the list is
    empty. Without the list, the operator would start empty by accident. Only void commits before the first batch have
    no state at all.
    """
    for name, shape in _DESCRIBED.items():
        try:
            reader(shape)(getattr(record, name, {}))
        except Unfit as error:
            error.way.append(f".{name}")
            raise
    if not isinstance(record, Commit) or (record.kind == "void" and not record.state):
        return
    for operator, description in record.schemas.items():
        maps = record.state.get(operator)
        if maps is None:
            raise ValueError(f"operator `{operator}` is in `schemas`, but missing from `state`")
        for name in description["maps"]:
            if name not in maps:
                raise ValueError(f"map `{name}` of operator `{operator}` is in `schemas`, but missing from `state`")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: f"{getattr(value, f.name):016x}" if f.name in HASHES else _plain(getattr(value, f.name))
            for f in dataclasses.fields(value)
            if f.name not in _LATER or getattr(value, f.name)
        }
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value

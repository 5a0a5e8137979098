"""Records as JSON and back: strictly typed by their annotations, ending with a checksum of their own bytes.

INVARIANT: a reader refuses a format version it does not know, bytes that are not those written, and state that is
described and not there; it keeps nothing that it does not understand.
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

# came after the first records: written where they say something, so that old bytes stay as they were
_LATER = {"failed", "failure", "min_deadline_hash"}
_DESCRIBED = {"schemas": dict[str, DescribedOperator], "sinks": dict[str, DescribedSink]}
_SUFFIX = re.compile(rb',"checksum":"([0-9a-f]{32})"}')
_SUFFIX_BYTES = 47


def encode(record: Init | Added | Plan | Receipt | Commit | StoreVersion | StoreFloor) -> bytes:
    """The record as UTF-8 JSON, one stable byte string for one record; its last field is the checksum of the rest.

    `InternalError` for a record that `decode` would refuse for what it describes: written, it would be corrupt forever.
    """
    try:
        _check_described(record)
    except ValueError as error:
        raise InternalError(f"write {type(record).__name__.lower()}: {error}; nothing was written") from error
    body = json.dumps(_plain(record), separators=(",", ":"), ensure_ascii=False).encode()[:-1]
    return body + f',"checksum":"{digest(body)}"}}'.encode()


def decode(kind: type[Record], data: bytes, name: str) -> Record:
    """The record that `data`, the content of the object `name`, holds; `CorruptState` for anything else."""
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
    """The entry of `refs/` that `data` holds, by its `kind`; `CorruptState` for anything else, or a kind not known."""
    raw = _parsed(data, "entry", name)
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if kind not in ENTRIES:
        raise CorruptState(
            f"read entry `{name}`: its kind is {str(kind)[:80]!r}, this Tidemill knows {', '.join(ENTRIES)}",
            hint="a newer Tidemill may have written it: upgrade; else restore the object from a backup",
        )
    return decode(ENTRIES[kind], data, name)


def _parsed(data: bytes, expected: str, name: str) -> Any:
    """The JSON of a record whose format version this code knows, and whose checksum, if it has one, is right."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptState(
            f"read {expected} `{name}`: not JSON ({error})", hint="restore the object from a backup"
        ) from error
    version = raw.get("format", FORMAT_VERSION) if isinstance(raw, dict) else FORMAT_VERSION
    if version != FORMAT_VERSION:
        raise CorruptState(
            f"read {expected} `{name}`: format {str(version)[:80]}, this Tidemill reads format {FORMAT_VERSION}",
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
    """What is wrong with the checksum of a record that has one; None: nothing."""
    suffix = _SUFFIX.fullmatch(data[-_SUFFIX_BYTES:])
    if suffix is None:
        return "it has a checksum, and does not end with it"
    expected, found = suffix[1].decode(), digest(data[:-_SUFFIX_BYTES])
    return None if found == expected else f"its content has checksum {found}, it says {expected}"


def _check_described(record: Any) -> None:
    """ValueError where operators or sinks are not described as they should be, or an operator has no state.

    INVARIANT: what a commit describes it has state of, if only an empty list; else an operator would start empty. Only
    void commits before the first batch have none at all.
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
            raise ValueError(f"the operator `{operator}` stands in `schemas`, and `state` lacks it")
        for name in description["maps"]:
            if name not in maps:
                raise ValueError(f"the map `{name}` of operator `{operator}` stands in `schemas`, and `state` lacks it")


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

"""Records as JSON and back: strictly typed by their annotations, ending with a checksum of their own bytes.

INVARIANT: a reader refuses a format version it does not know, bytes that are not those written, and state that is
described and not there; it keeps nothing that it does not understand.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import types
import typing
from typing import Any, Literal, TypeVar

from .. import names
from ..errors import CorruptState, InternalError
from .described import Ddl, DescribedOperator, DescribedSink, ddl_fault
from .records import (
    ENTRIES,
    FORMAT_VERSION,
    Added,
    Commit,
    Init,
    OutputFile,
    Plan,
    QuarantineFile,
    Receipt,
    Seeded,
    Segment,
    StoreFloor,
    StoreVersion,
    digest,
)

Record = TypeVar("Record", Init, Added, Seeded, Plan, Receipt, Commit, StoreVersion, StoreFloor)

# 64-bit unsigned: written as 16 hex digits, because JSON readers lose integers beyond 2^53
_HASHES = {"lo", "hi", "min_deadline_hash"}
# came after the first records: written where they say something, so that old bytes stay as they were
_LATER = {"failed", "min_deadline_hash"}
_WORDS = {int: "an integer", str: "a string", bool: "true or false", float: "a number"}
_HASH = re.compile(r"[0-9a-f]{16}")
_OBJECTS = (Segment, OutputFile, QuarantineFile)
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
        record = typing.cast(Record, _typed(kind, raw, ""))
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
        _typed(shape, getattr(record, name, {}), name)
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
            f.name: f"{getattr(value, f.name):016x}" if f.name in _HASHES else _plain(getattr(value, f.name))
            for f in dataclasses.fields(value)
            if f.name not in _LATER or getattr(value, f.name)
        }
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def _typed(kind: Any, raw: Any, where: str) -> Any:
    """`raw` as an instance of the annotation `kind`; ValueError says where it does not fit."""
    origin = typing.get_origin(kind)
    if kind is Any:
        return raw
    if kind is Ddl:
        return _ddl(raw, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _record(kind, raw, where)
    if origin in (list, tuple):
        return _sequence(kind, origin, raw, where)
    if origin is dict:
        _check(isinstance(raw, dict), where, "an object", raw)
        item = typing.get_args(kind)[1]
        return {k: _typed(item, v, f"{where}.{k}") for k, v in raw.items()}
    if origin in (types.UnionType, typing.Union):
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        return None if raw is None else _typed(options[0], raw, where)
    if origin is Literal:
        _check(raw in typing.get_args(kind), where, f"one of {typing.get_args(kind)}", raw)
        return raw
    fits = isinstance(raw, kind) and not (kind is int and isinstance(raw, bool))
    _check(fits, where, _WORDS.get(kind, str(kind)), raw)
    return raw


def _sequence(kind: Any, origin: Any, raw: Any, where: str) -> Any:
    _check(isinstance(raw, list), where, "a list", raw)
    arguments = typing.get_args(kind)
    values = [_typed(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(raw)]
    if origin is list:
        return values
    _check(Ellipsis in arguments or len(arguments) == len(values), where, f"{len(arguments)} values", raw)
    return tuple(values)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _record(kind: type, raw: Any, where: str) -> Any:
    _check(isinstance(raw, dict), where, "an object", raw)
    hints = _hints(kind)
    values: dict[str, Any] = {}
    for f in dataclasses.fields(kind):
        at = f"{where}.{f.name}".lstrip(".")
        if f.name in raw:
            read = _hash(raw[f.name], at) if f.name in _HASHES else _typed(hints[f.name], raw[f.name], at)
            values[f.name] = read
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise ValueError(f"field `{at}` is missing")
    if kind in _OBJECTS:
        names.inside(values["name"])
    if kind is Segment:
        shown = f"`lo` {values['lo']:016x}, `hi` {values['hi']:016x}"
        _check(values["lo"] <= values["hi"], where, "`lo` not above `hi`", shown)
    return kind(**values)


def _ddl(raw: Any, where: str) -> str:
    _check(isinstance(raw, str), where, "a string", raw)
    fault = ddl_fault(raw)
    if fault is not None:
        raise ValueError(f"field `{where}`: {fault}")
    return str(raw)


def _hash(raw: Any, where: str) -> int:
    _check(isinstance(raw, str) and _HASH.fullmatch(raw) is not None, where, "16 hex digits", raw)
    return int(raw, 16)


def _check(holds: bool, where: str, expected: str, found: Any) -> None:
    if not holds:
        at = f"field `{where}`" if where else "the record"
        raise ValueError(f"{at}: expected {expected}, found {str(found)[:80]!r}")

"""The records of the protocol as dataclasses: init, plan, receipt, commit, and their JSON.

No I/O and no decisions here. INVARIANT: a record once written is never changed; a reader refuses a format version
it does not know, bytes that are not those written, and state that is described and not there; it keeps nothing that it
does not understand.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from .. import names
from ..errors import CorruptState, InternalError
from .described import Ddl, DescribedOperator, DescribedSink, ddl_fault

FORMAT_VERSION = 1
"""Written into every record; a higher one is refused."""

HASH_END = 2**64 - 1
"""The greatest key hash: ranges are inclusive at both ends, so `0..HASH_END` is the whole hash space."""

Kind = Literal["batch", "sweep", "void"]


@dataclass(frozen=True)
class Init:
    """The first entry of `refs/`: what this repository is. Version −1 of the state is what `init` made."""

    pipeline: str
    uuid: str
    created_ms: int
    seeds: dict[str, dict[str, list[Segment]]] = field(default_factory=dict)
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    format: int = FORMAT_VERSION


@dataclass(frozen=True)
class Added:
    """An entry of `refs/` by which `init` was told of further operators, and of ones that are no more.

    What is added begins empty, on purpose; the state of what is removed ends with the next commit.
    """

    schemas: dict[str, dict[str, Any]]
    created_ms: int
    removed: list[str] = field(default_factory=list)
    kind: Literal["operators"] = "operators"
    format: int = FORMAT_VERSION


ENTRIES = {"operators": Added}
"""What may stand in `refs/` after `init`, by `kind`."""


@dataclass(frozen=True)
class Split:
    """The unit of reading: a file, or the row groups `first..last` (inclusive) of a Parquet file."""

    source: str
    path: str
    etag: str
    size: int
    modified_ms: int
    row_groups: tuple[int, int] | None = None
    first_row: int = 0


@dataclass(frozen=True)
class Plan:
    """The immutable list of input of one batch, and its time. It fixes inputs and time, not code."""

    number: int
    kind: Kind
    plan_id: str
    branch: str
    batch_time_ms: int
    splits: tuple[Split, ...]
    block_rows: int
    created_ms: int
    outstanding_files: int = 0
    outstanding_bytes: int = 0
    oldest_waiting_ms: int | None = None
    format: int = FORMAT_VERSION


@dataclass(frozen=True)
class Segment:
    """A sorted run as an object. Visible are only its rows with a key hash in `lo..hi` (inclusive).

    `version` is the newest batch whose changes it holds; of two segments that show one hash, the higher
    version is the newer. `min_deadline_ms` is a lower bound over its rows, None if none has a deadline.
    """

    name: str
    checksum: str
    size: int
    rows: int
    lo: int
    hi: int
    version: int
    min_deadline_ms: int | None = None


@dataclass(frozen=True)
class OutputFile:
    """One file of a sink that a commit names. Order of `outputs(version)`: (pass_number, suffix, lo, part)."""

    name: str
    checksum: str
    size: int
    rows: int
    pass_number: int
    lo: int
    part: int
    suffix: str = ""
    extension: str = ".parquet"


@dataclass(frozen=True)
class QuarantineFile:
    """One file of rows that could not be read, or that were late where the pipeline says quarantine."""

    name: str
    checksum: str
    size: int
    rows: int


@dataclass(frozen=True)
class OperatorMetrics:
    """What one operator did in one task or batch. Rows and keys; times are milliseconds."""

    rows: int = 0
    rows_updated: int = 0
    rows_removed: int = 0
    rows_total: int = 0
    timed_out: int = 0
    late_rows: int = 0
    state_bytes: int = 0
    apply_ms: int = 0
    commit_ms: int = 0

    def plus(self, other: OperatorMetrics) -> OperatorMetrics:
        """The sum, field by field."""
        values = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in dataclasses.fields(self)}
        return OperatorMetrics(**values)


@dataclass(frozen=True)
class Receipt:
    """What an apply task returns for its range of one level: live segments, outputs, counts, next deadlines.

    `splits` maps the number of each split that reached the range to the rows the scatter read from it.
    """

    level: int
    lo: int
    hi: int
    splits: dict[str, int]
    state: dict[str, dict[str, list[Segment]]]
    outputs: dict[str, list[OutputFile]]
    quarantine: list[QuarantineFile]
    operators: dict[str, OperatorMetrics]
    watermarks: dict[str, int]
    next_deadline: dict[str, int]
    late_rows: int = 0
    quarantined_rows: int = 0
    changed: bool = False
    event_time: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Counts:
    """Rows of the input of one batch: `applied_rows + late_rows + quarantined_rows == input_rows`."""

    input_rows: int = 0
    applied_rows: int = 0
    late_rows: int = 0
    quarantined_rows: int = 0
    input_files: int = 0
    input_bytes: int = 0


@dataclass(frozen=True)
class Commit:
    """The record that makes a batch real. Lists all live segments, so a version needs no other commit to be read."""

    version: int
    kind: Kind
    attempt: str
    plan_id: str
    branch: str
    pipeline_uuid: str
    batch_time_ms: int
    watermarks: dict[str, int]
    """Event time of each watermark, ms: W(N). A missing name is 0, as in Spark."""
    event_time: dict[str, dict[str, int]]
    """Per watermark: `max`, `min` of this batch's event times and `watermark` = W(N−1), ms. For the progress record."""
    state: dict[str, dict[str, list[Segment]]]
    """Operator → map → live segments, sorted by (lo, version)."""
    ledger: list[Segment]
    outputs: dict[str, list[OutputFile]]
    quarantine: list[QuarantineFile]
    counts: Counts
    operators: dict[str, OperatorMetrics]
    schemas: dict[str, dict[str, Any]]
    """Operator → {"kind", "key", "maps": {map: {...}}, "output"}: names and types as DDL."""
    sinks: dict[str, dict[str, Any]]
    code: dict[str, Any]
    """Where the code that ran came from: pipeline reference, function names and digests, tidemill version."""
    next_deadline: dict[str, int]
    """Clock (`batch` or `event`) → earliest deadline in the state, ms."""
    published_through: int
    """Every version up to this one had been published when this commit was made; −1: none."""
    committed_ms: int
    durations_ms: dict[str, int] = field(default_factory=dict)
    outstanding_files: int = 0
    outstanding_bytes: int = 0
    oldest_waiting_ms: int | None = None
    airflow: dict[str, str] = field(default_factory=dict)
    engine: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT_VERSION


Record = TypeVar("Record", Init, Added, Plan, Receipt, Commit)

_HASHES = {"lo", "hi"}  # 64-bit unsigned: written as 16 hex digits, because JSON readers lose integers beyond 2^53
_WORDS = {int: "an integer", str: "a string", bool: "true or false", float: "a number"}
_HASH = re.compile(r"[0-9a-f]{16}")
_OBJECTS = (Segment, OutputFile, QuarantineFile)
_DESCRIBED = {"schemas": dict[str, DescribedOperator], "sinks": dict[str, DescribedSink]}
_SUFFIX = re.compile(rb',"checksum":"([0-9a-f]{32})"}')
_SUFFIX_BYTES = 47


def digest(data: bytes) -> str:
    """The checksum of records, and of every object that one names: BLAKE2b, 128 bits, hex."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def encode(record: Init | Added | Plan | Receipt | Commit) -> bytes:
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

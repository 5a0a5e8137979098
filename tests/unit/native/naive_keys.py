"""Canonical bytes and hashes of keys, written from docs/format.md alone."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, timedelta
from decimal import Context
from typing import Any

import pyarrow as pa
import xxhash


def cell(value: Any, kind: pa.DataType) -> bytes:
    """The canonical bytes of a cell that is not null."""
    if pa.types.is_boolean(kind):
        return bytes([value])
    if pa.types.is_integer(kind):
        return struct.pack("<q", value)
    if pa.types.is_floating(kind):
        return bytes.fromhex("000000000000f87f") if math.isnan(value) else struct.pack("<d", value + 0.0)
    if pa.types.is_date(kind):
        return struct.pack("<q", (value - date(1970, 1, 1)).days)
    if pa.types.is_timestamp(kind):
        epoch = datetime(1970, 1, 1, tzinfo=value.tzinfo)
        return struct.pack("<q", (value - epoch) // timedelta(microseconds=1))
    if pa.types.is_decimal(kind):
        return int(Context(prec=76).scaleb(value, kind.scale)).to_bytes(16, "little", signed=True)
    if pa.types.is_struct(kind):
        return b"".join(part(value[field.name], field.type) for field in kind)
    if pa.types.is_map(kind):
        pairs = sorted((part(key, kind.key_type), part(item, kind.item_type)) for key, item in value)
        return struct.pack("<I", len(pairs)) + b"".join(key + item for key, item in pairs)
    if pa.types.is_list(kind):
        return struct.pack("<I", len(value)) + b"".join(part(item, kind.value_type) for item in value)
    return value.encode() if isinstance(value, str) else bytes(value)


def part(value: Any, kind: pa.DataType) -> bytes:
    if value is None:
        return b"\0"
    spelled = cell(value, kind)
    length = struct.pack("<I", len(spelled)) if kind in (pa.string(), pa.binary()) else b""
    return b"\1" + length + spelled


def naive_hash(value: Any, kind: pa.DataType, seed: int = 0) -> int:
    return int(xxhash.xxh3_64_intdigest(b"\xff" if value is None else cell(value, kind), seed))

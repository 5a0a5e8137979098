"""Looks for keys in text: rows of quarantine, names of folders, messages.

Rows of quarantine that were read are JSON with the columns of the key, so they are compared exactly. Other text is
searched for the parts of a key. INVARIANT: that search is cautious, so it finds text of other keys rather than none.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[-+]\d\d:?\d\d)?")
_FIELD = re.compile(r"[,;|\t\r\n]")


def mentions(text: str | None, keys: Iterable[Sequence[Any]]) -> bool:
    """Whether a text contains all parts of one of the keys, however they are spelled. A null matches any text."""
    if not text:
        return False
    readable = f"{text}\n{_leaves(text)}"
    return any(_is_there(readable, [part for part in parts if part is not None]) for parts in keys)


def names_key(text: str, keys: Iterable[Sequence[Any]]) -> bool:
    """Whether a message has all parts of one of the keys as words."""
    return any(
        parts and all(re.search(rf"(?<!\w){re.escape(str(part))}(?!\w)", text) for part in parts)
        for parts in ([part for part in key if part is not None] for key in keys)
    )


def key_in_row(text: str | None, schema: pa.Schema) -> pa.RecordBatch | None:
    """Return the key of a row that is JSON with the columns of the key; None if it is not, or its types differ.

    Binary and nested columns have no exact form in JSON.
    """
    try:
        row = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(row, dict) or any(name not in row for name in schema.names):
        return None
    if any(pa.types.is_nested(field.type) or pa.types.is_binary(field.type) for field in schema):
        return None
    return _batch([row[name] for name in schema.names], schema)


def possible_keys(text: str | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield what may be keys of one column in a text: values of JSON, or the fields of a line."""
    if text and len(schema) == 1:
        fields = [*_FIELD.split(text), *_leaves(text).split("\n"), text]
        for field in dict.fromkeys(one.strip().strip("\"'") for one in fields):
            found = _batch([field], schema)
            if found is not None:
                yield found


def _batch(values: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch | None:
    try:
        columns = [pa.array([value]).cast(field.type) for value, field in zip(values, schema, strict=True)]
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return pa.record_batch(columns, schema=schema)


def _leaves(text: str) -> str:
    """Return the names and values within JSON, a line each; nothing if the text is not JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        return ""
    return "\n".join(map(str, _flat(value)))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _flat(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _is_there(text: str, parts: Sequence[Any]) -> bool:
    leaves = [leaf for part in parts for leaf in _flat(part) if leaf is not None]
    return bool(leaves) and all(_has(text, leaf) for leaf in leaves)


def _has(text: str, value: Any) -> bool:
    """Whether a text contains a value that is no container."""
    if isinstance(value, bool):
        return str(value).lower() in text.lower()
    if isinstance(value, (int, float, Decimal)):
        return str(value).lower() in text.lower() or any(_equal(one, value) for one in _NUMBER.findall(text))
    if isinstance(value, datetime):
        return str(value) in text or any(_is_time(one, value) for one in _TIME.findall(text))
    if isinstance(value, date):
        return value.isoformat() in text
    return any(one in text for one in _spellings(value))


def _spellings(value: Any) -> Iterator[str]:
    """Yield how text or bytes may be written in JSON and CSV."""
    if isinstance(value, bytes):
        yield from (str(value), base64.b64encode(value).decode(), value.hex())
        value = value.decode(errors="backslashreplace")
    plain = str(value)
    for ascii_only in (True, False):
        quoted = json.dumps(plain, ensure_ascii=ascii_only)[1:-1]
        yield from (quoted, quoted.replace("/", "\\/"))
    yield from (plain, plain.replace('"', '""'))


def _equal(text: str, value: float | Decimal) -> bool:
    with contextlib.suppress(InvalidOperation, OverflowError):
        if isinstance(value, float):
            return float(text) == value
        return Decimal(text) == value
    return False


def _is_time(text: str, value: datetime) -> bool:
    with contextlib.suppress(ValueError):
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=found.tzinfo or UTC) == value.replace(tzinfo=value.tzinfo or UTC)
    return False

"""Keys to forget: as Arrow columns, as 64-bit hashes, and as the salted hashes that a commit keeps of them.

INVARIANT: a commit holds no forgotten key, only salted hashes, so the commit itself gives no key away to a reader who
cannot guess it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from .. import _native
from ..protocol.records import Forgotten
from ..schema import one_batch
from ..values import dataclass
from .key_text import key_in_row, mentions


@dataclass(frozen=True)
class Keys:
    """Keys of one operator as columns, with their hashes."""

    columns: pa.RecordBatch

    @property
    def hashes(self) -> list[int]:
        """The 64-bit hash of each key."""
        found: list[int] = _native.key_hashes(self.columns).to_pylist()
        return found

    def distinct(self) -> Keys:
        """Return the keys, each once."""
        first = {key_hash: place for place, key_hash in reversed(list(enumerate(self.hashes)))}
        return Keys(self.columns.take(pa.array(sorted(first.values()), pa.int64())))

    def salted(self, salt: str) -> list[str]:
        """Return the salted hash of each key."""
        return [salted(salt, one) for one in self.hashes]

    def among(self, rows: pa.Table) -> pa.Array:
        """Return which of `rows`, a table of the key columns with these types, have one of the keys."""
        schema = _native.MapSchema("keys", self.columns.schema, pa.schema([]), pa.schema([]))
        known = _native.StateMap.open(schema, [], 0, 2**64 - 1)
        known.put_many(self.columns, self.columns.select([]), 0)
        return known.get_many(one_batch(rows, "keys"))[0]

    def which(self, rows: pa.Table) -> list[bool]:
        """Return the same as a list."""
        found: list[bool] = self.among(rows).to_pylist()
        return found

    @property
    def parts(self) -> list[list[Any]]:
        """The parts of each key as Python's values."""
        return [list(row.values()) for row in self.columns.to_pylist()]

    def is_in_row(self, text: str | None, is_unreadable: bool) -> bool:
        """Whether a quarantined row may be one of a key. Rows that were read are compared exactly, if they can be."""
        found = key_in_row(text, self.columns.schema)
        if found is not None and any(self.among(pa.Table.from_batches([found])).to_pylist()):
            return True
        return (is_unreadable or found is None) and mentions(text, self.parts)


def each_fitting(rows: pa.Table, schema: pa.Schema, among: Callable[[pa.Table], Sequence[bool]]) -> list[bool]:
    """Return what `among` says of each row as the columns of a key. False for a row whose values do not fit the types.

    INVARIANT: a row that does not fit leaves the other ones as they are.
    """
    renamed = rows.rename_columns(schema.names)
    try:
        return list(among(renamed.cast(schema)))
    except pa.ArrowException:
        half = rows.num_rows // 2
        if not half:
            return [False] * rows.num_rows
        parts = (renamed.slice(0, half), renamed.slice(half))
        return [one for part in parts for one in each_fitting(part, schema, among)]


def forgotten_rows(one: Forgotten, rows: pa.Table) -> list[bool]:
    """Return which rows, which have the key columns, have a forgotten key."""
    found: list[bool] = []
    for batch in rows.to_batches():
        held = held_hashes(one, batch)
        found += [key_hash in held for key_hash in _native.key_hashes(batch).to_pylist()]
    return found


def new_salt() -> str:
    """Return a random salt."""
    return secrets.token_hex(16)


def salted(salt: str, key_hash: int) -> str:
    """Return the salted hash of a key, given the key's 64-bit hash."""
    return hashlib.blake2b(bytes.fromhex(salt) + key_hash.to_bytes(8, "little"), digest_size=16).hexdigest()


def held_hashes(one: Forgotten, rows: pa.RecordBatch) -> set[int]:
    """Return the hashes of the forgotten keys among `rows`, which have the key columns."""
    known = set(one.hashes)
    return {key_hash for key_hash in set(_native.key_hashes(rows).to_pylist()) if salted(one.salt, key_hash) in known}

"""Keys to forget: as Arrow columns, as 64-bit hashes, and as the salted hashes that a commit keeps of them.

INVARIANT: a commit holds no forgotten key, only salted hashes, so the commit itself gives no key away to a reader who
cannot guess it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from .. import _native
from ..protocol.records import Forgotten
from ..schema import one_batch
from ..schema.kernels import pc
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


def new_salt() -> str:
    """Return a random salt."""
    return secrets.token_hex(16)


def salted(salt: str, key_hash: int) -> str:
    """Return the salted hash of a key, given the key's 64-bit hash."""
    return hashlib.blake2b(bytes.fromhex(salt) + key_hash.to_bytes(8, "little"), digest_size=16).hexdigest()


def holds(forgotten: Iterable[Forgotten], rows: pa.RecordBatch) -> int:
    """Return how many of `rows`, which have the key columns, have a forgotten key."""
    found = 0
    hashes = pc.unique(_native.key_hashes(rows)).to_pylist() if rows.num_rows else []
    for one in forgotten:
        known = set(one.hashes)
        found += sum(salted(one.salt, key_hash) in known for key_hash in hashes)
    return found

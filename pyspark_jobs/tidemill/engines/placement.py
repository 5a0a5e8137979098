"""Numbers that Spark's hash partitioning spreads over the partitions, one number each, so that every task has a range.

Only balance depends on this, no result. If Spark hashed differently, some partitions would hold several ranges.
"""

from __future__ import annotations

from functools import lru_cache

_SEED = 42
_MASK = 0xFFFFFFFF


@lru_cache(maxsize=64)
def places(partitions: int) -> tuple[int, ...]:
    """Return for each partition of `repartition(partitions, column)` the least int that goes to it."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(partition_of(number, partitions), number)
        number += 1
    return tuple(found[partition] for partition in range(partitions))


def partition_of(number: int, partitions: int) -> int:
    """Return the partition of a row by its int `number`: its Murmur3 hash (seed 42), signed, modulo `partitions`."""
    mixed = (number * 0xCC9E2D51) & _MASK
    mixed = (_rotated(mixed, 15) * 0x1B873593) & _MASK
    mixed = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    mixed ^= 4
    mixed = ((mixed ^ (mixed >> 16)) * 0x85EBCA6B) & _MASK
    mixed = ((mixed ^ (mixed >> 13)) * 0xC2B2AE35) & _MASK
    mixed ^= mixed >> 16
    return (mixed - (1 << 32) if mixed >> 31 else mixed) % partitions


def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _MASK

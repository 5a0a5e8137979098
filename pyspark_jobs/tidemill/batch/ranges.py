"""Cuts the hash space into key ranges. The state does not depend on the cut."""

from __future__ import annotations

from ..protocol.records import HASH_END


def cut(ranges: int) -> list[tuple[int, int]]:
    """Return `ranges` ranges (lo, hi), both ends inclusive, that tile the hash space.

    >>> [(hex(lo), hex(hi)) for lo, hi in cut(2)]
    [('0x0', '0x7fffffffffffffff'), ('0x8000000000000000', '0xffffffffffffffff')]
    """
    ends = [HASH_END if i == ranges - 1 else (HASH_END + 1) * (i + 1) // ranges - 1 for i in range(ranges)]
    return list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))


def range_of(key_hash: int, bounds: list[tuple[int, int]]) -> int:
    """Return the number of the range that contains a hash."""
    return next(number for number, (_, hi) in enumerate(bounds) if key_hash <= hi)

"""Cuts the hash space into key ranges. State and outputs do not depend on the cut.

INVARIANT: no range cuts a group of `sequence`.
"""

from __future__ import annotations

from ..errors import InvalidInput
from ..protocol.records import HASH_END
from .sequence import GROUP_BITS

_GROUPS = 1 << GROUP_BITS
_GROUP = (HASH_END + 1) // _GROUPS


def cut(ranges: int) -> list[tuple[int, int]]:
    """Return `ranges` ranges (lo, hi), both ends inclusive, that tile the hash space.

    >>> [(hex(lo), hex(hi)) for lo, hi in cut(2)]
    [('0x0', '0x7fffffffffffffff'), ('0x8000000000000000', '0xffffffffffffffff')]
    """
    if ranges > _GROUPS:
        raise InvalidInput(f"cut a batch into {ranges:,} tasks: expected at most {_GROUPS:,}")
    ends = [_GROUPS * (i + 1) // ranges * _GROUP - 1 for i in range(ranges)]
    return list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))


def range_of(key_hash: int, bounds: list[tuple[int, int]]) -> int:
    """Return the number of the range that contains a hash."""
    return next(number for number, (_, hi) in enumerate(bounds) if key_hash <= hi)

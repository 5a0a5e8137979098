"""`content_fingerprint`: tells whether a file whose modification time or ETag changed still has the same bytes.

INVARIANT: equal fingerprints mean equal bytes, but for accidents that a checksum does not catch. A file that would cost
too much to read has no fingerprint, and counts as changed.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import zlib

from .content import WHOLE_BYTES, Content

END_BYTES = 64 * 1024
"""How much of each end of a large Parquet file is compared. The footer is at its end and describes all other bytes."""
_ENDS = 4096
"""How much of each end is hashed in addition to the checksum of all bytes."""


def content_fingerprint(content: Content, format: str) -> str | None:
    """Return a text that depends on the bytes of a file, or None for a large file that is not Parquet.

    It covers all bytes of a file of at most `WHOLE_BYTES`, and both ends of a larger Parquet file.
    """
    if content.size == 0:
        return "empty"
    if content.data is not None and content.size <= WHOLE_BYTES:
        ends = _ends(io.BytesIO(content.data), content.size, _ENDS)
        return _whole(content.size, zlib.crc32(content.data), ends)
    with content.open() as file:
        if content.size <= WHOLE_BYTES:
            return _whole(content.size, _checksum(file), _ends(file, content.size, _ENDS))
        return f"ends-{content.size}-{_ends(file, content.size, END_BYTES)}" if format == "parquet" else None


def _whole(size: int, checksum: int, ends: str) -> str:
    return f"crc32-{size}-{checksum:08x}-{ends}"


def _checksum(file: object) -> int:
    try:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:  # type: ignore[attr-defined]
            return zlib.crc32(mapped)
    except OSError:  # not a file on a disk
        return zlib.crc32(file.read())  # type: ignore[attr-defined]


def _ends(file: object, size: int, length: int) -> str:
    found = hashlib.blake2b(digest_size=8)
    for start in (0, max(0, size - length)):
        file.seek(start)  # type: ignore[attr-defined]
        found.update(file.read(length))  # type: ignore[attr-defined]
    return found.hexdigest()

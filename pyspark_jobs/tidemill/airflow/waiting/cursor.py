"""`Cursor`: which waiting files a trigger has announced. Pure values; Airflow keeps them between two triggerers.

INVARIANT: while a file waits, it is announced once, by its name and ETag. A cursor is small, however many files wait:
beyond `MOST` files it has a time, up to which all count as announced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...values import dataclass

if TYPE_CHECKING:
    from ...sources.contract import SourceFile

MOST = 1_000
"""So many files, the newest ones, have a mark of their own."""
_BYTES = 8


@dataclass(frozen=True)
class Cursor:
    """The marks of announced files. Those that were modified up to `before_ms` count as announced, too."""

    before_ms: int = -1
    marks: frozenset[str] = frozenset()

    def has(self, file: SourceFile) -> bool:
        """Return whether a file was announced."""
        return file.modified_ms <= self.before_ms or _mark(file) in self.marks

    def as_json(self) -> dict[str, Any]:
        """Return the cursor as plain JSON."""
        return {"before_ms": self.before_ms, "marks": sorted(self.marks)}

    @staticmethod
    def of(value: Any) -> Cursor:
        """Return the cursor that `as_json` wrote. Anything else is a cursor that has announced nothing."""
        given = value if isinstance(value, dict) else {}
        before_ms, marks = given.get("before_ms"), given.get("marks")
        return Cursor(
            before_ms if isinstance(before_ms, int) else -1,
            frozenset(mark for mark in marks if isinstance(mark, str)) if isinstance(marks, list) else frozenset(),
        )


def announce_files(cursor: Cursor, waiting: Sequence[SourceFile]) -> tuple[Cursor, list[SourceFile]]:
    """Return the cursor that has announced all waiting files, and those that `cursor` had not.

    Files that no longer wait leave the cursor.
    """
    fresh = [file for file in waiting if not cursor.has(file)]
    newest = sorted(waiting, key=lambda file: file.modified_ms, reverse=True)
    before_ms = newest[MOST].modified_ms if len(newest) > MOST else -1
    return Cursor(before_ms, _marks(file for file in newest[:MOST] if file.modified_ms > before_ms)), fresh


def _marks(files: Iterable[SourceFile]) -> frozenset[str]:
    return frozenset(_mark(file) for file in files)


def _mark(file: SourceFile) -> str:
    text = "\0".join((file.source, file.path, file.etag))
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=_BYTES).hexdigest()

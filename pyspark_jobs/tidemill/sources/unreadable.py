"""`Unreadable`: a file that is not what its format says, or that is damaged.

INVARIANT: an error of the environment is never `Unreadable`. The batch fails, and the next run retries it.
"""

from __future__ import annotations


class Unreadable(Exception):
    """A file is invalid in its format, from `line` on if that is known. It becomes a reject or an error.

    `hint` replaces the general hint of the error.
    """

    def __init__(self, reason: str, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(reason, line)
        self.reason = reason
        self.line = line
        self.hint = hint

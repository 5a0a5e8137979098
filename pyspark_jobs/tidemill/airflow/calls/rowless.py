"""Takes rows and keys out of an error message, because Airflow shows, mails and stores the text of exceptions.

The task's log has the whole message. INVARIANT: the result has the first line, cut before the first value of a row or
key, and the hint; details such as tracebacks and lines of files are left out.
"""

from __future__ import annotations

import re

_CUTS = (
    re.compile(
        r"^(?P<kept>(?:\w+: )?read file `[^`]*` of source `[^`]*`(?:, line \d+)?(?:, column `[^`]*`)?): (?!the file )"
    ),
    re.compile(r"(?P<kept>\braised `?[A-Za-z_][\w.]*)"),
    re.compile(r"^(?P<kept>(?:\w+: )?unexpected `\w+`): "),
    re.compile(r"(?P<kept>\bthe key) "),
    re.compile(r"(?P<kept>\b(?:for|of)(?: a| the)? key)s? (?:among )?[`(]"),
    re.compile(r"(?P<kept>\brow) \("),
)
_REST = "the log of this task has the rest"


def without_rows(message: str) -> list[str]:
    """Return the first line of a message, cut before the first value that may come from a row, and the hint.

    >>> without_rows("function `f` raised `ValueError: Joe` for key `1`\\nTraceback …\\nhint: fix it")
    ['function `f` raised `ValueError`', 'the log of this task has the rest', 'hint: fix it']
    """
    first, *rest = message.split("\n")
    ends = [found.end("kept") for cut in _CUTS if (found := cut.search(first)) is not None]
    kept = first[: min(ends, default=len(first))]
    hints = [line for line in rest[-1:] if line.startswith("hint: ")]
    is_cut = len(kept) < len(first) or len(rest) > len(hints)
    return [kept + "`" * (kept.count("`") % 2), *([_REST] if is_cut else []), *hints]

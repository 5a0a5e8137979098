"""What the first line of a CSV file says of its options: another separator, or a header that was not declared."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ..sources.text_format import Formats
from ..visible import visible
from .types import NUMBERS, TIMES, Texts, text_type

CSV_TYPES = ("boolean", *NUMBERS, *TIMES)
"""The types that texts of CSV files are tried with."""
_SEPARATORS = {",": "','", ";": "';'", "\t": r"'\t'", "|": "'|'"}


def other_separator(file: str, first: Sequence[str], separator: str) -> str | None:
    """Return a note if the first line, `first`, is one field with a usual separator in it, but not the declared one."""
    if len(first) != 1:
        return None
    likely = max(_SEPARATORS.keys() - {separator}, key=lambda one: (first[0].count(one), one))
    if likely not in first[0] or separator in first[0]:
        return None
    shown = _SEPARATORS[likely]
    return f"`{visible(file)}` has one column, and its first line has {shown}: is it the separator, sep={shown}?"


class FirstLine:
    """The first line of a file without a declared header, beside the lines after it."""

    def __init__(self, first: Sequence[str | None], formats: Formats) -> None:
        self._first = first
        self._rest = [Texts(formats, CSV_TYPES) for _ in first]

    @property
    def texts(self) -> list[str]:
        """The texts of the line."""
        return [text for text in self._first if text is not None]

    def add(self, columns: Sequence[Sequence[str]]) -> None:
        """Look at further lines, column by column."""
        for seen, texts in zip(self._rest, columns, strict=True):
            seen.add(texts)

    def is_header(self, formats: Formats) -> bool:
        """Whether some column has one type but for this line, and no column has a number or a time in this line."""
        odd = False
        for text, rest in zip(self._first, self._rest, strict=True):
            if text is None or _is_typed(_of([text], formats)):
                return False
            odd |= _is_typed(rest)
        return odd


def _of(texts: Sequence[str], formats: Formats) -> Texts:
    made = Texts(formats, CSV_TYPES)
    made.add(texts)
    return made


def _is_typed(texts: Texts) -> bool:
    return texts.count > 0 and text_type(texts, "", []) != pa.string()

"""The error for rows of quarantine that cannot come back."""

from __future__ import annotations

from collections.abc import Sequence

from ..counts import count_of
from ..errors import InvalidInput
from ..values import dataclass
from .export import ROW_ID
from .requeued_before import RejectRow

_SHOWN = 3
"""How many rows an error names."""
_HINT = (
    "export the rows with `tidemill quarantine --export FILE --version V`, correct them or leave out those that cannot "
    "come back, and give the file with --rows"
)
FILE_HINT = (
    "a file comes back if it is in its source, can be read now, and no version has read it since; to give back the "
    "other rows, export them with `tidemill quarantine --export FILE --version V`, leave this one out, and give the "
    "file with --rows"
)


@dataclass(frozen=True)
class Refuse:
    """Makes the error for rows that cannot come back, out of all `rows` that were asked for. None of them does then."""

    version: int
    rows: int

    def __call__(self, refused: Sequence[tuple[RejectRow, str]], hint: str = _HINT) -> InvalidInput:
        """Return the error."""
        lines = [f"{row_in_words(row)}: {why}" for row, why in refused[:_SHOWN]]
        lines += [f"and {count_of(len(refused) - _SHOWN, 'more row')}"] if len(refused) > _SHOWN else []
        return InvalidInput(
            f"requeue version {self.version}: {len(refused)} of {count_of(self.rows, 'row')} cannot come back: "
            + "\n".join(lines),
            hint=hint,
        )


def row_in_words(row: RejectRow) -> str:
    """Return a row in words: its id and its place."""
    place = "" if row["file"] is None else f" (file `{row['file']}`"
    place += "" if row["line"] is None or not place else f", line {row['line']}"
    place += "" if row["row"] is None or not place else f", row {row['row']}"
    return f"row {row[ROW_ID]}" + (f"{place})" if place else "")

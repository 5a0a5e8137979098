"""How text files are written: the formats of CSV and JSON, as values that the reader in Rust takes.

INVARIANT: a format says everything that decides which rows a file has; the reader knows no other default.
"""

from __future__ import annotations

from dataclasses import field, replace

from ..values import dataclass
from .columns_by_name import ColumnsByName

RECORD_BYTES = 64 * 1024**2
"""A longer record is an error, unless `maxRecordBytes` says otherwise."""
BUFFER_BYTES = 512 * 1024
"""How much of a text file is read at once. A longer record makes the buffer grow."""


@dataclass(frozen=True)
class Formats:
    """The formats of dates and times, in Spark's letters. None means ISO."""

    date: str | None = None
    timestamp: str | None = None
    timestamp_ntz: str | None = None


@dataclass(frozen=True)
class TextLimits:
    """When a block is complete, how long a record may be, and how much is read at once."""

    block_rows: int
    block_bytes: int
    record_bytes: int = RECORD_BYTES
    buffer_bytes: int = BUFFER_BYTES


@dataclass(frozen=True)
class CsvFormat:
    """The format of CSV, by default Spark's. An empty `quote`, `escape` or `comment` means that there is none.

    `matching` says how columns are found: by "name", by "position" with a header that is skipped, or, with "none",
    by position without a header. With `is_text` the input is known to be text in UTF-8, as that of rejects is, so that
    its first bytes say nothing about it.
    """

    separator: str = ","
    quote: str = '"'
    escape: str = "\\"
    escape_escape: str = "\\"
    comment: str = ""
    null_value: str = ""
    empty_value: str = ""
    trim_leading: bool = False
    trim_trailing: bool = False
    line_end: str | None = None
    encoding: str = "UTF-8"
    is_text: bool = False
    matching: str = "none"
    columns: ColumnsByName = field(default_factory=ColumnsByName)
    formats: Formats = field(default_factory=Formats)

    def for_texts(self, header: str | None) -> CsvFormat:
        """Return the format of single records, after the header of their file if it must be known."""
        return replace(self, encoding="UTF-8", is_text=True, matching="none" if header is None else "name")

    def for_counting(self) -> CsvFormat:
        """Return the format in which a file of any columns has as many records."""
        return replace(self, matching="none" if self.matching == "none" else "position")

    def beside(self, elsewhere: tuple[str, ...]) -> CsvFormat:
        """Return the format of a file besides which some columns have their values elsewhere."""
        return replace(self, columns=replace(self.columns, elsewhere=elsewhere)) if elsewhere else self


@dataclass(frozen=True)
class JsonFormat:
    """The format of JSON, by default Spark's: one object a line, single quotes and NaN allowed."""

    multi_line: bool = False
    comments: bool = False
    unquoted_names: bool = False
    single_quotes: bool = True
    leading_zeros: bool = False
    any_backslash: bool = False
    unquoted_control: bool = False
    non_numeric: bool = True
    line_end: str | None = None
    encoding: str = "UTF-8"
    is_text: bool = False
    formats: Formats = field(default_factory=Formats)

    def for_texts(self) -> JsonFormat:
        """Return the format of single records. Those of a file with `multi_line` may have several lines."""
        return replace(self, encoding="UTF-8", is_text=True)

    def for_counting(self) -> JsonFormat:
        """Return the format in which a file of any fields has as many records."""
        return self


TextFormat = CsvFormat | JsonFormat

"""The columns of rows in quarantine, and why a row is there."""

from __future__ import annotations

import pyarrow as pa

ABANDON_PLAN = 'abandon the plan: r.replan("…"), or `tidemill replan PIPELINE --root ROOT --reason "…"`'
"""The advice for a plan whose file has changed or is missing."""
REJECT_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("file", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("row", pa.int64()),
        pa.field("column", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("text", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("operator", pa.string()),
        pa.field("watermark", pa.string()),
    ]
)
"""Rows in quarantine. `line` is the line of an unreadable record in its file, from 1 on; null for a whole file. `row`
is the number of a row that was read, from 1 on, not counting a header. `kind` is one of the constants below. `operator`
names the operators that did not take the row, separated by commas; null for an unreadable row, which no operator took.
Of an operator with several inputs it names the input: `pairs.right`.
`watermark` is the one that a row ahead would have moved too far."""
UNREADABLE, FAILED, LATE, AHEAD, FILE = "unreadable", "failed", "late", "ahead", "file"
"""Why a row is in quarantine: it could not be read, a user's function failed for its key, it was late, or its event
time was too far ahead of the batch time. `FILE` stands for all rows of a file that could not be read as a whole."""
FORGOTTEN = "forgotten"
"""The kind of a row of which a `forget` has left only the place, so that the other rows keep their numbers."""
CONTENT = "content."
"""What the column of a quarantine file begins with that has the whole row, as it was read from a source."""
AS_GIVEN = "content.operator:"
"""What the column of a quarantine file begins with that has the row as an input of an operator was given it by another
one. The label of the input follows."""
HEADER = "header"
"""Column of a quarantine file with the header of a CSV file, if a record cannot be read again without it."""

"""`.dropDuplicates()` and `.dropDuplicatesWithinWatermark()`: pass the first row of each key, drop later rows.

This module has the declaration and its checks. The Rust engine decides which rows are late or first, and which keys are
forgotten. Spark: `Dataset.dropDuplicates`, `dropDuplicatesWithinWatermark` (`StreamingDeduplicateExec`,
`StreamingDeduplicateWithinWatermarkExec`).
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import pyarrow.types as pt

from .. import _native
from ..errors import InvalidInput
from ..schema import has_within, type_ddl
from ..state.columns import MapColumns
from ..values import dataclass
from .contract import Clock, Declared, Defaults, Handle, Input, key_schema

SEEN = "seen"
Forgets = Literal["never", "at_event_time", "after"]


@dataclass(frozen=True)
class DeduplicateOperator(Declared):
    """Deduplication as declared. With `within_watermark` a key is forgotten the delay after its first row."""

    name: str
    within_watermark: bool = False

    def bind(self, given: Input) -> BoundDeduplicate:
        """Check key and watermark. `InvalidInput` for maps in the key, a missing watermark, or late="keep"."""
        method = "dropDuplicatesWithinWatermark" if self.within_watermark else "dropDuplicates"
        for field in key_schema(given):
            if has_within(field.type, pt.is_map):
                raise InvalidInput(
                    f"operator `{self.name}`: {method} cannot compare the column `{field.name}` of type "
                    f"{type_ddl(field.type)}, because Spark does not drop duplicates by maps",
                    hint="name other columns, or use groupBy, which accepts maps",
                )
        if self.within_watermark and given.event_time is None:
            raise InvalidInput(
                f"operator `{self.name}`: {method} needs a watermark on the stream, found none",
                hint='call .withWatermark("column", "delay") first, and keep that column',
            )
        if given.event_time is not None and given.late == "keep":
            raise InvalidInput(
                f"operator `{self.name}`: {method} cannot keep late rows, because the keys of late rows may already be "
                'forgotten; found withWatermark(…, late="keep"), expected "drop" or "quarantine"'
            )
        return BoundDeduplicate(self.name, given, self._forgets(given))

    def _forgets(self, given: Input) -> Forgets:
        if self.within_watermark:
            return "after"
        return "at_event_time" if given.event_time in given.key else "never"


@dataclass(frozen=True)
class BoundDeduplicate(Defaults):
    """Deduplication over a known input. Its output has the columns and the event time of its input."""

    name: str
    input: Input
    forgets: Forgets
    kind: str = "deduplicate"

    @property
    def output_schema(self) -> pa.Schema:
        """The columns of the input."""
        return pa.schema([field.with_nullable(True) for field in self.input.schema])

    @property
    def event_time(self) -> str | None:
        """The event time column of the input."""
        return self.input.event_time

    @property
    def windows(self) -> frozenset[str]:
        """The columns of the input that hold windows."""
        return self.input.windows

    @property
    def passes_time(self) -> frozenset[str]:
        """All columns, because the output has rows of the input."""
        return frozenset(self.input.schema.names)

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        """One map: key → nothing. The deadline is the time at which the key is forgotten."""
        return (MapColumns.apart(SEEN, key_schema(self.input)),)

    @property
    def clock(self) -> Clock | None:
        """Event time, unless keys are never forgotten."""
        return None if self.forgets == "never" else "event"

    @property
    def rules(self) -> dict[str, str]:
        """When keys are forgotten, because deadlines of one rule are meaningless to another. The delay may change."""
        return {"forgets": self.forgets}

    def open(self) -> Handle:
        """Make the Rust operator."""
        return _native.deduplicate(
            name=self.name,
            key=list(self.input.key),
            input_schema=self.input.schema,
            event_time=self.input.event_time,
            forget=self.forgets,
            delay_ms=self.input.delay_ms if self.forgets == "after" else None,
        )

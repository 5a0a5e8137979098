"""The whole rows that come back from quarantine, in the columns of their source or of the operator that takes them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ..errors import InvalidInput
from ..quarantine.rejects import is_not_text
from ..quarantine.rows import AS_GIVEN, CONTENT, FAILED, HEADER, UNREADABLE
from ..repo.opened import Opened
from ..schema import conform, int64_array
from ..sources.asked import parse_records
from ..sources.requeued import rows_as
from .export import FIXED, ROW_ID, TEXT, exported_name
from .refuse import Refuse, row_in_words
from .requeued_before import RejectRow


class Contents:
    """The whole rows that come back: as corrected by hand, as they were read, or parsed from their text."""

    def __init__(self, repo: Opened, table: pa.Table, refuse: Refuse, by_hand: pa.Table | None) -> None:
        self.repo, self.table, self.refuse, self.by_hand = repo, table, refuse, by_hand
        self.version = refuse.version
        self._at = {} if by_hand is None else {one: at for at, one in enumerate(by_hand.column(ROW_ID).to_pylist())}

    def of(self, source: str, rows: Sequence[RejectRow]) -> pa.Table:
        """Return the whole rows of a source, in their order."""
        if self.by_hand is not None:
            return self._given(source, rows)
        unread = [row for row in rows if row["kind"] == UNREADABLE]
        return self._parsed(source, rows) if unread else self._as_read(source, rows)

    def of_input(self, label: str, now: str, rows: Sequence[RejectRow]) -> pa.Table:
        """Return rows as an input of an operator was given them by another one. `now` is its name in this code."""
        if self.by_hand is not None:
            of_hand = filled(self.by_hand)
            changed = [row for row in rows if row[ROW_ID] in of_hand or self._has_other_text(row)]
            if changed:
                why = "an operator emitted it, so it comes back as it was, and cannot be corrected"
                hint = "leave `_text` as it is and the columns of its source empty, or correct what the operator emits"
                raise self.refuse([(row, why) for row in changed], hint)
        port = self.repo.job.port(now)
        assert port is not None
        there = self.table.column(AS_GIVEN + label).combine_chunks()
        content = there.take(int64_array([row[ROW_ID] for row in rows]))
        known = [content.type.field(place).name for place in range(content.type.num_fields)]
        gone = [name for name in known if name not in port.input.schema.names]
        if gone:
            why = f"operator `{now}` was given the column `{gone[0]}`, which its input does not have now"
            raise self.refuse([(row, why) for row in rows], "run the code that has the column, or leave these rows out")
        fields = [field.with_nullable(True) for field in port.input.schema if field.name in known]
        return rows_as(content, pa.schema(fields), f"requeue version {self.version}: rows for operator `{now}`")

    def new_columns(self, source: str, label: str, now: str, rows: Sequence[RejectRow]) -> tuple[str, ...]:
        """Return the columns that the source, or the input `now`, has since the rows were quarantined: null in them."""
        if not label and (self.by_hand is not None or any(row["kind"] == UNREADABLE for row in rows)):
            return ()
        column = AS_GIVEN + label if label else CONTENT + source
        port = self.repo.job.port(now) if label else None
        wanted = self.repo.job.sources[source].schema if port is None else port.input.schema
        kind = self.table.schema.field(column).type
        known = {kind.field(place).name for place in range(kind.num_fields)}
        return tuple(name for name in wanted.names if name not in known)

    def _has_other_text(self, row: RejectRow) -> bool:
        assert self.by_hand is not None
        if TEXT not in self.by_hand.column_names:
            return False
        text = self.by_hand.column(TEXT)[self._at[row[ROW_ID]]].as_py()
        return text is not None and text != row["text"]

    def _given(self, source: str, rows: Sequence[RejectRow]) -> pa.Table:
        assert self.by_hand is not None
        schema = self.repo.job.sources[source].schema
        found = self.by_hand.take(int64_array([self._at[row[ROW_ID]] for row in rows]))
        renamed = {exported_name(name): name for name in schema.names}
        there = [name for name in found.column_names if name in renamed]
        table = found.select(there).rename_columns([renamed[name] for name in there])
        table = conform(table, schema, f"requeue version {self.version}: corrected rows of source `{source}`")
        for at, row in enumerate(rows):
            if row["kind"] == UNREADABLE and not any(column[at].is_valid for column in table.columns):
                why = "all its columns are still empty"
                raise InvalidInput(
                    f"requeue version {self.version}: corrected {row_in_words(row)}: {why}",
                    hint="correct the row, or delete it from the file",
                )
        return table

    def _as_read(self, source: str, rows: Sequence[RejectRow]) -> pa.Table:
        schema = self.repo.job.sources[source].schema
        what = f"requeue version {self.version}: rows of source `{source}`"
        column = CONTENT + source
        content = self.table.column(column).combine_chunks() if column in self.table.column_names else None
        lost = [row for row in rows if content is None or not content[row[ROW_ID]].is_valid]
        if lost:
            why = "the whole row is not known, because a step before the operator lost its number"
            raise self.refuse([(row, why) for row in lost])
        assert content is not None
        return rows_as(content.take(int64_array([row[ROW_ID] for row in rows])), schema, what)

    def _header(self, row: RejectRow) -> str | None:
        """Return the header of a row's file, which all its rows have, if it must be known."""
        if HEADER not in self.table.column_names:
            return None
        found: str | None = self.table.column(HEADER)[row[ROW_ID]].as_py()
        return found

    def _parsed(self, source: str, rows: Sequence[RejectRow]) -> pa.Table:
        """Return unreadable rows, parsed again by the schema and the options that the source has now."""
        of, zone = self.repo.job.sources[source], self.repo.job.time_zone
        parts: list[pa.Table] = []
        refused: list[tuple[RejectRow, str]] = []
        for file in dict.fromkeys(row["file"] for row in rows):
            of_file = [row for row in rows if row["file"] == file]
            lost = [row for row in of_file if row["text"] is None or is_not_text(row["reason"])]
            refused += [(row, f"its text is not known: {row['reason']}") for row in lost]
            if not lost:
                made = parse_records(of, file, [row["text"] for row in of_file], zone, self._header(of_file[0]))
                if isinstance(made, list):
                    refused += [(of_file[one.place], f"it is still unreadable: {one.reason}") for one in made]
                else:
                    parts.append(made)
        if refused:
            raise self.refuse(refused)
        what = f"requeue version {self.version}: rows of source `{source}`"
        return conform(pa.concat_tables(parts), of.schema, what)


def given_back(table: pa.Table, rows: Sequence[RejectRow]) -> dict[int, str]:
    """Return the rows that operators had emitted and that can be given back: by id, the input that they are for."""
    found = {}
    for row in rows:
        column = f"{AS_GIVEN}{row['operator']}"
        if row["kind"] == FAILED and column in table.column_names and table.column(column)[row[ROW_ID]].is_valid:
            found[row[ROW_ID]] = str(row["operator"])
    return found


def filled(by_hand: pa.Table) -> set[int]:
    """Return the ids of the corrected rows that have a value of their source."""
    columns = [by_hand.column(name) for name in by_hand.column_names if name not in FIXED.names]
    ids = by_hand.column(ROW_ID).to_pylist()
    return {one for at, one in enumerate(ids) if any(column[at].is_valid for column in columns)}

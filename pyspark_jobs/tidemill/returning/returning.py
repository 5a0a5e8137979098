"""Which quarantined rows of a version can come back, with what content, and to which operators.

Reads only. INVARIANT: a row comes back to those that have not taken it, and once; otherwise the whole call is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..counts import count_of
from ..errors import InvalidInput
from ..names import is_requeued
from ..pipeline.job import Job
from ..protocol.compatible import present_name
from ..protocol.history import is_effective
from ..protocol.records import Commit
from ..quarantine.rejects import is_not_text
from ..quarantine.rows import AHEAD, CONTENT, FAILED, FILE, HEADER, LATE, UNREADABLE
from ..repo.opened import Opened
from ..schema import conform, int64_array
from ..sources.asked import is_positioned, parse_records
from ..sources.contract import SourceFile
from ..sources.ledger import READ, Known, look_up_files
from ..sources.requeued import rows_as
from ..values import dataclass
from .corrected import corrected
from .export import FIXED, ROW_ID, check_source, exported_name, quarantined_rows, sources_of
from .released import NotReleased, Released, released
from .requeued_before import RejectRow, RowOf, came_back, quarantined_by, requeued_rows

_SHOWN = 3
"""How many rows an error names."""
_HINT = (
    "export the rows with `tidemill quarantine --export FILE --version V`, correct them or leave out those that cannot "
    "come back, and give the file with --rows"
)
_FILE_HINT = (
    "a file comes back if it is in its source, can be read now, and no version has read it since; to give back the "
    "other rows, export them with `tidemill quarantine --export FILE --version V`, leave this one out, and give the "
    "file with --rows"
)


@dataclass(frozen=True)
class RowGroup:
    """Rows of one source that go to the same operators, in the order of their files."""

    source: str
    operators: tuple[str, ...]
    watermark: str
    kinds: tuple[str, ...]
    ids: list[int]
    files: list[str | None]
    """The files that the rows were first read from."""
    rows: pa.Table

    @property
    def destination(self) -> str:
        """Where the rows go, in words."""
        if self.watermark:
            return f"what is below the watermark `{self.watermark}`"
        if not self.operators:
            return "the whole pipeline"
        return " and ".join(f"operator `{name}`" for name in self.operators)


@dataclass(frozen=True)
class Returning:
    """The rows that come back, and the files that are read again as a whole."""

    groups: list[RowGroup]
    files: list[Released]


@dataclass(frozen=True)
class Refuse:
    """Makes the error for rows that cannot come back, out of all `rows` that were asked for. None of them does then."""

    version: int
    rows: int

    def __call__(self, refused: Sequence[tuple[RejectRow, str]], hint: str = _HINT) -> InvalidInput:
        """Return the error."""
        lines = [f"{_shown(row)}: {why}" for row, why in refused[:_SHOWN]]
        lines += [f"and {count_of(len(refused) - _SHOWN, 'more row')}"] if len(refused) > _SHOWN else []
        return InvalidInput(
            f"requeue version {self.version}: {len(refused)} of {count_of(self.rows, 'row')} cannot come back: "
            + "\n".join(lines),
            hint=hint,
        )


class Refusal(Exception):
    """Why a row cannot come back."""


def returning(repo: Opened, head: Commit | None, commit: Commit, source: str | None, given: Any) -> Returning:
    """Return what comes back, or raise one `InvalidInput` for all rows that cannot."""
    check_source(repo, source)
    table = quarantined_rows(repo, commit)
    chosen: list[RejectRow] = [row for row in _rows(table) if source is None or row["source"] == source]
    if not chosen:
        of = "" if source is None else f" of source `{source}`"
        raise InvalidInput(f"requeue version {commit.version}: it quarantined no rows{of}")
    sources = sources_of(repo.job, table) if source is None else [source]
    by_hand = None if given is None else corrected(repo, given, commit.version, sources)
    if by_hand is not None:
        chosen = _named(chosen, by_hand.column(ROW_ID).to_pylist(), commit.version)
    by, refuse = quarantined_by(repo, commit), Refuse(commit.version, len(chosen))
    files = _files(repo, head, [row for row in chosen if row["kind"] == FILE], refuse, by, by_hand)
    chosen = [row for row in chosen if row["kind"] != FILE]
    _refuse_twice(repo, head, chosen, commit, by)
    destinations = _destinations(repo, head, chosen, refuse, by)
    grouped: dict[tuple[str, tuple[str, ...], str], list[RejectRow]] = {}
    for row in chosen:
        grouped.setdefault((row["source"], *destinations[row[ROW_ID]]), []).append(row)
    contents = _Contents(repo, table, refuse, by_hand)
    first = _FirstFiles(repo, head)
    groups = []
    for (of_source, operators, watermark), rows in sorted(grouped.items(), key=lambda one: one[0]):
        ordered = sorted(rows, key=_place)
        kinds = tuple(sorted({row["kind"] for row in ordered}))
        ids = [row[ROW_ID] for row in ordered]
        first_read = [first.of(row) for row in ordered]
        groups.append(
            RowGroup(of_source, operators, watermark, kinds, ids, first_read, contents.of(of_source, ordered))
        )
    return Returning(groups, files)


def _files(
    repo: Opened,
    head: Commit | None,
    rows: Sequence[RejectRow],
    refuse: Refuse,
    by: Sequence[RowOf],
    by_hand: pa.Table | None,
) -> list[Released]:
    """Return the files that rows of quarantine stand for, or raise one `InvalidInput` for all that cannot come back."""
    found, refused = [], []
    filled = set() if by_hand is None else _filled(by_hand)
    for row in rows:
        try:
            if row[ROW_ID] in filled:
                raise NotReleased(
                    "it stands for a whole file, so correct the file, and leave the columns of the row empty"
                )
            found.append(released(repo, head, row, by))
        except NotReleased as why:
            refused.append((row, str(why)))
    if refused:
        raise refuse(refused, _FILE_HINT)
    return found


def _filled(by_hand: pa.Table) -> set[int]:
    """Return the ids of the corrected rows that have a value of their source."""
    columns = [by_hand.column(name) for name in by_hand.column_names if name not in FIXED.names]
    ids = by_hand.column(ROW_ID).to_pylist()
    return {one for at, one in enumerate(ids) if any(column[at].is_valid for column in columns)}


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    plain = table.select([name for name in table.column_names if not name.startswith(CONTENT)])
    found: list[dict[str, Any]] = plain.to_pylist()
    return found


def _place(row: RejectRow) -> tuple[Any, ...]:
    return (row["file"] or "", row["line"] or 0, row["row"] or 0, row[ROW_ID])


def _named(rows: Sequence[RejectRow], ids: Sequence[int], version: int) -> list[RejectRow]:
    """Return the rows with these ids."""
    known = {row[ROW_ID]: row for row in rows}
    for one in ids:
        if one not in known:
            raise InvalidInput(
                f"requeue version {version}: there is no row {one} among the {count_of(len(rows), 'row')} that it "
                "quarantined",
                hint="keep `_version` and `_row_id` as the export has them",
            )
    if not ids:
        raise InvalidInput(f"requeue version {version}: found no corrected rows, expected at least one")
    return [known[one] for one in ids]


def _refuse_twice(
    repo: Opened, head: Commit | None, rows: Sequence[RejectRow], commit: Commit, by: Sequence[RowOf]
) -> None:
    """Raise `InvalidInput` for a row that was requeued already, and not rewound since."""
    before = came_back(repo, head, commit, by, rows)
    twice = [row for row in rows if row[ROW_ID] in before]
    if twice:
        first = twice[0]
        more = f" (and {count_of(len(twice) - 1, 'more row')})" if len(twice) > 1 else ""
        raise InvalidInput(
            f"requeue version {commit.version}: {_shown(first)} was requeued already by version "
            f"{before[first[ROW_ID]]}{more}",
            hint="give only other rows, with --rows",
        )


def _destinations(
    repo: Opened, head: Commit | None, rows: Sequence[RejectRow], refuse: Refuse, by: Sequence[RowOf]
) -> dict[int, tuple[tuple[str, ...], str]]:
    files = [SourceFile(row["source"] or "", row["file"] or "", "", 0, 0) for row in rows]
    found, refused = {}, []
    for row, known in zip(rows, look_up_files(repo.ledger(head).map, files), strict=True):
        try:
            made = by[row[ROW_ID]].commit
            found[row[ROW_ID]] = destination(repo.job, _with_present_names(head, row, made))
            source = repo.job.sources.get(row["source"])
            if source is None or not is_positioned(source):
                _check_read(known, made.version)
            elif head is None or not is_effective(head, refuse.version):
                raise Refusal("it waits again, because the version was rewound")
        except Refusal as why:
            refused.append((row, str(why)))
    if refused:
        raise refuse(refused)
    return found


def _shown(row: RejectRow) -> str:
    place = "" if row["file"] is None else f" (file `{row['file']}`"
    place += "" if row["line"] is None or not place else f", line {row['line']}"
    place += "" if row["row"] is None or not place else f", row {row['row']}"
    return f"row {row[ROW_ID]}" + (f"{place})" if place else "")


def _with_present_names(head: Commit | None, row: RejectRow, made: Commit) -> RejectRow:
    """Return a row with the names that its operators have now. Migrations may have renamed them."""
    if head is None or not row["operator"]:
        return row
    found = []
    for label in row["operator"].split(","):
        name, dot, port = label.partition(".")
        found.append(present_name(name, made.renamed, head.renamed) + dot + port)
    return {**row, "operator": ",".join(found)}


def destination(job: Job, row: RejectRow) -> tuple[tuple[str, ...], str]:
    """Return the operators and the watermark that a row goes to; none of both means the whole pipeline.

    Raises `Refusal` if the row cannot go there.
    """
    operators = tuple((row["operator"] or "").split(",")) if row["operator"] else ()
    if row["kind"] is None:
        raise Refusal("an earlier version of Tidemill quarantined it, which did not record what the row is")
    if row["source"] is None:
        raise Refusal(f"operator {_listed(operators)} got it from another operator, not from a source")
    if row["source"] not in job.sources:
        raise Refusal(f"this code has no source `{row['source']}`")
    if row["kind"] == UNREADABLE:
        return (), ""
    for label in operators:
        if job.port(label) is None:
            raise Refusal(f"this code has no operator `{label}`")
    if row["kind"] == AHEAD:
        if row["watermark"] not in job.watermarks:
            raise Refusal(f"this code has no watermark `{row['watermark']}`")
        return operators, row["watermark"]
    if row["kind"] == LATE:
        late_of = {label: port.input.late for label in operators if (port := job.port(label)) is not None}
        strict = [label for label, late in late_of.items() if late != "keep"]
        if strict:
            late = late_of[strict[0]]
            raise Refusal(
                f"it is late for operator {_listed(strict)}, which would find it late again: its watermark is declared "
                f'late="{late}", expected late="keep"'
            )
    elif row["kind"] != FAILED:
        raise Refusal(f"it is of the unknown kind `{row['kind']}`")
    return operators, ""


def _listed(operators: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in operators)


def _check_read(known: Known | None, version: int) -> None:
    """Raise `Refusal` if the file of a row does not count as read by this version any more."""
    if known is None:
        raise Refusal("its file waits again, because the version was rewound")
    if (known.version, known.how) != (version, READ):
        raise Refusal(f"version {known.version} {'read' if known.how == READ else known.how} its file since")


class _Contents:
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
                    f"requeue version {self.version}: corrected {_shown(row)}: {why}",
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


class _FirstFiles:
    """The files that rows were first read from. A row that was requeued before names the requeued rows as its file."""

    def __init__(self, repo: Opened, head: Commit | None) -> None:
        self.repo, self.head = repo, head
        self._known: dict[str, list[str | None] | None] = {}

    def of(self, row: RejectRow) -> str | None:
        """Return the file that a row was first read from, or None if that is not known."""
        path: str | None = row["file"]
        if path is None or not is_requeued(path):
            return path
        if row["row"] is None:
            return None
        if path not in self._known:
            ledger = self.repo.ledger(self.head).map
            (known,) = look_up_files(ledger, [SourceFile(row["source"], path, "", 0, 0)])
            table = requeued_rows(self.repo, path, "" if known is None else known.etag)
            self._known[path] = None if table is None else table.column("file").to_pylist()
        files = self._known[path]
        return None if files is None else files[row["row"] - 1]

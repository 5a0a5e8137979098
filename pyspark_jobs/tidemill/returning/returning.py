"""Which quarantined rows of a version can come back, with what content, and to which operators.

Reads only. INVARIANT: a row comes back to those that have not taken it, and once; otherwise the whole call is refused.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import pyarrow as pa

from .. import names
from ..counts import count_of
from ..errors import InvalidInput
from ..pipeline.job import Job
from ..protocol.compatible import present_name
from ..protocol.history import is_effective
from ..protocol.records import Commit
from ..quarantine.rows import AHEAD, CONTENT, FAILED, FILE, FORGOTTEN, LATE, UNREADABLE
from ..reading.first_read import FirstRead
from ..repo.opened import Opened
from ..sources.asked import is_positioned
from ..sources.contract import SourceFile
from ..sources.ledger import READ, Known, look_up_files
from ..values import dataclass
from .contents import Contents, filled, given_back
from .corrected import corrected
from .export import ROW_ID, check_source, quarantined_rows, sources_of
from .refuse import FILE_HINT, Refuse, row_in_words
from .released import NotReleased, Released, released
from .requeued_before import RejectRow, RowOf, came_back, quarantined_by


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
    given: str = ""
    """The input of an operator that other operators had given them to, as the code names it now."""
    new_columns: tuple[str, ...] = ()
    """Columns that did not exist when the rows were quarantined. They are null."""

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


class Refusal(Exception):
    """Why a row cannot come back."""


def returning(repo: Opened, head: Commit | None, commit: Commit, source: str | None, given: Any) -> Returning:
    """Return what comes back, or raise one `InvalidInput` for all rows that cannot."""
    check_source(repo, source)
    table = quarantined_rows(repo, commit)
    there: list[RejectRow] = [row for row in _rows(table) if source is None or row["source"] == source]
    chosen = [row for row in there if row["kind"] != FORGOTTEN]
    if not chosen:
        of = "" if source is None else f" of source `{source}`"
        raise InvalidInput(f"requeue version {commit.version}: it quarantined no rows{of}")
    sources = sources_of(repo.job, table) if source is None else [source]
    by_hand = None if given is None else corrected(repo, given, commit.version, sources)
    if by_hand is not None:
        named = _named(there, by_hand.column(ROW_ID).to_pylist(), commit.version)
        chosen = [row for row in named if row["kind"] != FORGOTTEN]  # an export has them, and nothing is left of them
        if not chosen:
            raise InvalidInput(f"requeue version {commit.version}: of these rows, a `forget` has left nothing")
    by, refuse = quarantined_by(repo, commit), Refuse(commit.version, len(chosen))
    files = _files(repo, head, [row for row in chosen if row["kind"] == FILE], refuse, by, by_hand)
    chosen = [row for row in chosen if row["kind"] != FILE]
    _refuse_twice(repo, head, chosen, commit, by)
    given = given_back(table, chosen)
    _refuse_emitted(repo.job, table, [row for row in chosen if row[ROW_ID] not in given], refuse)
    destinations = _destinations(repo, head, chosen, given, refuse, by)
    grouped: dict[tuple[str, tuple[str, ...], str, str], list[RejectRow]] = {}
    for row in chosen:
        operators, watermark = destinations[row[ROW_ID]]
        of_source = _source_of(repo.job, row, operators) if row[ROW_ID] in given else row["source"]
        grouped.setdefault((of_source, operators, watermark, given.get(row[ROW_ID], "")), []).append(row)
    contents = Contents(repo, table, refuse, by_hand)
    first = FirstRead(repo, head)
    groups = []
    for (of_source, operators, watermark, label), rows in sorted(grouped.items(), key=lambda one: one[0]):
        ordered = sorted(rows, key=_place)
        kinds = tuple(sorted({row["kind"] for row in ordered}))
        ids = [row[ROW_ID] for row in ordered]
        first_read = [first.file(row) for row in ordered]
        made = contents.of_input(label, operators[0], ordered) if label else contents.of(of_source, ordered)
        now = operators[0] if label else ""
        new = contents.new_columns(of_source, label, now, ordered)
        groups.append(RowGroup(of_source, operators, watermark, kinds, ids, first_read, made, now, new))
    return Returning(groups, files)


def _refuse_emitted(job: Job, table: pa.Table, rows: Sequence[RejectRow], refuse: Refuse) -> None:
    """Raise `InvalidInput` for rows that operators emitted and that cannot be given back: only failed ones can."""
    refused = []
    for row in rows:
        column = f"{CONTENT}{row['source']}"
        is_whole = column in table.column_names and table.column(column)[row[ROW_ID]].is_valid
        labels = (row["operator"] or "").split(",")
        behind = [label for label in labels if (port := job.port(label)) is not None and job.upstream_of(port)]
        if behind and not is_whole and row["kind"] in (LATE, AHEAD):
            why = (
                f"operator {_listed(behind)} got it from another operator, and only rows that failed can be given back"
            )
            refused.append((row, why))
    if refused:
        raise refuse(refused)


def _source_of(job: Job, row: RejectRow, operators: Sequence[str]) -> str:
    """Return the source that counts rows that an operator is given back: that of the row, or the first one upstream."""
    if row["source"] in job.sources:
        return str(row["source"])
    above = job.nodes_above([job.operators[names.operator_of(operators[0])].node])
    there = {node.source for node in job.nodes if node.number in above}
    return next(name for name in job.sources if name in there)


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
    of_hand = set() if by_hand is None else filled(by_hand)
    for row in rows:
        try:
            if row[ROW_ID] in of_hand:
                raise NotReleased(
                    "it stands for a whole file, so correct the file, and leave the columns of the row empty"
                )
            found.append(released(repo, head, row, by))
        except NotReleased as why:
            refused.append((row, str(why)))
    if refused:
        raise refuse(refused, FILE_HINT)
    return found


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
            f"requeue version {commit.version}: {row_in_words(first)} was requeued already by version "
            f"{before[first[ROW_ID]]}{more}",
            hint="give only other rows, with --rows",
        )


def _destinations(
    repo: Opened,
    head: Commit | None,
    rows: Sequence[RejectRow],
    given: Container[int],
    refuse: Refuse,
    by: Sequence[RowOf],
) -> dict[int, tuple[tuple[str, ...], str]]:
    files = [SourceFile(row["source"] or "", row["file"] or "", "", 0, 0) for row in rows]
    found, refused = {}, []
    for row, known in zip(rows, look_up_files(repo.ledger(head).map, files), strict=True):
        try:
            made = by[row[ROW_ID]].commit
            is_given = row[ROW_ID] in given
            found[row[ROW_ID]] = destination(repo.job, _with_present_names(head, row, made), is_given=is_given)
            source = repo.job.sources.get(row["source"])
            if not is_given and (source is None or not is_positioned(source)):
                _check_read(known, made.version)
            elif head is None or not is_effective(head, refuse.version):
                raise Refusal("it waits again, because the version was rewound")
        except Refusal as why:
            refused.append((row, str(why)))
    if refused:
        raise refuse(refused)
    return found


def _with_present_names(head: Commit | None, row: RejectRow, made: Commit) -> RejectRow:
    """Return a row with the names that its operators have now. Migrations may have renamed them."""
    if head is None or not row["operator"]:
        return row
    found = []
    for label in row["operator"].split(","):
        name, dot, port = label.partition(".")
        found.append(present_name(name, made.renamed, head.renamed) + dot + port)
    return {**row, "operator": ",".join(found)}


def destination(job: Job, row: RejectRow, *, is_given: bool = False) -> tuple[tuple[str, ...], str]:
    """Return the operators and the watermark that a row goes to; none of both means the whole pipeline.

    `is_given`: the row is known as its operator got it from another one. Raises `Refusal` if it cannot go there.
    """
    operators = tuple((row["operator"] or "").split(",")) if row["operator"] else ()
    if row["kind"] is None:
        raise Refusal("an earlier version of Tidemill quarantined it, which did not record what the row is")
    if row["source"] is None and not is_given:
        raise Refusal(f"operator {_listed(operators)} got it from another operator, not from a source")
    if row["source"] not in job.sources and not is_given:
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

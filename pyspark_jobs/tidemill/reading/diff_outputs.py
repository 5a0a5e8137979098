"""The rows in which the outputs of two versions differ, as bags: a row counts as often as it occurs.

The outputs of a version are those of its effective history. Versions that both histories share are not read, nor are
files with equal bytes. INVARIANT: `_batch_id` and `_seq` count only if the caller asks for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from ..errors import InvalidInput
from ..names import ADDED
from ..notebook import NotebookResult
from ..protocol.named import output_files
from ..protocol.records import Commit, OutputFile, VersionOf
from ..protocol.retained import refuse_if_gone
from ..protocol.spans import Span, effective_spans, without
from ..schema import as_bits, differs, empty_table, one_array, quoted, shared_columns
from ..schema.kernels import pc
from ..sinks.forms import with_added
from ..sources import connections
from ..values import dataclass
from .diff_state import ComparedVersion
from .read import decode_files, kept, sink_schema


@dataclass(frozen=True)
class OutputDiff(NotebookResult):
    """How the rows committed for a sink differ between two versions, `before` and `after` (such as `main@5`).

    `added_rows` and `removed_rows` have the sink's columns that all compared versions have. `not_compared` names the
    other columns.
    """

    sink: str
    before: str
    after: str
    added: int
    removed: int
    added_rows: pa.Table = field(repr=False)
    removed_rows: pa.Table = field(repr=False)
    not_compared: list[str] = field(default_factory=list)

    def in_notebook(self) -> dict[str, Any]:
        """Return the numbers of rows; the tables have them."""
        return {name: value for name, value in vars(self).items() if not name.endswith("_rows")}

    @property
    def total(self) -> int:
        """How many rows differ."""
        return self.added + self.removed


@dataclass(frozen=True)
class _Files:
    """The files of one version."""

    commit: Commit
    files: list[OutputFile]


def output_diff(
    a: ComparedVersion,
    b: ComparedVersion,
    sink: str,
    ids: bool = False,
    tolerance: float | None = None,
    limit: int | None = None,
) -> OutputDiff:
    """Compare the outputs of two versions. `InvalidInput` for an unknown sink, or versions that are not kept."""
    name, schema = _schema(a, b, sink)
    ours, theirs = _own(a, b, name)
    ours, theirs = _without_equal_files(ours, theirs)
    with kept(a.repo, a.commit), kept(b.repo, b.commit):
        before, after = ([_read(point, name, one) for one in found] for point, found in ((a, ours), (b, theirs)))
    schema = with_added(schema)
    shared, not_compared = _shared([*before, *after], schema)
    if not ids:
        shared = pa.schema([one for one in shared if one.name not in ADDED])
    one, other = _together(before, shared), _together(after, shared)
    removed, added = bag_difference(one, other, tolerance)
    return OutputDiff(
        name, a.label, b.label, len(added), len(removed), other.take(added).slice(0, limit),
        one.take(removed).slice(0, limit), not_compared,
    )  # fmt: skip


def bag_difference(before: pa.Table, after: pa.Table, tolerance: float | None = None) -> tuple[pa.Array, pa.Array]:
    """Return the places of the rows that only one of two tables with the same columns has, as bags.

    With `tolerance`, rows that are left over and are equal in all other columns are paired in the order of their
    floats. A pair whose floats are all that near is equal.

    >>> import pyarrow as pa
    >>> before, after = pa.table({"n": [1, 1, 2]}), pa.table({"n": [2, 1, 3]})
    >>> [places.to_pylist() for places in bag_difference(before, after)]
    [[1], [2]]
    """
    names = [str(number) for number in range(before.num_columns)]
    bits = [_as_bits(table, names) for table in (before, after)]
    removed, added = (_unmatched(one, other, names) for one, other in (bits, bits[::-1]))
    floats = [name for name, one in zip(names, before.schema, strict=True) if pt.is_floating(one.type)]
    if tolerance is None or not floats or not len(removed) or not len(added):
        return removed, added
    rest = [table.take(places) for table, places in zip(bits, (removed, added), strict=True)]
    values = [table.take(places).rename_columns(names).select(floats) for table, places in
              ((before, removed), (after, added))]  # fmt: skip
    pairs = _pairs(rest, values, [name for name in names if name not in floats], floats)
    far = pa.nulls(pairs.num_rows).is_valid()
    for name in floats:
        one, other = (table.column(name).take(pairs.column(side)).combine_chunks() for side, table in
                      zip(("a", "b"), values, strict=True))  # fmt: skip
        far = pc.or_(far, differs(one_array(one), one_array(other), tolerance))
    near = pairs.filter(pc.invert(far))
    return _left(removed, near.column("a")), _left(added, near.column("b"))


def _schema(a: ComparedVersion, b: ComparedVersion, sink: str) -> tuple[str, pa.Schema]:
    """Return the name and columns of a sink in the second version, or in the first one if only that has it."""
    try:
        return sink_schema(b.repo, sink)
    except InvalidInput:
        return sink_schema(a.repo, sink)


def _own(a: ComparedVersion, b: ComparedVersion, sink: str) -> tuple[list[_Files], list[_Files]]:
    """Return the files of the versions that only one of both histories has."""
    refs = b.repo.initialised()
    before, after = (effective_spans(refs, point.repo.branch, point.commit) for point in (a, b))

    def files(point: ComparedVersion, spans: list[Span]) -> list[_Files]:
        found: list[_Files] = []
        for version, branch in ((n, span.branch) for span in spans for n in range(span.first, span.last + 1)):
            refuse_if_gone(refs, VersionOf(branch, version), f"diff {a.label} {b.label}: read the outputs of")
            commit = point.repo.log.commit(version)
            found += [_Files(commit, files) for files in output_files(commit, sink)]
        return found

    return files(a, without(before, after)), files(b, without(after, before))


def _without_equal_files(ours: list[_Files], theirs: list[_Files]) -> tuple[list[_Files], list[_Files]]:
    """Leave out files that both sides have, each as often as both have it."""

    def known(found: list[_Files]) -> Counter[tuple[str, str, str]]:
        return Counter(_content(file) for one in found for file in one.files)

    def rest(found: list[_Files]) -> list[_Files]:
        shared, left = known(ours) & known(theirs), []
        for one in found:
            files = []
            for file in one.files:
                if shared[_content(file)]:
                    shared[_content(file)] -= 1
                else:
                    files.append(file)
            left.append(_Files(one.commit, files))
        return [one for one in left if one.files]

    return rest(ours), rest(theirs)


def _content(file: OutputFile) -> tuple[str, str, str]:
    return file.checksum, file.suffix, file.extension


def _read(point: ComparedVersion, sink: str, one: _Files) -> pa.Table:
    return decode_files(point.repo.store, one.commit, sink, one.files)


def _shared(tables: Sequence[pa.Table], schema: pa.Schema) -> tuple[pa.Schema, list[str]]:
    """Return the columns that all tables have, in the widest types, and the other ones in words."""
    if not tables:
        return schema, []
    every = [table.schema for table in tables]
    shared = reduce(lambda one, other: shared_columns(one, other)[0], every)
    names = dict.fromkeys(name for one in every for name in one.names if name not in shared.names)
    return shared, [f"`{name}`: not in every version, or with other types" for name in names]


def _together(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    chosen = [table.select(schema.names).cast(schema) for table in tables]
    return pa.concat_tables(chosen) if chosen else empty_table(schema)


def _as_bits(table: pa.Table, names: Sequence[str]) -> pa.Table:
    columns = [as_bits(one_array(column)) for column in table.columns]
    return pa.Table.from_arrays([*columns, _places(table.num_rows)], names=[*names, "i"])


def _unmatched(ours: pa.Table, theirs: pa.Table, names: Sequence[str]) -> pa.Array:
    """Return the places of the rows of `ours` that have no row of `theirs` for themselves."""
    numbered = _numbered(names, [])
    on = " AND ".join(f"a.{quoted(name)} IS NOT DISTINCT FROM b.{quoted(name)}" for name in [*names, "n"])
    text = (
        f"SELECT i FROM (SELECT *, {numbered} FROM ours) a ANTI JOIN (SELECT *, {numbered} FROM theirs) b "
        f"ON {on} ORDER BY i"
    )
    found = connections.query(connections.for_user_sql(), text, ours=ours, theirs=theirs)
    return one_array(found.column("i"))


def _pairs(
    rest: Sequence[pa.Table], values: Sequence[pa.Table], exact: Sequence[str], floats: Sequence[str]
) -> pa.Table:
    """Return the places of rows that are equal in `exact`, in pairs by the order of `floats`: columns a and b."""
    sides = []
    for table, numbers in zip(rest, values, strict=True):
        chosen = table.select(exact)
        for name in floats:
            chosen = chosen.append_column(name, numbers.column(name))
        sides.append(chosen.append_column("i", _places(table.num_rows)))
    numbered = _numbered(exact, floats)
    on = " AND ".join(f"a.{quoted(name)} IS NOT DISTINCT FROM b.{quoted(name)}" for name in [*exact, "n"])
    text = (
        f"SELECT a.i AS a, b.i AS b FROM (SELECT *, {numbered} FROM ours) a "
        f"JOIN (SELECT *, {numbered} FROM theirs) b ON {on}"
    )
    return connections.query(connections.for_user_sql(), text, ours=sides[0], theirs=sides[1])


def _numbered(names: Sequence[str], order: Sequence[str]) -> str:
    """Return the SQL that numbers equal rows."""
    by = ", ".join(quoted(name) for name in names)
    sort = ", ".join([*(quoted(name) for name in order), "i"])
    return f"row_number() OVER ({f'PARTITION BY {by} ' if by else ''}ORDER BY {sort}) AS n"


def _left(places: pa.Array, matched: pa.ChunkedArray) -> pa.Array:
    """Return `places` without those at the positions `matched`."""
    return places.filter(pc.invert(pc.is_in(_places(len(places)), value_set=one_array(matched))))


def _places(count: int) -> pa.Array:
    return pc.indices_nonzero(pa.nulls(count).is_null()).cast(pa.int64())

"""The keys in which two versions of an operator's state differ, with both values.

Values are compared as `state` shows them, by their bits. `updated_at` is never compared, because a batch may write the
value that was there. INVARIANT: counts are exact, also if the table has only the first rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from ..names import variable_name
from ..notebook import NotebookResult
from ..protocol.records import Commit
from ..repo.opened import Opened
from ..repo.versions import label
from ..schema import FieldChange, differs, field_changes, int64_scalar, one_array, shared_columns, to_ddl
from ..schema.kernels import pc
from ..spelling import unknown
from ..state.columns import MapColumns
from ..state.compare import Compared, Side, compared
from ..state.point import FoundRows, look_up_rows
from ..values import dataclass
from .finished import finished, key_columns
from .located import Located, located, same_operator, schemas_at
from .read import kept, key_batch

_TIMES = ("updated_at", "deadline")


@dataclass(frozen=True)
class ComparedVersion:
    """A version that is compared: its branch, opened, and its commit. None: version -1."""

    repo: Opened
    commit: Commit | None

    @property
    def version(self) -> int:
        """The number of the version."""
        return -1 if self.commit is None else self.commit.version

    @property
    def label(self) -> str:
        """The version as users write it: `main@5`."""
        return label(self.repo, self.version)

    def schemas(self, operator: str | None) -> dict[str, dict[str, Any]]:
        """The operators of the version."""
        return schemas_at(self.repo, self.commit, False, operator)


@dataclass(frozen=True)
class StateComparison:
    """How states are compared: which keys and variable, how near floats are equal, and how many rows are returned."""

    keys: Sequence[Any] | None = None
    variable: str | None = None
    partial: bool = False
    tolerance: float | None = None
    limit: int | None = None
    verb: str = "diff"


@dataclass(frozen=True)
class StateDiff(NotebookResult):
    """How the state of an operator differs between two versions, `before` and `after` (such as `main@5`).

    `table` has the key columns, and `before` and `after`: structs of the state's columns, or null for a key without
    state. An operator without state columns shows its deadline there. `deadlines`: keys with equal values whose
    deadlines differ; they are not in the table. `not_compared`: columns that only one version has, or with other types.
    `variables`: by other variable of a processor, how many of its rows differ.
    """

    operator: str
    before: str
    after: str
    added: int
    removed: int
    changed: int
    deadlines: int
    table: pa.Table = field(repr=False)
    not_compared: list[str] = field(default_factory=list)
    variables: dict[str, int] = field(default_factory=dict)

    def in_notebook(self) -> dict[str, Any]:
        """Return the numbers of keys; the table has them."""
        return {name: value for name, value in vars(self).items() if name != "table"}

    @property
    def total(self) -> int:
        """How many keys differ."""
        return self.added + self.removed + self.changed


def state_diff(a: ComparedVersion, b: ComparedVersion, operator: str, wanted: StateComparison) -> StateDiff:
    """Compare an operator's state in two versions. `InvalidInput` if its key columns differ, or for unknown names."""
    pair = _Pair.of(a, b, operator, wanted)
    with kept(a.repo, a.commit, operator), kept(b.repo, b.commit, operator):
        found = _Found(pair, wanted)
        for part in pair.compared(wanted):
            found.add(part)
    return StateDiff(
        operator=pair.name,
        before=a.label,
        after=b.label,
        added=found.added,
        removed=found.removed,
        changed=found.changed,
        deadlines=found.deadlines,
        table=found.table,
        not_compared=found.not_compared,
        variables=_other_variables(pair, wanted) if wanted.variable is None and wanted.keys is None else {},
    )


@dataclass(frozen=True)
class _One:
    """One of the two versions: where the operator's state is in it, and how to read it.

    If it has no such operator, `is_there` is false, and `at` is where the state is in the other version.
    """

    point: ComparedVersion
    at: Located
    side: Side
    is_there: bool


@dataclass(frozen=True)
class _Pair:
    """Both versions of a state map."""

    name: str
    map: str
    before: _One
    after: _One
    verb: str

    @staticmethod
    def of(a: ComparedVersion, b: ComparedVersion, operator: str, wanted: StateComparison) -> _Pair:
        """Find the operator in both versions."""
        name, at_a, at_b = _both(a, b, operator, wanted.variable)
        one = at_b or at_a
        assert one is not None  # otherwise `_both` raises
        key, sub_key = _keys_of(at_a or one, at_b or one, a, b, wanted.verb)

        def made(point: ComparedVersion, at: Located | None) -> _One:
            found = at or one
            columns = MapColumns(found.map, key, sub_key, found.columns.value)
            return _One(point, found, Side(columns, [] if at is None else at.segments), at is not None)

        return _Pair(name, one.map, made(a, at_a), made(b, at_b), wanted.verb)

    @property
    def repo(self) -> Opened:
        """A branch to read with: both are of one repository."""
        return self.after.point.repo

    @property
    def key(self) -> pa.Schema:
        """The key columns."""
        return self.after.side.columns.key

    def compared(self, wanted: StateComparison) -> Iterator[Compared]:
        """Yield the rows that may differ."""
        keys = None if wanted.keys is None else key_batch(list(wanted.keys), self.key, self.verb)
        repo = self.repo
        yield from compared(repo.store, repo.cache, self.before.side, self.after.side, keys)

    def nothing(self) -> Compared:
        """Return a comparison without rows, which has the columns of any other."""
        columns = self.after.side.columns
        keys = pa.RecordBatch.from_arrays(
            [pa.nulls(0, one.type) for one in (*columns.key, *columns.sub_key)],
            schema=pa.schema([*columns.key, *columns.sub_key]),
        )
        sides = (self.before.side, self.after.side)
        found = (look_up_rows(self.repo.store, self.repo.cache, one.columns, [], keys) for one in sides)
        return Compared(keys, *found)


def _both(
    a: ComparedVersion, b: ComparedVersion, operator: str, variable: str | None
) -> tuple[str, Located | None, Located | None]:
    """Return the operator's name, and where it is in each version. `InvalidInput` if neither has it."""
    in_a, in_b = a.schemas(operator), b.schemas(operator)
    first: str | None
    second: str | None
    if operator in in_b:
        first, second = same_operator(operator, a.commit, b.commit, in_a), operator
    elif operator in in_a:
        first, second = operator, same_operator(operator, b.commit, a.commit, in_b)
    else:
        raise unknown("operator", operator, sorted({*in_a, *in_b}))
    found = [None if name is None else located(point.repo, point.commit, False, name, None)
             for point, name in ((a, first), (b, second))]  # fmt: skip
    if variable is not None:
        found = [None if one is None else _of_variable(point, one, variable)
                 for point, one in zip((a, b), found, strict=True)]  # fmt: skip
        if found == [None, None]:
            recorded = in_b.get(operator) or in_a[operator]
            raise unknown("variable of the state", variable, [variable_name(name) for name in recorded["maps"]])
    elif found[0] is not None and found[1] is not None and found[0].map != found[1].map:
        found[0] = _of_variable(a, found[0], found[1].map)
    return operator, found[0], found[1]


def _of_variable(point: ComparedVersion, at: Located, variable: str) -> Located | None:
    try:
        return located(point.repo, point.commit, False, at.operator, variable)
    except InvalidInput:
        return None


def _keys_of(
    one: Located, other: Located, a: ComparedVersion, b: ComparedVersion, verb: str
) -> tuple[pa.Schema, pa.Schema]:
    """Return the key and the sub-key columns of both versions, in the wider types."""
    found = []
    for before, after in ((one.columns.key, other.columns.key), (one.columns.sub_key, other.columns.sub_key)):
        if all(change.is_accepted for change in field_changes(before, after, grows=False)):
            found.append(after)
        elif all(change.is_accepted for change in field_changes(after, before, grows=False)):
            found.append(before)
        else:
            raise InvalidInput(
                f"{verb}: the key of operator `{other.operator}` is `{to_ddl(before)}` in {a.label} and "
                f"`{to_ddl(after)}` in {b.label}, so no key is in both",
                hint="compare versions with the same key columns",
            )
    return found[0], found[1]


@dataclass(frozen=True)
class _Shown:
    """Rows of one version as `state` shows them, one for each key; null for a key without a row."""

    found: pa.BooleanArray
    keys: pa.Table
    """Only of the keys that were found."""
    values: pa.Table
    deadlines: pa.Array


def _shown(one: _One, part: Compared, rows: FoundRows, partial: bool) -> _Shown:
    names = part.keys.schema.names
    there = pa.Table.from_batches([part.keys]).filter(rows.found)
    table = there
    for column in rows.values.schema:
        table = table.append_column(column, rows.values.column(column.name).filter(rows.found))
    at = one.at
    table = table if partial else finished(at.operator, at.recorded, table)
    first = key_columns(at.operator, at.recorded, partial)
    width = len(names) if first is None else len(first)
    columns = table.column_names
    keys = table.select(columns[:width])
    values = table.select([name for name in columns[width:] if name not in _TIMES] or ["deadline"])
    places = pc.if_else(rows.found, _place_of(rows.found), pa.nulls(1, pa.int64())[0])
    values = values.combine_chunks().take(places)
    deadlines = rows.values.column(rows.values.num_columns - 1)
    return _Shown(rows.found, keys.combine_chunks(), values, deadlines)


class _Found:
    """The counts and rows of the parts that were compared so far."""

    def __init__(self, pair: _Pair, wanted: StateComparison) -> None:
        self.pair, self.wanted = pair, wanted
        self.added = self.removed = self.changed = self.deadlines = 0
        before, after = self._shown(pair.nothing())
        self._types, rest = shared_columns(before.values.schema, after.values.schema)
        labels = pair.before.point.label, pair.after.point.label
        self.not_compared = [_not_compared(one, *labels) for one in rest]
        self._tables = [self._rows(before, after, pa.nulls(0, pa.bool_()))]
        self._left = wanted.limit

    def add(self, part: Compared) -> None:
        """Compare some keys."""
        self.added += _count(pc.and_(part.after.found, pc.invert(part.before.found)))
        self.removed += _count(pc.and_(part.before.found, pc.invert(part.after.found)))
        if self._left == 0:  # only the keys of both versions are left to compare, because the table is full
            part = part.filter(pc.and_(part.before.found, part.after.found))
        before, after = self._shown(part)
        both = pc.and_(before.found, after.found)
        unequal = pc.invert(pa.nulls(part.keys.num_rows).is_null())
        for column in self._types:
            one, other = (_column(side.values, column) for side in (before, after))
            unequal = pc.or_(unequal, differs(one, other, self.wanted.tolerance))
        changed = pc.and_(both, unequal)
        times = pc.and_(pc.and_(both, pc.invert(unequal)), differs(before.deadlines, after.deadlines))
        self.changed += _count(changed)
        self.deadlines += _count(times)
        if self._left is None or self._left > 0:
            rows = self._rows(before, after, pc.or_(pc.xor(before.found, after.found), changed))
            rows = rows.slice(0, self._left)
            self._tables.append(rows)
            self._left = None if self._left is None else self._left - rows.num_rows

    @property
    def table(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables(self._tables)

    def _shown(self, part: Compared) -> tuple[_Shown, _Shown]:
        pair, partial = self.pair, self.wanted.partial
        return (
            _shown(pair.before, part, part.before, partial),
            _shown(pair.after, part, part.after, partial),
        )

    def _rows(self, before: _Shown, after: _Shown, mask: pa.BooleanArray) -> pa.Table:
        """Return the rows of the table for the keys of `mask`."""
        keys = _either(before, after)
        names = [f"key.{name}" if name in ("before", "after", "version") else name for name in keys.column_names]
        table = keys.rename_columns(names)
        for name, side in (("before", before), ("after", after)):
            table = table.append_column(name, _struct(side))
        return table.filter(mask)


def _either(before: _Shown, after: _Shown) -> pa.Table:
    """Return the key columns of all keys, from the version that has the key."""
    both = [before.keys, after.keys.rename_columns(before.keys.column_names)]
    schema, rest = shared_columns(*(one.schema for one in both))
    assert not rest  # the keys are comparable
    both = [one.cast(schema) for one in both]
    places_a = pc.add(_place_of(after.found), int64_scalar(before.keys.num_rows))
    places = pc.if_else(after.found, places_a, _place_of(before.found))
    return pa.concat_tables(both).combine_chunks().take(places)


def _place_of(found: pa.BooleanArray) -> pa.Array:
    """Return the place of each row that was found among those that were found."""
    return pc.subtract(pc.cumulative_sum(found.cast(pa.int64())), int64_scalar(1))


def _struct(side: _Shown) -> pa.Array:
    columns = [one_array(column) for column in side.values.columns]
    fields = [one.with_nullable(True) for one in side.values.schema]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pc.invert(side.found))


def _not_compared(change: FieldChange, before: str, after: str) -> str:
    types = [f"{kind} in {label}" for kind, label in ((change.before, before), (change.after, after)) if kind]
    return f"`{change.path}`: " + (f"only in {types[0].partition(' in ')[2]}" if len(types) == 1 else ", ".join(types))


def _column(values: pa.Table, wanted: pa.Field) -> pa.Array:
    return one_array(values.column(wanted.name)).cast(wanted.type)


def _count(mask: pa.BooleanArray) -> int:
    return int(mask.true_count)


def _other_variables(pair: _Pair, wanted: StateComparison) -> dict[str, int]:
    """Return how many rows differ in the other state maps of a processor, for those with differences."""
    found = {}
    recorded = [one.at.recorded["maps"] for one in (pair.before, pair.after)]
    for name in dict.fromkeys(one for maps in recorded for one in maps if one != pair.map):
        asked = StateComparison(variable=name, partial=True, tolerance=wanted.tolerance, limit=0, verb=wanted.verb)
        other = state_diff(pair.before.point, pair.after.point, pair.name, asked)
        if other.total:
            found[variable_name(name)] = other.total
    return found

"""`Sought`: the keys that were forgotten up to a version, and how many of them rows and texts have.

INVARIANT: a value that does not fit the type of a key is left out alone, so the other rows are compared. The entries of
one `forget` of a person are one group, so that a key that several of them know is counted once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field
from functools import partial

import pyarrow as pa

from ..protocol.compatible import first_name
from ..protocol.records import Commit, Forgotten
from ..repo.opened import Opened
from ..repo.operators import declared_operators
from ..schema import to_arrow
from ..state.columns import MapColumns
from ..values import dataclass
from .key_text import key_in_row, possible_keys
from .keys import each_fitting, forgotten_rows, held_hashes
from .left_out import is_left_out


@dataclass(frozen=True)
class SoughtKeys:
    """An entry of a `forget` commit: its keys, their columns, and the first name of the operator."""

    entry: Forgotten
    schema: pa.Schema
    operator: str

    @property
    def group(self) -> tuple[int, str]:
        """The same for entries that may know the same keys of a person."""
        by = ",".join(self.schema.names) if self.entry.found_by else self.entry.salt
        return self.entry.version, by


@dataclass
class Sought:
    """The keys of all entries. `unknown` are entries whose columns no record says any more."""

    keys: list[SoughtKeys] = field(default_factory=list)
    unknown: list[Forgotten] = field(default_factory=list)

    @classmethod
    def of(cls, repo: Opened, head: Commit) -> Sought:
        """Return the keys that were forgotten up to a version."""
        return cls.in_entries(repo, repo.log.forgotten(head))

    @classmethod
    def in_entries(cls, repo: Opened, entries: Sequence[Forgotten]) -> Sought:
        """Return the keys of entries of commits."""
        made = cls()
        for one in entries:
            made._add(repo, one, repo.log.commit(one.version))
        return made

    @classmethod
    def in_commits(cls, repo: Opened, commits: Sequence[Commit]) -> Sought:
        """Return the keys that these commits have forgotten, which may be of another branch."""
        made = cls()
        for commit in commits:
            for one in commit.forgotten:
                if one.version == commit.version:
                    made._add(repo, one, commit)
        return made

    def _add(self, repo: Opened, one: Forgotten, commit: Commit) -> None:
        schema = to_arrow(one.found_by) if one.found_by else _key_columns(repo, one.operator, commit)
        if schema is None:
            self.unknown.append(one)
        else:
            self.keys.append(SoughtKeys(one, schema, first_name(one.operator, commit.renamed)))

    @property
    def count(self) -> int:
        """How many keys are sought."""
        return self._count(self.keys, lambda one: len(one.entry.hashes))

    @property
    def groups(self) -> list[list[SoughtKeys]]:
        """The entries by group, oldest first."""
        found: dict[tuple[int, str], list[SoughtKeys]] = {}
        for one in self.keys:
            found.setdefault(one.group, []).append(one)
        return list(found.values())

    def concerns(self, operator: str) -> bool:
        """Whether keys of an operator, by its first name, were forgotten."""
        return any(one.operator == operator for one in self.keys)

    def in_state(self, operator: str, keys: pa.Table) -> int:
        """Return how many forgotten keys are among the keys of an operator, by its first name."""
        return self._count(
            [one for one in self.keys if one.operator == operator],
            lambda one: self._held(one, keys, self._columns_in_key(one, keys.schema.names)),
        )

    def rows_in_state(self, operator: str, keys: pa.Table) -> list[bool]:
        """Return which of the keys of an operator, by its first name, were forgotten."""
        ours = [False] * keys.num_rows
        for one in self.keys:
            columns = self.columns_in_state(one, operator, keys.schema.names)
            if columns:
                found = each_fitting(keys.select(columns), one.schema, partial(forgotten_rows, one.entry))
                ours = [before or now for before, now in zip(ours, found, strict=True)]
        return ours

    def columns_in_state(self, one: SoughtKeys, operator: str, key: Sequence[str]) -> Sequence[str]:
        """Return the columns of an operator's key in which keys are sought; none if they are not in it."""
        return self._columns_in_key(one, key) if one.operator == operator else ()

    @staticmethod
    def _columns_in_key(one: SoughtKeys, key: Sequence[str]) -> Sequence[str]:
        if one.entry.found_by and set(one.schema.names) <= set(key):
            return list(one.schema.names)
        return key if len(key) == len(one.schema) else ()  # a migration may have renamed the columns

    def columns_in(self, one: SoughtKeys, sink: str, names: Collection[str]) -> list[str] | None:
        """Return the columns of a sink in which a key is sought. None: there are none.

        They are those that the `forget` named; without any, those with the names of the key's columns.
        """
        if sink in one.entry.columns:
            return one.entry.columns[sink]
        by_others = (other for other in self.keys if other.group == one.group)
        if any(sink in other.entry.columns for other in by_others) or not set(one.schema.names) <= set(names):
            return None
        return list(one.schema.names)

    def in_sink(self, sink: str, rows: pa.Table) -> int:
        """Return how many forgotten keys rows of a sink have. Rows without a column have no key.

        Keys of an operator for which no column is known are sought in all columns that may hold them, unless the caller
        of `forget` agreed to leave the sink. The columns of a person are always known.
        """
        return self._count(self.keys, lambda one: self._in_rows(one, sink, rows))

    def _in_rows(self, one: SoughtKeys, sink: str, rows: pa.Table) -> int:
        if sink not in one.entry.columns and self.is_agreed(one, "sink", sink):
            return 0
        columns = self.columns_in(one, sink, rows.column_names)
        if columns is not None:
            return self._held(one, rows, columns)
        tables = iter(()) if one.entry.found_by else _possible(rows, one.schema)
        return max((self._held(one, table, table.column_names) for table in tables), default=0)

    def is_agreed(self, one: SoughtKeys, kind: str, name: str) -> bool:
        """Whether the caller of `forget` agreed to leave something, or forgot the same keys again later."""
        same = (other.entry for other in self.keys if other.operator == one.operator)
        return is_left_out(one.entry.left, kind, name) or any(one.entry.version in entry.again for entry in same)

    def but(self, kind: str, name: str) -> Sought:
        """Return the keys whose callers did not agree to leave something."""
        return Sought([one for one in self.keys if not self.is_agreed(one, kind, name)])

    def is_left(self, sink: str, uri: str) -> bool:
        """Whether a caller agreed to leave a sink or its folder."""
        left = [name for one in self.keys for name in one.entry.left]
        return is_left_out(left, "sink", sink) or is_left_out(left, "folder", uri)

    def in_text(self, text: str | None, is_unreadable: bool) -> int:
        """Return how many forgotten keys the text of a row has. Of keys with several columns, only JSON is searched."""
        return self._count(self.keys, lambda one: _is_in_text(one, text, is_unreadable))

    @staticmethod
    def _held(one: SoughtKeys, rows: pa.Table, columns: Sequence[str]) -> int:
        if not columns or not set(columns) <= set(rows.column_names):
            return 0
        found = set[int]()

        def among(keys: pa.Table) -> list[bool]:
            found.update(place for batch in keys.to_batches() for place in held_hashes(one.entry, batch))
            return [False] * keys.num_rows

        each_fitting(rows.select(columns), one.schema, among)
        return len(found)

    def rows_in_sink(self, sink: str, rows: pa.Table) -> list[bool]:
        """Return which rows of a sink have a forgotten key, in the columns that the `forget` named."""
        ours = [False] * rows.num_rows
        for one in self.keys:
            columns = one.entry.columns.get(sink, [])
            if columns and set(columns) <= set(rows.column_names):
                found = each_fitting(rows.select(columns), one.schema, partial(forgotten_rows, one.entry))
                ours = [before or now for before, now in zip(ours, found, strict=True)]
        return ours

    @staticmethod
    def _count(keys: Sequence[SoughtKeys], found: Callable[[SoughtKeys], int]) -> int:
        most: dict[tuple[int, str], int] = {}
        for one in keys:
            most[one.group] = max(most.get(one.group, 0), found(one))
        return sum(most.values())


def _is_in_text(one: SoughtKeys, text: str | None, is_unreadable: bool) -> int:
    exact = key_in_row(text, one.schema)
    possible: Iterator[pa.RecordBatch] = iter(()) if exact is None else iter([exact])
    if exact is None or is_unreadable:
        possible = possible_keys(text, one.schema)
    return int(any(held_hashes(one.entry, batch) for batch in possible))


_MOST_COMBINATIONS = 1000
"""In how many combinations of columns a key of several columns is sought, if no column of it is known."""


def _possible(rows: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield columns of rows that may hold a key: each that has its type, also within arrays, structs and maps."""
    if len(schema) == 1:
        for column in rows.columns:
            for leaf in _leaves(column.combine_chunks()):
                if _is_like(leaf.type, schema.field(0).type):
                    yield pa.table({"key": leaf})
        return
    fitting_columns = [
        [name for name in rows.column_names if _is_like(rows.schema.field(name).type, one.type)] for one in schema
    ]
    for columns in itertools.islice(itertools.product(*fitting_columns), _MOST_COMBINATIONS):
        if len(set(columns)) == len(columns):
            yield rows.select(columns)


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    kind = column.type
    if pa.types.is_struct(kind):
        for leaf in column.flatten():
            yield from _leaves(leaf)
    elif pa.types.is_map(kind):
        yield from _leaves(column.keys)
        yield from _leaves(column.items)
    elif pa.types.is_list(kind):
        yield from _leaves(column.flatten())
    else:
        yield column


def _is_like(one: pa.DataType, other: pa.DataType) -> bool:
    return bool(one == other) or (pa.types.is_integer(one) and pa.types.is_integer(other))


def _key_columns(repo: Opened, operator: str, commit: Commit) -> pa.Schema | None:
    """Return the key columns of an operator as of a version, also of one that was removed since."""
    first = first_name(operator, commit.renamed)
    known = {**repo.initialised().schemas, **declared_operators(repo, commit), **commit.schemas}
    described = known.get(operator, known.get(first))
    return None if described is None else MapColumns.described("keys", next(iter(described["maps"].values()))).key

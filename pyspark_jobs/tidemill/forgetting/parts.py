"""What one `forget` removes, in parts: whole keys of an operator, or of a person the values of a column.

A person is given by columns and their values. Each operator whose key has such a column, and each type that sinks have
for it, is a part of its own. INVARIANT: a part has the type of what it is compared with, so equal values are found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from ..protocol.compatible import first_name
from ..protocol.records import Commit, Forgotten
from ..repo.opened import Opened
from ..repo.operators import declared_operators
from ..schema import cell_array, to_ddl
from ..sources.file_columns import text_value
from ..state.columns import MapColumns
from ..values import dataclass
from .keys import Keys, new_salt
from .left_out import left_label
from .places import PublishedPlaces
from .sought import Sought, SoughtKeys

Person = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class ForgetPart:
    """Keys to forget. `operator` is empty for rows of sinks alone, `found_by` for whole keys of an operator."""

    operator: str
    keys: Keys = field(repr=False)
    columns: dict[str, list[str]]
    found_by: str = ""

    def entry(self, version: int, salt: str, left: list[str], again: list[int], drop_refs: bool = False) -> Forgotten:
        """Return the entry of the commit."""
        return Forgotten(
            version=version,
            operator=self.operator,
            salt=salt,
            hashes=sorted(set(self.keys.salted(salt))),
            columns=self.columns,
            drop_refs=drop_refs,
            found_by=self.found_by,
            left=left,
            again=again,
        )

    def is_in(self, one: Forgotten) -> bool:
        """Whether an entry has all of these keys."""
        same = (one.operator, one.found_by) == (self.operator, self.found_by)
        return same and set(self.keys.salted(one.salt)) <= set(one.hashes)

    def has_all(self, one: Forgotten) -> bool:
        """Whether these keys are all of an entry."""
        same = (one.operator, one.found_by) == (self.operator, self.found_by)
        return same and set(one.hashes) <= set(self.keys.salted(one.salt))


def sought_parts(parts: Sequence[ForgetPart], left: list[str], version: int) -> Sought:
    """Return the keys of parts as they are sought in published files."""
    salt = new_salt()
    return Sought(
        [SoughtKeys(one.entry(version, salt, left, []), one.keys.columns.schema, one.operator) for one in parts]
    )


@dataclass
class PersonParts:
    """The parts of a person, and the operators and sinks without any of the columns, as labels with the reason."""

    parts: list[ForgetPart] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)


def person_parts(repo: Opened, head: Commit, places: PublishedPlaces, person: Person) -> PersonParts:
    """Return what a person is in all operators and sinks that the records ever named.

    `InvalidInput` for a column that none of them has, or a value that does not fit.
    """
    made = PersonParts()
    current = {**declared_operators(repo, head), **head.schemas}
    for name, described in (current | _former(repo, head, current)).items():
        key = _key(described)
        found = [one for one in key if one.name in person]
        made.parts += [_part(name, one, person[one.name], f"operator `{name}`") for one in found]
        if not found and name in current:
            made.without[left_label("operator", name)] = (
                f"its key ({', '.join(key.names) or 'none'}) has no such column"
            )
    by_type: dict[tuple[str, str], tuple[pa.Field, dict[str, list[str]]]] = {}
    for sink in places.sinks:
        found = _columns(places, sink, person)
        why = _why_without(places, sink, person)
        if why:
            made.without[left_label("sink", sink)] = why
            continue
        for one in found:
            by_type.setdefault((one.name, to_ddl(pa.schema([one]))), (one, {}))[1][sink] = [one.name]
    for one, columns in by_type.values():
        made.parts.append(_part("", one, person[one.name], f"sink `{next(iter(columns))}`", columns))
    known = {name for one in made.parts for name in one.keys.columns.schema.names}
    for column in person:
        if column not in known:
            raise InvalidInput(f"forget: no key of an operator and no sink has a column `{column}`")
    return made


def _former(repo: Opened, head: Commit, current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the operators that earlier versions had, by their first names, as they were described last."""
    known = {first_name(name, head.renamed) for name in current}
    found: dict[str, Any] = {}
    for commit in repo.log.commits(0, through=head):
        for name, described in commit.schemas.items():
            first = first_name(name, commit.renamed)
            if first not in known:
                found[first] = described
    return found


def _key(described: Mapping[str, Any]) -> pa.Schema:
    return MapColumns.described("keys", next(iter(described["maps"].values()))).key


def _columns(places: PublishedPlaces, sink: str, person: Person) -> list[pa.Field]:
    """Return the columns of a person that a sink has, or had, each with its newest type."""
    found: dict[str, pa.Field] = {}
    for schema in places.schemas(sink):
        for one in schema:
            if one.name in person:
                found.setdefault(one.name, one)
    return list(found.values())


def _why_without(places: PublishedPlaces, sink: str, person: Person) -> str:
    """Return why the rows of a sink cannot be searched; empty if they can, or if it never had any."""
    there = [place for place in places.of(sink) if place.records]
    if any(place.is_function for place in there):
        return "only your function knows where its rows are"
    if any(place.folder is None and not place.is_declared for place in there):
        return "it is no folder, and this code does not have it at its place"
    if not there or _columns(places, sink, person):
        return ""
    return f"its columns ({', '.join(places.columns(sink).names)}) have no such one"


def _part(
    operator: str, column: pa.Field, values: Sequence[Any], what: str, sinks: dict[str, list[str]] | None = None
) -> ForgetPart:
    schema = pa.schema([column.with_nullable(True)])
    cells = [_cell(value, column, what) for value in values]
    batch = pa.record_batch([pa.concat_arrays(cells)], schema=schema)
    return ForgetPart(operator, Keys(batch).distinct(), sinks or {}, to_ddl(schema))


def _cell(value: Any, column: pa.Field, what: str) -> pa.Array:
    """Return a value as a cell. Text and numbers fit columns of each other's type if they are the same value."""
    kind = column.type
    try:
        if isinstance(value, str) and not pa.types.is_string(kind):
            scalar = text_value(value, kind, "UTC")
            if scalar is not None:
                return pa.array([scalar.as_py()], kind)
        elif pa.types.is_string(kind) and isinstance(value, int) and not isinstance(value, bool):
            return cell_array(str(value), kind)
        else:
            return cell_array(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    raise InvalidInput(f"forget: {what}: expected {kind} for the column `{column.name}`, found {value!r}")


def whole_keys(found: Iterator[pa.Table], parts: Sequence[ForgetPart]) -> Keys | None:
    """Return the keys among those of an operator that have a value of a part; None if there is none."""
    ours = []
    for keys in found:
        for part in parts:
            is_ours = part.keys.among(keys.select(part.keys.columns.schema.names))
            ours.append(keys.filter(is_ours))
    table = pa.concat_tables(ours).combine_chunks() if ours else None
    return None if table is None or not table.num_rows else Keys(table.to_batches()[0]).distinct()

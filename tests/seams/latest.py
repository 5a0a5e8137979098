"""A test-only operator in one new file: keeps the last row of each key, with whole-array calls of the state map."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidemill.operators.contract import Declared, Defaults, Handle, Input, column, key_schema
from tidemill.state.columns import MapColumns


@dataclass(frozen=True)
class Prepared:
    rows: pa.RecordBatch
    late: None = None


@dataclass(frozen=True)
class Latest(Declared):
    """`grouped.latest("column")` as declared."""

    name: str
    value: str

    def bind(self, given: Input) -> BoundLatest:
        column(given.schema, self.value, f"operator `{self.name}`")
        return BoundLatest(self.name, given, self.value)


@dataclass(frozen=True)
class BoundLatest(Defaults):
    name: str
    input: Input
    value: str
    kind: str = "test-latest"

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([*key_schema(self.input), self.input.schema.field(self.value)])

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        value = pa.schema([self.input.schema.field(self.value)])
        return (MapColumns("latest", key_schema(self.input), pa.schema([]), value),)

    def open(self) -> Handle:
        return LatestHandle(self)


class LatestHandle(Handle):
    """The open operator. It folds whole chunks, so it needs no Rust code."""

    def __init__(self, operator: BoundLatest) -> None:
        self.operator, self.rows = operator, 0

    def prepare(self, rows, pass_, combine=True):
        return Prepared(rows.select(self.operator.output_schema.names))

    def open(self, maps):
        (self.map,) = maps

    def apply(self, chunks, pass_, ports):
        table = pa.Table.from_batches(chunks, schema=self.operator.output_schema)
        keys = list(self.operator.input.key)
        last = {tuple(row[k] for k in keys): row for row in table.to_pylist()}
        rows = pa.RecordBatch.from_pylist(list(last.values()), schema=self.operator.output_schema)
        self.rows += table.num_rows
        if rows.num_rows:
            self.map.put_many(rows.select(keys), rows.select([self.operator.value]), 0)
        return rows

    def take_quarantined(self):
        return []

    def finish(self):
        return [self.map]

    def metrics(self):
        return {"rows": self.rows}

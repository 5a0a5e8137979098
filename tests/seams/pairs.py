"""A test-only operator with two inputs in one new file: it pairs the rows of equal keys, first come, first served.

Rows without a partner wait in the state, which knows the side of each. A left row whose time has come without one is
emitted alone. `pair` is a function of the user, so its errors take the way of those of other operators.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill import _native
from tidemill.errors import InvalidInput
from tidemill.operators.contract import Declared, Defaults, Handle, Input, column, key_schema
from tidemill.state.columns import MapColumns

LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Pairs(Declared):
    """`left.groupBy(…).add(Pairs(…), right.groupBy(…))`: the columns of the values, and the function of a pair."""

    name: str
    left: str
    right: str
    pair: Callable[[Any, Any], str]
    on_error: str = "fail"
    waits_ms: int = 10_000
    ports: tuple[str, ...] = ("left", "right")

    def bind_inputs(self, inputs: list[Input]) -> BoundPairs:
        left, right = inputs
        for given, value in ((left, self.left), (right, self.right)):
            column(given.schema, value, f"operator `{self.name}`")
            if given.event_time is None:
                raise InvalidInput(
                    f"operator `{self.name}`: input `{given.port}` has no watermark, so its rows would wait for ever",
                    hint="add .withWatermark(…)",
                )
        return BoundPairs(self.name, left, right, (self.left, self.right), self.pair, self.on_error, self.waits_ms)


@dataclass(frozen=True)
class BoundPairs(Defaults):
    name: str
    left: Input
    right: Input
    values: tuple[str, str]
    pair: Callable[[Any, Any], str]
    on_error: str
    waits_ms: int
    kind: str = "test-pairs"
    clock: str = "event"
    event_time: str = "at"

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.left, self.right)

    def value(self, port: int) -> pa.Field:
        return self.inputs[port].schema.field(self.values[port])

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        return (self.pair,)

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema(
            [*key_schema(self.left), pa.field("pair", pa.string()), pa.field("at", pa.timestamp("us", "UTC"))]
        )

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        place = pa.schema([pa.field("side", pa.int32()), pa.field("number", pa.int64())])
        value = [pa.field("at", pa.timestamp("us", "UTC")), *(self.value(n).with_name(f"v{n}") for n in (LEFT, RIGHT))]
        value = [field.with_nullable(True) for field in value]
        return (MapColumns("waiting", key_schema(self.left), place, pa.schema(value)),)

    def open(self) -> Handle:
        return PairsHandle(self)

    def open_port(self, port: int) -> Handle:
        return PreparePairs(self, port)


@dataclass(frozen=True)
class Prepared:
    rows: pa.RecordBatch
    late: pa.BooleanArray | None


@dataclass(frozen=True)
class PreparePairs(Handle):
    """Prepares the rows of one input: key columns, time and value. Rows at or before its watermark are late."""

    operator: BoundPairs
    port: int

    def prepare(self, rows, pass_, combine=True):
        given = self.operator.inputs[self.port]
        late = None
        if pass_.late_ms is not None:
            late = pc.invert(_native.after_ms(rows.column(given.event_time), pass_.late_ms))
            rows = rows.filter(pc.invert(late))
        names = [*given.key, given.event_time, self.operator.values[self.port]]
        columns = [rows.column(name) for name in names]
        kept = pa.RecordBatch.from_arrays(columns, [*(f"k{n}" for n in range(len(given.key))), "at", "value"])
        return Prepared(kept, late)


@dataclass(frozen=True)
class Waiting:
    number: int
    at: Any
    value: Any


class PairsHandle(Handle):
    """The open operator, which folds whole passes in Python."""

    def __init__(self, operator: BoundPairs) -> None:
        self.operator, (self.columns,) = operator, operator.maps
        self.counts, self.failure = {"rows": 0, "timed_out": 0, "failed": 0}, ""
        self.failed: list[tuple[int, Any, list[str]]] = []

    def open(self, maps):
        (given,) = maps
        self.map = given.copy()

    def apply(self, chunks, pass_, ports):
        assert list(ports) == sorted(ports)
        rows = defaultdict(list)
        for chunk, port in zip(chunks, ports, strict=True):
            self.counts["rows"] += chunk.num_rows
            for row in chunk.to_pylist():
                *key, at, value = row.values()
                rows[tuple(key)].append((port, at, value))
        known, made, reasons = self.waiting(), [], {}
        self.now_ms = pass_.batch_time_ms
        for key, arrived in rows.items():
            try:
                made += self.fold(key, known.get(key, ([], [])), arrived)
            except Exception as error:
                if self.operator.on_error == "fail":
                    raise self.error(key, error, chunks) from error
                reasons[key] = f"{type(error).__name__}: {error}"
        self.quarantine(reasons, chunks)
        made += self.time_out(pass_)
        return self.emit(made)

    def fold(self, key, known, arrived):
        """Pair the rows of one key, and replace what waits for it. Nothing is changed if a call fails."""
        waiting = tuple(list(side) for side in known)
        after = [1 + max((one.number for one in side), default=-1) for side in waiting]
        made, gone = [], []
        for port, at, value in arrived:
            if waiting[1 - port]:
                other = waiting[1 - port].pop(0)
                sides = (other.value, value) if port == RIGHT else (value, other.value)
                made.append((*key, self.operator.pair(*sides), max(at, other.at)))
                gone.append((1 - port, other.number))
            else:
                waiting[port].append(Waiting(after[port], at, value))
                after[port] += 1
        before = {(port, one.number) for port in (LEFT, RIGHT) for one in known[port]}
        fresh = [(port, one) for port in (LEFT, RIGHT) for one in waiting[port] if (port, one.number) not in before]
        self.remove([(*key, *place) for place in gone if place in before])
        self.put(key, fresh)
        return made

    def waiting(self):
        found = {}
        for row in self.map.scan().to_pylist():
            *key, side, number, at = list(row.values())[: len(self.columns.key) + 3]
            found.setdefault(tuple(key), ([], []))[side].append(Waiting(number, at, row[f"v{side}"]))
        return found

    def put(self, key, fresh):
        if fresh:
            places = [(*key, port, one.number) for port, one in fresh]
            values = [{"at": one.at, f"v{port}": one.value} for port, one in fresh]
            due = [int(one.at.timestamp() * 1000) + self.operator.waits_ms for _, one in fresh]
            batch = pa.RecordBatch.from_pylist(values, schema=self.columns.value)
            self.map.put_many(self.places(places), batch, self.now_ms, pa.array(due, pa.int64()))

    def remove(self, places):
        if places:
            self.map.remove_many(self.places(places))

    def places(self, rows):
        schema = pa.schema([*self.columns.key, *self.columns.sub_key])
        return pa.RecordBatch.from_arrays(
            [pa.array(cells, field.type) for cells, field in zip(zip(*rows, strict=True), schema, strict=True)],
            schema=schema,
        )

    def time_out(self, pass_):
        due = self.map.get_due(pass_.watermark_ms) if pass_.watermark_ms is not None else None
        if due is None or not due.num_rows:
            return []
        places = due.select([*self.columns.key.names, *self.columns.sub_key.names])
        self.map.remove_many(places)
        self.counts["timed_out"] += due.num_rows
        keys = self.columns.key.names
        return [
            (*(row[name] for name in keys), f"{row['v0']} alone", row["at"])
            for row in due.to_pylist()
            if row["side"] == LEFT
        ]

    def emit(self, made):
        """Return the rows in canonical order, with an order number for each."""
        schema = self.operator.output_schema
        rows = pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in made], schema=schema)
        hashes = _native.key_hashes(rows.select(range(len(self.columns.key)))).to_pylist()
        order = sorted(range(rows.num_rows), key=lambda place: hashes[place])
        groups = [hashes[place] >> 44 for place in order]
        turns = [groups[:at].count(group) for at, group in enumerate(groups)]
        self.order = pa.array([(g << 32) + turn for g, turn in zip(groups, turns, strict=True)], pa.int64())
        return rows.take(pa.array(order, pa.int64()))

    def take_order(self):
        return self.order

    def quarantine(self, reasons, chunks):
        self.counts["failed"] += len(reasons)
        self.failure = min([self.failure, *reasons.values()] if self.failure else reasons.values(), default="")
        for number, chunk in enumerate(chunks):
            keys = list(zip(*(column.to_pylist() for column in self.keys_of(chunk)), strict=True))
            places = [place for place, key in enumerate(keys) if key in reasons]
            if places:
                self.failed.append((number, chunk.take(pa.array(places)), [reasons[keys[place]] for place in places]))

    def error(self, key, error, chunks):
        found = InvalidInput(f"operator `{self.operator.name}`: {type(error).__name__}: {error} for key `{key[0]}`")
        keys = [list(zip(*(column.to_pylist() for column in self.keys_of(chunk)), strict=True)) for chunk in chunks]
        found.chunk = max(number for number, of_chunk in enumerate(keys) if key in of_chunk)
        found.key = repr(key)
        return found

    def keys_of(self, chunk):
        return chunk.columns[: len(self.columns.key)]

    def take_quarantined(self):
        failed, self.failed = self.failed, []
        return failed

    def finish(self):
        return [self.map]

    def metrics(self):
        return {**self.counts, "failure": self.failure}


def with_ports(operator: Pairs, *ports: str) -> Pairs:
    """Return the operator with other names of its inputs."""
    return replace(operator, ports=ports)

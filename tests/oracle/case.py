"""One comparison: the same micro-batches through real Structured Streaming and through Tidemill.

A case is values and two small functions that write the same query twice. Neither engine is started here.
"""

from __future__ import annotations

import io
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

import tidemill as tm
from tidemill.schema import normalise, spark_json
from tidemill.testing import OUTPUT_COLUMNS, Tester

ORIGIN = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Case:
    """`batches`: the rows of each micro-batch, as tuples in the order of `schema` (DDL); None: only time passes."""

    name: str
    schema: str
    batches: Sequence[Sequence[tuple[Any, ...]] | None]
    spark: Callable[[Any], Any]
    """A streaming DataFrame to the query's DataFrame."""
    tidemill: Callable[[Any], tm.Stream]
    """The same query."""
    mode: str = "append"
    digits: int | None = None
    """How many significant digits of a float count; None: all of them."""
    conf: Mapping[str, str] = field(default_factory=dict)
    times_ms: Sequence[int] | None = None
    """The batch time of each micro-batch, which only grows; None: 0, 1000, 2000 …"""
    triggers: Literal["all", "one"] = "all"
    """"all": Spark runs until it has nothing left to do at this time. "one": one trigger a micro-batch, for what makes
    Spark run a micro-batch at every trigger (processing-time timeouts, timers and TTL), so that it is never done."""

    sources: tuple[str, ...] = ()
    """Several: each row's first column says of which source it is, and `spark` and `tidemill` are given lists."""
    streaming: Literal["structured", "dstream"] = "structured"
    """"dstream": `spark` is given the session, and gives the rows and the states of each micro-batch: see `tracked`."""

    @property
    def batch_times_ms(self) -> list[int]:
        """The batch time of each micro-batch, the same for both engines."""
        return list(self.times_ms or range(0, 1000 * len(self.batches), 1000))


Columns = list[list[str]]
"""Name and type of each, the type as Spark's `simpleString` has it, which leaves nullability out."""


@dataclass(frozen=True)
class Outcome:
    """The output of an engine: its columns, and the rows of each micro-batch in the form of `plain`."""

    columns: Columns
    batches: list[list[str]]


def ours(case: Case, tasks: int = 1, engine: str = "local", spark: Any = None) -> Outcome:
    """Return Tidemill's output for each micro-batch, both passes together. The columns are those of the files."""
    p = _pipeline(case)
    _query(p, case)
    tester = Tester(p, engine=engine, tasks=tasks, spark=spark)
    found, written = [], set()
    for rows, at_ms in zip(case.batches, case.batch_times_ms, strict=True):
        given: Any = rows
        if rows is not None and case.sources:
            given = {name: [row for row in rows if row[0] == name] for name in case.sources}
        result = tester.sweep(at_ms) if given is None else tester.batch(given, batch_time_ms=at_ms)
        if case.streaming == "dstream":
            found.append(tracked(result.outputs, result.state))
        else:
            found.append(plain(result.outputs, case.digits))
        written |= set(_written(tester))
        tester.restart()
    (columns,) = written  # all files have the same
    return Outcome(sparks(columns), found)


def declared(case: Case) -> Columns:
    """Return the columns of Tidemill's output without running the query."""
    return sparks(_query(_pipeline(case), case).schema)


def _written(tester: Tester) -> Iterator[pa.Schema]:
    """The columns of the newest version's files, by Parquet's own types, without `_batch_id`."""
    context = tester.repository.opened
    head = context.log.head()
    assert head is not None
    for file in itertools.chain(*head.outputs.values()):
        parquet = pq.ParquetFile(io.BytesIO(context.store.get(file.name))).schema.to_arrow_schema()
        yield normalise(pa.schema([field.with_nullable(True) for field in parquet if field.name not in OUTPUT_COLUMNS]))


def sparks(schema: pa.Schema) -> Columns:
    """The columns as Spark calls their types."""
    from pyspark.sql.types import StructType

    found = StructType.fromJson(json.loads(spark_json(schema)))
    return [[field.name, field.dataType.simpleString()] for field in found]


def _pipeline(case: Case) -> tm.Pipeline:
    return tm.Pipeline("oracle", case.conf.get("spark.sql.session.timeZone", "UTC"))


def _query(p: tm.Pipeline, case: Case) -> tm.Stream:
    streams: list[Any] = [p.read(tm.Rows(case.schema), name=name) for name in case.sources or ("source",)]
    return case.tidemill(streams if case.sources else streams[0])


def plain(rows: Iterable[Sequence[Any]], digits: int | None = None) -> list[str]:
    """Return rows as sorted text, equal for both engines. The result is a multiset, because Spark promises no order."""
    return sorted(repr(tuple(_plain(value, digits) for value in row)) for row in rows)


def tracked(rows: Iterable[Sequence[Any]], states: Mapping[Any, Any]) -> list[str]:
    """Rows with their place among those of the same key (the first column), which is kept, then the states."""
    places: Counter[Any] = Counter()
    lines = []
    for key, *cells in rows:
        lines.append(repr((key, places[key], *cells)))
        places[key] += 1
    return sorted(lines) + sorted(f"state {key!r}: {state!r}" for key, state in states.items())


def _plain(value: Any, digits: int | None = None) -> Any:
    if isinstance(value, datetime):
        at = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return at.astimezone(UTC).isoformat()
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value) if digits is None else f"{value:.{digits}g}"
    if isinstance(value, Decimal | date):
        return str(value)
    if isinstance(value, list) and value and all(type(item) is tuple for item in value):  # a map, as pyarrow gives it
        value = dict(sorted(value, key=repr))
    if isinstance(value, Mapping):  # an empty one is [] in pyarrow
        return {_plain(key) if isinstance(key, datetime) else key: _plain(item) for key, item in value.items()} or []
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def difference(expected: Sequence[str], found: Sequence[str]) -> str:
    """Return the rows that only one side has."""
    lacking = Counter(expected) - Counter(found)
    more = Counter(found) - Counter(expected)
    return f"only Spark: {sorted(lacking.elements())}\nonly Tidemill: {sorted(more.elements())}"

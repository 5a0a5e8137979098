"""Values of nested and further types in functions over frames: in their rows, kept as state, and given back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql.streaming import StatefulProcessor

from tests.oracle.case import Case

TYPES = (
    "items array<int>, words array<string>, counts map<string, int>, part struct<a: int, b: string>, "
    "parts array<struct<a: int, b: string>>, price decimal(12, 3), at timestamp, day date, raw binary, yes boolean"
)
NAMES = ["items", "words", "counts", "part", "parts", "price", "at", "day", "raw", "yes"]
STATE = (
    "part struct<a: int, b: string>, price decimal(12, 3), at timestamp, day date, raw binary, yes boolean, "
    "deep struct<at: timestamp, part: struct<a: int, b: string>, price: decimal(12, 3)>"
)
"""What PySpark can keep in a `GroupState`: it cannot read its own description of arrays and maps there."""
SCHEMA = f"k string, n int, {TYPES}"
OUTPUT = f"k string, said string, {TYPES}"


def values(n: int) -> tuple[Any, ...]:
    """One value for each of `TYPES`; 0: nulls, and collections that hold nulls."""
    if n == 0:
        return ([None], None, {"a": None}, (None, None), [(None, "x"), None], None, None, None, None, None)
    return (
        [n, None, -n] if n % 2 else [],
        ["x", None, f"w{n}"],
        {"a": n, "b": None} if n % 3 else {},
        (n, None if n % 2 else "b"),
        [(n, "x"), (None, None)],
        Decimal(n) / 8,
        datetime(1969, 12, 31, 23, 59, 59, 999_999) + timedelta(seconds=n, microseconds=n),
        date(1969, 12, 30) + timedelta(days=n),
        bytes([n, 0, 255]),
        n % 2 == 0,
    )


def row(k: str | None, n: int) -> tuple[Any, ...]:
    """A row of the input."""
    items, words, counts, part, parts, price, at, *rest = values(n)
    structs = [None if one is None else {"a": one[0], "b": one[1]} for one in (part, *parts)]
    return (k, n, items, words, counts, structs[0], structs[1:], price, at and at.replace(tzinfo=UTC), *rest)


BATCHES = [
    [row("a", 1), row("b", 2), row("b", 3), row("c", 0), row(None, 4)],
    [row("a", 0), row("b", 5), row(None, 6)],
    [row("a", 7), row("b", 0), row("c", 8), row("d", 9)],
    [row("a", 10), row("b", 11), row("c", 12), row("d", 0), row(None, 13)],
]


def seen(frames: list[Any]) -> str:
    """Frames by dtypes and the values in them; arrays as lists, whose type may go by the nulls of other keys."""
    rows = [
        {name: [value.tolist() if isinstance(value, np.ndarray) else value for value in frame[name]] for name in frame}
        for frame in frames
    ]
    return f"{[frame.dtypes.astype(str).to_dict() for frame in frames]} {rows}"


def last(frames: Any) -> tuple[Any, ...]:
    """The values of the last row."""
    return values(int(frames[-1]["n"].iloc[-1]))


def emitted(key: Any, said: str, found: tuple[Any, ...] | None) -> Any:
    """A frame of one row."""
    columns = dict(zip(NAMES, ([value] for value in found or [None] * len(NAMES)), strict=True))
    return pd.DataFrame({"k": [key[0]], "said": [said], **columns})


def kept(key: Any, pdfs: Iterator[Any], state: Any) -> Iterator[Any]:
    """Emit the values of the last row, show the state that it finds, and keep the values that a state can hold.

    Numbers in arrays and maps without nulls: Spark's side of this operator cannot read those.
    """
    frames = list(pdfs)
    made = last(frames)
    struct = dict(zip("ab", made[3], strict=True))
    structs = [one and dict(zip("ab", one, strict=True)) for one in made[4]]
    said = f"{seen(frames)} {state.get if state.exists else None!r}"
    items = [item for item in made[0] if item is not None]
    counts = {name: count for name, count in made[2].items() if count is not None}
    yield emitted(key, said, (items, made[1], counts, struct, structs, *made[5:]))
    state.update((made[3], *made[5:], (made[6], made[3], made[5])))


class Kept(StatefulProcessor):
    """Emits what it finds in a variable, as it is, and keeps the values of the last row in variables of each kind."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", TYPES)
        self.list = handle.getListState("list", TYPES)
        self.map = handle.getMapState("map", "day date, price decimal(12, 3), yes boolean", TYPES)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        frames = list(rows)
        found = self.value.get() if self.value.exists() else None
        others = (sorted(map(repr, self.list.get())), sorted(map(repr, self.map.iterator())))
        yield emitted(key, f"{seen(frames)} {found!r} {others!r}", found)
        made = last(frames)
        self.value.update(made)
        self.list.appendValue(made)
        self.map.updateValue((made[7], made[5], made[9]), made)


def by_function(stream: Any) -> Any:
    return stream.groupBy("k").applyInPandasWithState(kept, OUTPUT, STATE, "update", "NoTimeout")


def by_processor(stream: Any) -> Any:
    return stream.groupBy("k").transformWithStateInPandas(Kept(), OUTPUT, "Update", "None")


BY_POSITION = "k string, part struct<a: int, b: string>, parts map<string, array<struct<a: int, b: string>>>"


def by_position(key: Any, pdfs: Iterator[Any], state: Any) -> Iterator[Any]:
    """Structs as lists, tuples and arrays of their cells, also within arrays and maps."""
    for pdf in pdfs:
        for n in pdf["n"]:
            struct = [[n, "list"], (n, "tuple"), np.array([n, "array"], dtype=object), None][n % 4]
            yield pd.DataFrame({"k": [key[0]], "part": [struct], "parts": [{"x": [struct, [None, "y"]]}]})


def in_structs(stream: Any) -> Any:
    return stream.groupBy("k").applyInPandasWithState(by_position, BY_POSITION, "n int", "update", "NoTimeout")


CASES = [
    Case("groups-pandas-nested", SCHEMA, BATCHES, by_function, by_function, mode="update"),
    Case("processor-frames-nested", SCHEMA, BATCHES, by_processor, by_processor, mode="update"),
    Case(
        "groups-pandas-structs",
        "k string, n int",
        [[("a", 0), ("b", 1), ("b", 2)], [("a", 3), ("c", 4), ("a", 5)]],
        in_structs,
        in_structs,
        mode="update",
    ),
]

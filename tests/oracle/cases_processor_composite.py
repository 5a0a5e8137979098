"""Processors after those of PySpark's own tests that keep and emit nested values, as rows and in pandas frames.

They call variables as PySpark's do: a key of one column may be a bare text of one letter, since Spark asks of keys and
values only that they can be iterated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from tests.oracle.case import Case

READINGS = "id string, temperature int"
BATCHES: list[Any] = [
    [("0", 123), ("0", 46), ("1", 146), ("1", 346)],
    [("0", 123), ("0", 223), ("0", 323), ("1", 246), ("1", 6)],
    [("0", 123), ("1", 6)],
]
THING = (
    "ids array<int>, tags array<array<string>>, notes array<struct<name: string, text: string>>, "
    "places array<struct<number: int, town: string>>"
)
ENTRY = "id int, series map<string, array<int>>, limits map<string, map<string, int>>"
TOLD = "id string, ids string, listed string, series string, limits string"


class Place(NamedTuple):
    number: int
    town: str


TAGS = [["wet", "cold"], ["windy"]]
NOTES = [{"name": "from", "text": "buoy"}, {"name": "sea", "text": "north"}]
PLACES = [Place(1, "Wick"), Place(3, "Ness")]


class Composite(StatefulProcessor):
    """Lists, structs (given as dicts and named tuples) and maps of maps, in a variable of each kind."""

    def init(self, handle: Any) -> None:
        self.thing = handle.getValueState("thing", THING)
        self.things = handle.getListState("things", THING)
        self.entries = handle.getMapState("entries", "name string", ENTRY)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        yield Row("id", "ids", "listed", "series", "limits")(
            *self.cells_of(key[0], sum(row.temperature for row in rows))
        )

    def cells_of(self, name: str, total: int) -> list[str]:
        ids = self.updated(total)
        listed = self.listed(total, (ids, TAGS, NOTES, PLACES))
        _, series, limits = self.entry(name, total)
        return [name, repr(ids), repr(listed), json.dumps(series, sort_keys=True), json.dumps(limits, sort_keys=True)]

    def updated(self, total: int) -> list[int]:
        ids = [0]
        if self.thing.exists():
            before, tags, notes, places = self.thing.get()
            assert tags == TAGS
            assert notes == [Row(**note) for note in NOTES]
            assert places == [Row(number=1, town="Wick"), Row(number=3, town="Ness")]
            ids = [one + total for one in before]
        self.thing.update((ids, TAGS, NOTES, PLACES))
        return ids

    def listed(self, total: int, first: Any) -> list[int]:
        new = [
            ([*ids, total], tags, [note.asDict() for note in notes], places)
            for ids, tags, notes, places in self.things.get()
        ]
        self.things.put(new or [first])
        return [one for ids, *_ in new or [first] for one in ids]

    def entry(self, name: str, total: int) -> Any:
        if self.entries.containsKey(name):
            number, series, limits = self.entries.getValue(name)
            series[name] = [total]
            limits.setdefault("low", {})[name] = total
        else:
            number, series, limits = 0, {"deep": [1], "shallow": [10]}, {"low": {"warn": 5, "stop": 10}}
        self.entries.updateValue(name, (number, series, limits))
        return self.entries.getValue(name)


class CompositeInFrames(Composite):
    """The same with pandas frames, whose sums are numpy's."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        total = sum(frame["temperature"].astype(int).sum() for frame in rows)
        cells = self.cells_of(key[0], total)
        yield pd.DataFrame([cells], columns=["id", "ids", "listed", "series", "limits"])

    def entry(self, name: str, total: Any) -> Any:
        return super().entry(name, int(total))

    def updated(self, total: Any) -> list[int]:
        return [int(one) for one in super().updated(total)]

    def listed(self, total: Any, first: Any) -> list[int]:
        return [int(one) for one in super().listed(total, first)]


INNER = "struct<number: int, share: double, parts: array<string>, words: map<string, string>>"
NESTED = f"one string, list array<string>, map map<string, string>, inners array<{INNER}>, named map<string, {INNER}>"


class CompositeOutput(StatefulProcessor):
    """Counts rows, and emits as many nested values of each kind."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n int")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        yield Row("one", "list", "map", "inners", "named")(*self.counted(key[0], sum(1 for _ in rows)))

    def counted(self, name: str, more: int) -> list[Any]:
        count = (self.count.get()[0] if self.count.exists() else 0) + more
        self.count.update((count,))
        texts = [f"{name} {n}" for n in range(count)]
        inners = [self.inner(n, list(texts[: n + 1])) for n in range(count)]
        numbered = {f"key {n}": text for n, text in enumerate(texts)}
        return [f"{name} of {count}", texts, numbered, inners, {f"inner {n}": one for n, one in enumerate(inners)}]

    def inner(self, number: int, parts: list[str]) -> Any:
        return Row("number", "share", "parts", "words")(number, number * 1.5, parts, dict.fromkeys(parts, "word"))


class CompositeOutputInFrames(CompositeOutput):
    """The same with pandas frames, where a struct is a dict."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        counted = self.counted(key[0], sum(len(frame) for frame in rows))
        yield pd.DataFrame([counted], columns=["one", "list", "map", "inners", "named"])

    def inner(self, number: int, parts: list[str]) -> Any:
        return super().inner(number, parts).asDict()


class Iterated(StatefulProcessor):
    """Use keys and values that are not tuples: texts, bytes, generators, parts of a dict; read what it deleted."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "a string, b string")
        self.list = handle.getListState("list", "n int")
        self.map = handle.getMapState("map", "a string, n int", "n int")
        self.letters = handle.getMapState("letters", "a string", "b string")
        self.gone = handle.getValueState("gone", "n int")
        handle.deleteIfExists("gone")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for n in sorted(row.temperature for row in rows):
            before = self.value.get()
            self.value.update(f"{n % 10}x")
            self.list.appendValue(bytes([n % 7]))
            self.list.appendList([range(n % 3, n % 3 + 1), {n}])
            self.map.updateValue((one for one in ("a", n)), {n: "only its keys count"}.keys())
            self.map.updateValue(iter(["b", n % 2]), map(int, [n]))
            self.letters.updateValue("x", "y")
            has = [self.map.containsKey(["a", n]), self.letters.containsKey("x"), self.letters.containsKey("y")]
            found = self.letters.getValue("x"), self.map.getValue(part for part in ("b", n % 2))
            self.map.removeKey(iter(("b", 1)))
            state = list(self.list.get()), sorted(self.map.iterator()), list(self.letters.keys())
            yield Row(id=key[0], told=repr((before, has, found, state, self.refused())))  # prose: quoted

    def refused(self) -> bool:
        try:
            return self.gone.exists()
        except RuntimeError:
            return True


def readings(name: str, row: Any, frames: Any, output: str) -> list[Case]:
    """The same over rows and, where there is `frames`, over pandas frames."""

    def query(stream: Any) -> Any:
        return stream.groupBy("id").transformWithState(row(), output, "Update", "None")

    def in_frames(stream: Any) -> Any:
        return stream.groupBy("id").transformWithStateInPandas(frames(), output, "Update", "None")

    cases = [Case(f"processor-{name}", READINGS, BATCHES, query, query, mode="update")]
    if frames is not None:
        cases.append(Case(f"processor-frames-{name}", READINGS, BATCHES, in_frames, in_frames, mode="update"))
    return cases


CASES = [
    *readings("composite", Composite, CompositeInFrames, TOLD),
    *readings("composite-output", CompositeOutput, CompositeOutputInFrames, NESTED),
    *readings("iterated-cells", Iterated, None, "id string, told string"),  # prose: quoted
]

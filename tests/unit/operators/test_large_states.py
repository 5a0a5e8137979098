"""Processors with large states: texts of 512 KiB and lists, maps and timers of thousands, kept from batch to batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

import tidemill as tm
from tidemill.testing import Tester

TEXT = "a" * (512 * 1024)
MANY = 2_000


class Texts(tm.StatefulProcessor):
    """Adds a long text to each kind of variable in every batch, and emits all that there was before."""

    def __init__(self, form: str) -> None:
        self.form = form

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "text string, bytes binary")
        self.list = handle.getListState("list", "text string")
        self.map = handle.getMapState("map", "text string", "text string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        (n,) = [n for rows in rows for n in (rows["n"] if self.form == "frames" else [rows.n])]
        value = self.value.get() or ("", b"")
        fields = {
            "k": key[0],
            "value": value[0],
            "bytes": value[1],
            "list": "".join(text for (text,) in self.list.get()),
            "map": "".join(text + other for (text,), (other,) in self.map.iterator()),
        }
        self.value.update((f"{TEXT}{n}", f"{TEXT}{n}".encode()))
        assert self.value.get() == (f"{TEXT}{n}", f"{TEXT}{n}".encode())
        self.list.put([(TEXT,), (f"{TEXT}{n}",)])
        self.list.appendValue((TEXT,))
        self.map.updateValue((f"{TEXT}{n}",), (TEXT,))
        assert self.map.containsKey((f"{TEXT}{n}",)) and self.map.getValue((f"{TEXT}{n}",)) == (TEXT,)
        yield pd.DataFrame([fields]) if self.form == "frames" else fields


class Thousands(tm.StatefulProcessor):
    """The same with many elements, entries and timers."""

    def __init__(self, form: str) -> None:
        self.form = form

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.put = handle.getListState("put", "n int, nothing int")
        self.grown = handle.getListState("grown", "n int, nothing int")
        self.map = handle.getMapState("map", "n int", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        assert len(list(rows)) == 1
        put, grown = list(self.put.get()), list(self.grown.get())
        assert put == grown == [(n, None) for n in range(len(put))]
        assert list(self.map.iterator()) == [((n,), (-n,)) for n in range(len(put))]
        assert list(self.handle.listTimers()) == [10**12 + n for n in range(len(put))]
        last = len(put) + MANY
        self.put.put([(n, None) for n in range(last)])
        self.grown.appendList([(n, None) for n in range(len(put), last - 1)])
        self.grown.appendValue((last - 1, None))
        for n in range(len(put), last):
            self.map.updateValue((n,), (-n,))
            self.handle.registerTimer(10**12 + n)
        assert sum(1 for _ in self.put.get()) == sum(1 for _ in self.grown.get()) == last
        yield pd.DataFrame({"n": [len(put)]}) if self.form == "frames" else (len(put),)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        n = expiredTimerInfo.getExpiryTimeInMs() - 10**12
        yield pd.DataFrame({"n": [-n]}) if self.form == "frames" else (-n,)


def fed(processor: Any, output: str, mode: str = "None") -> Tester:
    p = tm.Pipeline("large")
    grouped = p.read(tm.Rows("k string, n int")).groupBy("k")
    method = grouped.transformWithState if processor.form == "rows" else grouped.transformWithStateInPandas
    method(processor, output, "update", mode)
    return Tester(p)


@pytest.mark.parametrize("form", ["rows", "frames"])
def test_texts_and_bytes_of_half_a_mebibyte_are_stored(form: str) -> None:
    t = fed(Texts(form), "k string, value string, bytes binary, list string, map string")
    assert sorted(t.batch([("a", 1), ("b", 2)]).outputs) == [("a", "", b"", "", ""), ("b", "", b"", "", "")]
    t.restart()
    for (k, *found), n in zip(sorted(t.batch([("a", 3), ("b", 4)]).outputs), (1, 2), strict=True):
        texts = [f"{TEXT}{n}", f"{TEXT}{n}".encode(), f"{TEXT}{TEXT}{n}{TEXT}", f"{TEXT}{n}{TEXT}"]
        assert found == texts, k


@pytest.mark.parametrize("form", ["rows", "frames"])
def test_thousands_of_elements_entries_and_timers_stay_in_order(form: str) -> None:
    t = fed(Thousands(form), "n int", "ProcessingTime")
    for number in range(3):
        assert t.batch([("a", 0)]).outputs == [(number * MANY,)]
        t.restart()
    assert [n for (n,) in t.sweep(10**12 + 9).outputs] == [-n for n in range(10)]

"""`transformWithStateInPandas`: the frames that a processor is given, and those that it gives back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.operators.processors import Processor
from tidemill.errors import InvalidInput
from tidemill.testing import Tester


def in_frames(rows: Any, output: Any = "k string, n bigint") -> Tester:
    p = tm.Pipeline("p")
    stream = p.read(tm.Rows("k string, n int, ts timestamp, flag boolean"))
    stream.groupBy("k").transformWithStateInPandas(Processor(rows=rows), output, "update", "None")
    return Tester(p)


def test_frames_have_the_types_that_pyspark_gives_them():
    def rows(self, key, frames):
        for frame in frames:
            kinds = [f"{name} {kind}" for name, kind in frame.dtypes.items()]
            yield pd.DataFrame({"k": [f"{key} {len(frame)} {frame.index.tolist()} {kinds}"], "n": [1]})

    t = in_frames(rows)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    found = t.batch([("a", 1, at, True), ("b", 1, None, None), ("a", None, None, None), ("b", 2, at, False)]).outputs
    assert sorted(text for text, _ in found) == [
        "('a',) 2 [0, 1] ['k object', 'n float64', 'ts datetime64[ns]', 'flag object']",
        "('b',) 2 [0, 1] ['k object', 'n int64', 'ts datetime64[ns]', 'flag object']",
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda *_: pd.DataFrame(), "found a `DataFrame`, expected an iterator of pandas.DataFrame"),
        (lambda *_: None, "found a `NoneType`, expected an iterator of pandas.DataFrame"),
        (lambda *_: iter([3]), "found an iterator of `int`, expected an iterator of pandas.DataFrame"),
        (lambda *_: iter([pd.DataFrame({"k": ["a"]})]), "columns (k object), expected (k string, n bigint)"),
        (lambda *_: iter([pd.DataFrame({"k": ["a"], "n": ["x"]})]), "column `n` is `object`, expected `bigint`"),
    ],
)
def test_frames_that_do_not_fit_are_reported_with_method_operator_and_key(answer, message):
    with pytest.raises(InvalidInput) as caught:
        in_frames(answer).batch([("a", 1, None, None)])
    text = str(caught.value)
    assert text.startswith(
        "cannot emit the result of method `handleInputRows` of operator `transform-with-state-in-pandas` for key "
        "`('a',)`: "
    )
    assert message in text


def test_frames_are_cut_at_so_many_rows_and_an_initial_state_is_one_frame():
    class Lengths(Processor):
        def init(self, handle):
            self.seed = handle.getValueState("seed", "n bigint")

        def handleInitialState(self, key, initialState, timerValues):
            self.seed.update((int(initialState["v"].sum()),))

        def handleInputRows(self, key, rows, timerValues):
            yield pd.DataFrame({"k": key, "n": [self.seed.get()[0]]})
            for frame in rows:
                yield pd.DataFrame({"k": key, "n": [len(frame)]})

    p = tm.Pipeline("p")
    initial = pa.table({"k": ["a", "a"], "v": [3, 4]})
    p.read(tm.Rows("k string")).groupBy("k").transformWithStateInPandas(
        Lengths(), "k string, n bigint", "update", "None", initialState=initial
    )
    assert [n for _, n in Tester(p).batch([("a",)] * 10_001).outputs] == [7, 10_000, 1]

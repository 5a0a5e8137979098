"""The initial state of a processor: when and in which order it is handed over."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.operators.processors import Processor, declared
from tidemill.errors import InvalidInput
from tidemill.testing import Tester


class Seeded(Processor):
    """Tells what `handleInitialState` was given."""

    def init(self, handle):
        super().init(handle)
        self.list = handle.getListState("seeds", "text string")

    def handleInitialState(self, key, initialState, timerValues):
        self.list.appendValue((repr((key, initialState)),))

    def handleInputRows(self, key, rows, timerValues):
        return list(self.list.get())


def seeded(**columns):
    return declared(Seeded(), initialState=pa.table(columns))


def test_the_initial_state_is_handed_over_in_the_first_batch_in_the_order_it_was_given():
    many = {"k": ["a"] * 300 + ["b"], "row": list(range(301))}
    t = Tester(seeded(**many))
    assert len(t.batch([("c", 1, None)]).outputs) == 0
    assert t.repository.state(variable="initial").num_rows == 0
    t.restart()
    found = t.batch([("a", 1, None), ("b", 1, None)]).outputs
    assert found[:2] == [(f"(('a',), Row(k='a', row={n}))",) for n in (0, 1)] or found[0][0].startswith("(('b',)")
    assert sorted(found) == sorted((f"(('{k}',), Row(k='{k}', row={n}))",) for k, n in zip(*many.values(), strict=True))
    assert [row for row in found if "'a'" in row[0]] == [(f"(('a',), Row(k='a', row={n}))",) for n in range(300)]


def test_an_initial_state_may_be_given_to_init_instead():
    t = Tester(seeded(row=[1], k=["a"]))
    t.repository.init(initial_state={"transform-with-state": pa.table({"k": ["b"], "row": [2]})})
    t.batch([])
    assert set(t.batch([("a", 1, None), ("b", 1, None)]).outputs) == {("(('b',), Row(row=2, k='b'))",)}


def test_an_exception_of_handle_initial_state_is_raised():
    class Failing(Seeded):
        def handleInitialState(self, key, initialState, timerValues):
            raise ValueError("no")

    t = Tester(declared(Failing(), initialState=pa.table({"k": ["a"], "n": [1]})))
    with pytest.raises(InvalidInput, match="method `handleInitialState` of operator `transform-with-state` raised"):
        t.batch([])


@pytest.mark.parametrize("form", ["rows", "frames"])
def test_the_output_of_a_processor_with_an_initial_state_can_be_transformed(form, tmp_path):
    class Sum(Processor):
        def init(self, handle):
            self.sum = handle.getValueState("sum", "n bigint")

        def handleInitialState(self, key, initialState, timerValues):
            self.sum.update((int(initialState["n"].sum() if form == "frames" else initialState.n),))

        def handleInputRows(self, key, rows, timerValues):
            ids = [id for rows in rows for id in (rows["id"] if form == "frames" else [rows.id])]
            self.sum.update(((self.sum.get() or (0,))[0] + int(sum(ids)),))
            fields = {"k": key[0], "n": self.sum.get()[0]}
            yield pd.DataFrame([fields]) if form == "frames" else fields

    p = tm.Pipeline("p")
    grouped = p.read(tm.Rows("k string, id int")).groupBy("k")
    method = grouped.transformWithState if form == "rows" else grouped.transformWithStateInPandas
    initial = pa.table({"k": ["a", "c"], "n": [789, 987]})
    summed = method(Sum(), "k string, n bigint", "update", "None", initialState=initial)
    summed.sql("SELECT k AS key, 'n=' || n AS text FROM rows").write(tm.Json(str(tmp_path)), name="texts")
    t = Tester(p)
    assert sorted(t.batch([("a", 123), ("a", 46), ("b", 146)]).outputs) == [("a", "n=958"), ("b", "n=146")]
    assert sorted(t.batch([("a", 67), ("c", 12)]).outputs) == [("a", "n=1025"), ("c", "n=999")]

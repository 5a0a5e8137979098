"""The initial state of a processor: when and in which order it is handed over."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.processors import Processor, declared
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


def test_what_handle_initial_state_raises_is_told():
    class Failing(Seeded):
        def handleInitialState(self, key, initialState, timerValues):
            raise ValueError("no")

    t = Tester(declared(Failing(), initialState=pa.table({"k": ["a"], "n": [1]})))
    with pytest.raises(InvalidInput, match="method `handleInitialState` of operator `transform-with-state` raised"):
        t.batch([])

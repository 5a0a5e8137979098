"""A new operator or verb is one new file and one line: shown with a test-only one of each."""

from __future__ import annotations

import pytest

import tidemill as tm
from tests.seams.count_keys import count_keys
from tests.seams.latest import Latest
from tidemill.testing import Tester


@pytest.fixture
def with_additions(monkeypatch):
    monkeypatch.setattr(tm.GroupedStream, "latest", lambda g, value, name: g.add(Latest(name, value)), raising=False)
    monkeypatch.setattr(tm.Repository, "count_keys", lambda r, *a: count_keys(r.opened, *a), raising=False)


def pipeline():
    p = tm.Pipeline("seams")
    rows = p.read(tm.Rows("k string, v int"))
    latest = rows.groupBy("k").latest("v", name="latest")
    latest.groupBy("v").agg(keys=tm.count(), name="by-value")
    return p


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_new_operator_is_planned_applied_committed_chained_and_read(with_additions, tasks):
    t = Tester(pipeline(), tasks=tasks)
    t.batch([("a", 1), ("b", 2), ("a", 3)])
    t.restart()
    result = t.batch([("b", 3), ("c", 1)])
    assert {key: row.v for key, row in result.state["latest"].items()} == {"a": 3, "b": 3, "c": 1}
    assert {key: row[0] for key, row in result.state["by-value"].items()} == {3: 2, 2: 1, 1: 1}
    assert t.repository.head.schemas["latest"]["kind"] == "test-latest"


def test_a_new_verb_reads_any_version(with_additions):
    t = Tester(pipeline())
    t.batch([("a", 1)])
    t.batch([("b", 1)])
    assert (t.repository.count_keys("latest", 0), t.repository.count_keys("latest")) == (1, 2)

"""A new operator, verb or sink is one new file and one line: shown with a test-only one of each."""

from __future__ import annotations

import pytest

import tidemill as tm
from tests.seams.count_keys import count_keys
from tests.seams.journal import Journal, rows
from tests.seams.latest import Latest
from tidemill.testing import Tester


@pytest.fixture
def with_additions(monkeypatch):
    monkeypatch.setattr(tm.GroupedStream, "latest", lambda g, value, name: g.add(Latest(name, value)), raising=False)
    monkeypatch.setattr(tm.Repository, "count_keys", lambda r, *a: count_keys(r.context, *a), raising=False)


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


def test_a_new_sink_publishes_each_version_once_as_recorded_in_the_commit(tmp_path):
    place = tmp_path / "journal"

    def opened(*, with_sink):
        p = tm.Pipeline("journal")
        counted = p.read(tm.Files(str(tmp_path / "in"), format="csv", schema="k string")).groupBy("k")
        counted = counted.agg(n=tm.count(), name="counted")
        if with_sink:
            counted.write(Journal(str(place)), name="journal")
        return tm.open(p, root=str(tmp_path / "root"))

    (tmp_path / "in").mkdir()
    for number, with_sink in enumerate((True, True, False)):
        (tmp_path / "in" / f"{number}.csv").write_text("a\n")
        repository = opened(with_sink=with_sink)
        repository.init()
        repository.run(engine="local")
    assert rows(place).drop_columns(["_seq"]).to_pylist() == [
        {"k": "a", "n": 1, "_batch_id": 0},
        {"k": "a", "n": 2, "_batch_id": 1},
    ]
    assert repository.commit(1).sinks["journal"]["kind"] == "test-journal"
    assert repository.outputs(sink="journal").to_pylist() == rows(place).to_pylist()

"""The crash matrix for every operator: some writes of a drain fail, the ways to fail in turn.

`test_matrix.py` has every way, for two operators.
"""

from __future__ import annotations

import itertools

import pytest

import tidemill as tm
from tests.crash.test_matrix import EFFECTS, TASKS, drain, fresh, next_process
from tests.exhaustive import EXHAUSTIVE
from tests.model.every_operator import FRAMES, OPERATORS, frames_pipeline, make_files, pipeline, results
from tidemill.store.fault import Crash, Fault, FaultStore

pytestmark = pytest.mark.slow("interrupt a run at every step", seconds=80)

FILES, ROWS = 2, 14


@pytest.fixture
def folder(tmp_path):
    return make_files(tmp_path / "data", FILES, ROWS)


def seen(folder, store, monkeypatch, made):
    """Return what a user sees after one more run, which repairs missing files."""
    repository = drain(folder, store, monkeypatch, made)
    published = store.at("published")
    files = {entry.name.rsplit("-", 2)[0]: published.get(entry.name) for entry in published.list("")}
    return results(repository) | {"version": repository.head.version, "published": files}


PIPELINES = {"all": (pipeline, OPERATORS, 1 if EXHAUSTIVE else 5), "frames": (frames_pipeline, FRAMES, 5)}
"""The pipeline, its operators, and at every how many writes one fails. Each of the six ways comes in turn."""


@pytest.mark.parametrize(("made", "operators", "step"), PIPELINES.values(), ids=list(PIPELINES))
def test_recovery_equals_an_undisturbed_run(folder, monkeypatch, made, operators, step):
    undisturbed = fresh()
    store = FaultStore(undisturbed)
    drain(folder, store, monkeypatch, made)
    writes, expected = store.writes, seen(folder, next_process(store, undisturbed), monkeypatch, made)
    assert expected["version"] == FILES - 1 and len(expected["published"]) >= FILES
    written = "\n".join(write.name for write in writes)
    assert {name for name in operators if written.count(f"state/{name}/") < TASKS} == set(), written
    effects = itertools.cycle(EFFECTS)
    for at, effect in itertools.islice(zip(range(1, len(writes) + 1), effects, strict=False), 0, None, step):
        inner = fresh()
        store = FaultStore(inner, [Fault(at, effect)])
        try:
            drain(folder, store, monkeypatch, made)
        except (Crash, tm.StoreUnavailable):
            pass
        else:
            assert effect not in ("before", "after"), f"nothing failed at write {at}"
        found = seen(folder, next_process(store, inner), monkeypatch, made)
        for part, value in expected.items():
            assert found[part] == value, f"{part} differs after `{effect}` at write {at}: {writes[at - 1]}"

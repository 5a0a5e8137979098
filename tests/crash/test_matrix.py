"""The crash matrix: a drain is run again, and one of its writes fails, in one of the ways a write can fail.

After recovery state, outputs, ledger and published files equal those of an undisturbed run. The root and the sink's
folder are in one fault store, so that publishing is in the matrix too. Maps and output files of a task are stored at
once, so a number may be another of these writes in another run. The same runs on a store that answers several requests
at once. An exhaustive run tries each write in each way, the usual one a sample, with most creates of records.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

import tidemill as tm
from tests.exhaustive import failing
from tidemill.sinks import files as sink_files
from tidemill.sinks import folder as sink_folder
from tidemill.store import open_store
from tidemill.store.fault import Crash, Fault, FaultStore

pytestmark = pytest.mark.slow("interrupt a run at every step")

BATCHES, TASKS = 3, 2


def silence(batch_time, user, row, state):
    if state.isTimingOut:
        return (user, state.get, True)
    state.update((state.getOption or 0) + row.n)
    return (user, state.get, False)


def pipeline(folder: Path) -> tm.Pipeline:
    p = tm.Pipeline("matrix")
    p.batch_time(lambda plan: 1_000 * int(Path(plan.splits[-1].path).stem))
    rows = p.read(
        tm.Files(str(folder), format="json", schema="user string, n int, ts timestamp", mode="PERMISSIVE",
                 maxFilesPerTrigger=1)
    ).withWatermark("ts", "1 second")  # fmt: skip
    rows.groupBy("user").mapWithState(
        tm.StateSpec.function(silence).timeout("1 second", clock="event"),
        stateSchema="long", outputSchema="user string, n long, closed boolean", name="users",
    ).write(tm.Parquet("memory://published"))  # fmt: skip
    rows.groupBy("n").agg(users=tm.count(), name="by-n")
    return p


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(BATCHES):
        rows = [{"user": f"u{(number + i) % 5}", "n": i, "ts": f"2024-01-01T00:00:{number * 3:02d}"} for i in range(4)]
        lines = [json.dumps(row) for row in rows] + ["not json"]
        (tmp_path / f"{number:04d}.json").write_text("\n".join(lines) + "\n")
    return tmp_path


def drain(folder, store, monkeypatch, made=pipeline):
    """Run the pipeline of `made` once, with root and sink inside `store`."""
    for module in (sink_files, sink_folder):
        monkeypatch.setattr(module, "folder_store", lambda path, options: store.at("published"))
    repository = tm.open(made(folder), root=store.at("root").uri)
    repository.init()
    repository.run(engine="local", tasks=TASKS)
    return repository


def seen(folder, store, monkeypatch):
    """Everything that a user can see, after one more run that must find nothing left to do but repairs."""
    repository = drain(folder, store, monkeypatch)
    head = repository.head
    published = store.at("published")
    files = sorted(entry.name for entry in published.list(""))
    return {
        "version": head.version,
        "users": sorted(repository.state("users").drop_columns(["updated_at"]).to_pylist(), key=str),
        "by-n": sorted(repository.state("by-n").to_pylist(), key=str),
        "outputs": [repository.outputs(v, "users").to_pylist() for v in range(BATCHES)],
        "quarantine": repository.quarantine().to_pylist(),
        "ledger": sorted(map(str, repository.opened.ledger(head).map.scan().to_pylist())),
        "counts": [commit.counts for commit in repository.commits()],
        "watermarks": [commit.watermarks for commit in repository.commits()],
        "published": {name.rsplit("-", 2)[0]: published.get(name) for name in files},
    }


def fresh():
    return open_store(f"memory://{uuid.uuid4().hex}")


class AsOnS3(FaultStore):
    """A store that answers several requests at once, so that a run makes them side by side."""

    requests_at_once = 4


def next_process(store, inner):
    """The same place, as a process sees it that starts after the one of `store` died."""
    return type(store)(inner, key=store.key)


def writes_of_an_undisturbed_run(folder, monkeypatch, kind):
    inner = fresh()
    store = kind(inner)
    drain(folder, store, monkeypatch)
    return store.writes, seen(folder, next_process(store, inner), monkeypatch)


EFFECTS = ("before", "after", "torn", "lost", "refused", "late")


@pytest.mark.parametrize("kind", [FaultStore, AsOnS3])
@pytest.mark.parametrize("effect", EFFECTS)
def test_recovery_equals_an_undisturbed_run_for_a_write(folder, monkeypatch, effect, kind):
    writes, expected = writes_of_an_undisturbed_run(folder, monkeypatch, kind)
    verbs = {write.verb for write in writes}
    assert {"put", "create", "put_hint"} <= verbs and len(writes) > 25
    assert expected["version"] == BATCHES - 1 and len(expected["published"]) > BATCHES
    failed = 0
    number = 4 if kind is AsOnS3 else 18 if effect in ("before", "after") else 8
    tried = failing(writes, [effect], number)
    for at, _ in tried:
        inner = fresh()
        store = kind(inner, [Fault(at, effect)])
        try:
            drain(folder, store, monkeypatch)
        except (Crash, tm.StoreUnavailable):
            failed += 1
        found = seen(folder, next_process(store, inner), monkeypatch)
        for part, value in expected.items():
            assert found[part] == value, f"{part} differs after `{effect}` at write {at}: {writes[at - 1]}"
    if effect in ("before", "after"):
        assert failed == len(tried)

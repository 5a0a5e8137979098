"""`tidemill status`, for people and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tidemill as tm
from tests.journeys.sales import PIPELINE, objects, sold
from tests.world import World, run
from tidemill import names
from tidemill.cli.exits import Exit
from tidemill.cli.main import main
from tidemill.errors import StoreUnavailable


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pipeline `sales.py` at version 1, and one file waiting."""
    return sold(tmp_path_factory.mktemp("sales"))


@pytest.fixture
def call(home: Path, capfd: pytest.CaptureFixture[str]):
    """Calls the command line on `sales.py`; gives exit status, stdout and stderr."""

    def run(verb: str, *options: str) -> tuple[int, str, str]:
        capfd.readouterr()
        return main([verb, f"{home / 'sales.py'}:p", "--root", str(home / "root"), *options]), *capfd.readouterr()

    return run


def test_status_shows_the_newest_version_its_state_and_the_waiting_files(call):
    status, out, err = call("status", "--json")
    (found,) = objects(out)
    assert (status, err) == (Exit.DONE, "")
    assert {name: found[name] for name in ("pipeline", "branch", "head", "kind", "batch_time", "waiting_files")} == {
        "pipeline": "sales",
        "branch": "main",
        "head": 1,
        "kind": "batch",
        "batch_time": "1970-01-01T00:00:02.000Z",
        "waiting_files": {"source": 1},
    }
    assert found["operators"]["by-item"] == {"kind": "aggregate", "key": ["shop", "item"], "keys": 3}
    assert found["operators"]["by-shop"]["keys"] == 2
    assert found["published_through"] == 1


def test_status_shows_a_plan_that_fails_each_time(tmp_path, capfd):
    (tmp_path / "sales.py").write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("shop,item,price,at\nBonn,one,1.50,\n")
    target = [f"{tmp_path / 'sales.py'}:p", "--root", str(tmp_path / "root")]
    assert main(["init", *target]) == Exit.DONE
    assert main(["run", *target, "--engine", "local"]) == Exit.FAILED
    capfd.readouterr()
    assert main(["status", *target]) == Exit.DONE
    shown = " ".join(capfd.readouterr().out.split())
    assert (
        "plan version 0, 1 file: in progress or failed; the next run retries it, `tidemill replan` abandons it" in shown
    )
    assert main(["replan", *target, "--reason", "a bad cell", "--dry-run"]) == Exit.DONE
    assert capfd.readouterr().out.splitlines() == [
        "the plan of version 0 (1 file) ends; the next run plans the files that are there then",
        "dry run: nothing was changed",
    ]
    assert main(["replan", *target, "--reason", "a bad cell"]) == Exit.DONE
    capfd.readouterr()
    assert main(["status", *target, "--json"]) == Exit.DONE
    assert json.loads(capfd.readouterr().out)["planned"] is None


@pytest.fixture
def planned(tmp_path):
    """A repository whose first plan, over files of the same name from two sources, is written and not committed."""
    fails = tmp_path / "fails"

    def failing(rows):
        if fails.exists():
            raise ValueError("not yet")
        return rows

    def build(p, world):
        both = world.read(p, "left", "left").unionByName(world.read(p, "right", "right"))
        both.map_batches(failing, "k int").groupBy("k").agg(n=tm.count(), name="counts")

    world = World(tmp_path, build, schema="k int", maxFilesPerTrigger=None)
    for name in ("left", "right"):
        world.arrive("1\n", "2\n", inbox=name)
    fails.touch()
    with pytest.raises(tm.InvalidInput, match="not yet"):
        world.run()
    fails.unlink()
    return world.open()


def test_files_of_one_name_are_counted_by_source(planned):
    found = planned.status()
    assert (found.planned, found.problem) == ({"version": 0, "files": 4}, None)


def test_status_shows_no_plan_if_another_run_commits_it(planned, monkeypatch):
    log, other = planned.opened.log, tm.open(planned.opened.pipeline, root=planned.opened.root)
    read = log.plan

    def after_a_run(number, parent):
        assert run(other) == [number]
        return read(number, parent)

    monkeypatch.setattr(log, "plan", after_a_run)
    assert planned.status().planned is None


def test_a_plan_that_cannot_be_read_is_a_problem(planned):
    context = planned.opened
    context.store.put(names.plan("main", 0), b"{}")
    found = planned.status()
    assert (found.head, found.planned, found.waiting_files) == (-1, None, {"left": 2, "right": 2})
    assert found.problem.startswith("cannot read the plan of version 0: ")


def test_a_plan_that_the_store_cannot_return_is_a_problem(planned, monkeypatch):
    def unavailable(number, parent):
        raise StoreUnavailable(f"read plan {number}: no answer")

    monkeypatch.setattr(planned.opened.log, "plan", unavailable)
    found = planned.status()
    assert (found.planned, found.problem) == (None, "cannot read the plan of version 0: read plan 0: no answer")


def test_status_for_people_has_a_line_for_each_fact(call):
    status, out, _ = call("status")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert status == Exit.DONE
    for expected in (
        "pipeline sales",
        "head version 1, a batch",
        "batch time 1970-01-01T00:00:02.000Z",
        "last batch 2 rows, 2 applied, 0 late, 0 quarantined, 1 file",
        "waiting source 1 file",
        "published through version 1",
    ):
        assert expected in lines
    assert any(line.endswith("by-shop aggregate by shop: 2 keys") for line in lines)


def test_status_of_a_repository_without_a_batch(home, tmp_path, capfd):
    target = [f"{home / 'sales.py'}:p", "--root", str(tmp_path / "root")]
    assert main(["init", *target]) == Exit.DONE
    assert main(["status", *target]) == Exit.DONE
    assert "version -1, no batch yet" in capfd.readouterr().out


def test_status_shows_why_the_next_batch_cannot_be_planned(home, tmp_path, capfd):
    place = tmp_path / "in"
    place.mkdir()
    (place / "1.csv").write_text("Bonn,1\n")
    job = tmp_path / "job.py"
    job.write_text(
        "import tidemill as tm\np = tm.Pipeline('sales')\n"
        f"rows = p.read(tm.Files({str(place)!r}, format='csv', schema='shop string, item int'))\n"
        "rows.groupBy('shop').agg(n=tm.count(), name='by-shop')\n"
    )
    target = [f"{job}:p", "--root", str(tmp_path / "root")]
    assert main(["init", *target]) == Exit.DONE
    assert main(["run", *target, "--engine", "local"]) == Exit.DONE
    (place / "1.csv").write_text("Bonn,1\nBonn,2\n")
    capfd.readouterr()
    assert main(["status", *target, "--json"]) == Exit.DONE
    (found,) = objects(capfd.readouterr().out)
    assert found["head"] == 0
    assert "`1.csv` of source `source` was modified after it was read" in found["problem"]
    assert main(["status", *target]) == Exit.DONE
    assert "was modified after it was read" in capfd.readouterr().out

"""A real Airflow: PostgreSQL, API server, scheduler, DAG processor and triggerer, with real pipelines.

Most of the facts only wait for Airflow, so they are checked side by side (`TOGETHER`). Those that kill a server come
after them, while the pipeline `cadence` runs on. At the end every repository equals what DuckDB computes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.airflow.facts import TOGETHER, sweep_that_fired, waiting_sweep
from tests.airflow.production import COUNTING, DAGS, PYTHONPATH, Production, build
from tests.airflow.side_by_side import SideBySide
from tests.servers.airflow_servers import KILLS, AirflowServers, missing, wait_until

pytestmark = pytest.mark.servers("run an Airflow scheduler", seconds=400)

SETTINGS = {
    **KILLS,
    # With other tests on the same cores, a healthy task or scheduler may be late.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "20",
    "AIRFLOW__CORE__PARALLELISM": "8",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
    "PYTHONPATH": PYTHONPATH,
}
BOUND_S = 1200
"""After so long all servers are stopped, and what still waits for them fails: twenty minutes at most, in all."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, fake_folder: Path) -> Iterator[Production]:
    """The servers. Files arrive for `cadence` as long as they run."""
    if found := missing():
        pytest.skip(found)
    home = tmp_path_factory.mktemp("scheduled")
    places = build(home, fake_folder)
    last_file = threading.Event()

    def arrive() -> None:
        for number in itertools.count():
            places["cadence"].add(f"{number:04}.csv", (number % 7, number), (number % 3, 1))
            if last_file.wait(4):
                return

    with AirflowServers(home, SETTINGS) as servers:
        bound = threading.Timer(BOUND_S, servers.stop)
        bound.daemon = True
        bound.start()
        servers.wait(DAGS)
        files = threading.Thread(target=arrive)
        files.start()
        try:
            yield Production(servers, places, last_file)
        finally:
            bound.cancel()
            last_file.set()
            files.join()


@pytest.fixture(scope="module")
def together(world: Production, request: pytest.FixtureRequest) -> Iterator[SideBySide[Production]]:
    """All facts that do not disturb each other, or those that were asked for."""
    asked = {item.callspec.params.get("fact") for item in request.session.items if hasattr(item, "callspec")}
    run = SideBySide([fact for fact in TOGETHER if fact in asked], world, threads=5)
    yield run
    run.stop()


@pytest.mark.parametrize("fact", TOGETHER, ids=lambda fact: fact.__name__)
def test_side_by_side(together: SideBySide[Production], fact: Callable[[Production], None]) -> None:
    together.result(fact)


def test_new_files_start_one_run_and_another_triggerer_goes_on_with_files_and_sweeps(world: Production) -> None:
    place, servers = world.places["arrivals"], world.servers

    def watchers() -> list[int]:
        return [number for (number,) in servers.query("SELECT id FROM trigger WHERE classpath LIKE '%NewFiles%'")]

    wait_until(lambda: len(watchers()) == 1, "Airflow watches")
    (watcher,) = watchers()
    place.add("a.csv", (1, 1))
    wait_until(lambda: [one["state"] for one in servers.runs("arrivals")] == ["success"], "the file starts a run")
    (run,) = servers.runs("arrivals")
    assert (run["run_type"], place.version) == ("asset_triggered", 0)
    path = f"/api/v2/dags/arrivals/dagRuns/{run['dag_run_id']}/upstreamAssetEvents"
    (event,) = servers.call("GET", path)["asset_events"]
    assert event["uri"] == "tidemill://arrivals/_new-files"
    assert event["extra"]["payload"] == {"pipeline": "arrivals", "branch": "main", "files": 1, "sources": {"source": 1}}

    _, sweep = waiting_sweep(world, key=2)
    place.hold()
    place.add("b.csv", (2, 999))
    wait_until(place.holding, "the run of the second file is in the middle of its batch")
    servers.kill("triggerer")
    place.add("c.csv", (3, 1))
    servers.start_one("triggerer")
    asset = "tidemill://arrivals/_new-files"

    def announced() -> list[int]:
        events = servers.call("GET", "/api/v2/assets/events?limit=100&order_by=timestamp")["asset_events"]
        return [one["extra"]["payload"]["files"] for one in events if one["uri"] == asset]

    wait_until(lambda: len(announced()) == 3, "another triggerer sees what came meanwhile")
    assert announced() == [1, 1, 1], "it knows what the first one announced"
    place.release()
    wait_until(lambda: [one["state"] for one in servers.runs("arrivals")] == ["success"] * 3, "both files start runs")
    assert watchers() == [watcher], "a parse of the DAG file leaves the trigger as it is"
    world.ends("silent__sweep", sweep)
    sweep_that_fired(world, key=2)


def test_killed_scheduler_is_replaced_and_the_batch_of_its_task_is_committed_once(world: Production) -> None:
    place, servers = world.places["scheduler"], world.servers
    world.held("scheduler", "orphan")
    servers.kill_between_transactions("scheduler")
    servers.start_one("scheduler")
    wait_until(lambda: servers.task("scheduler", "orphan")["try_number"] == 2, "another scheduler resets the task")
    place.release()
    world.ends("scheduler", "orphan")
    assert place.version == 0


def test_at_the_end_every_repository_equals_duckdb(world: Production) -> None:
    servers, cadence = world.servers, world.places["cadence"]
    runs = len(servers.runs("cadence"))
    wait_until(lambda: len(servers.runs("cadence")) > runs, "the cadence goes on after all kills")
    world.last_file.set()
    wait_until(lambda: sum(cadence.open().status().waiting_files.values()) == 0, "the cadence reads the last file")
    wait_until(lambda: {one["state"] for one in servers.runs("cadence")} == {"success"}, "all its runs succeed")
    assert {one["run_type"] for one in servers.runs("cadence")} == {"scheduled"}
    for name in COUNTING:
        if list((world.places[name].folder / "in").iterdir()):
            world.places[name].check(factor=2 if name == "shop" else 1)
            seen = (world.places[name].folder / "seen").read_text()
            assert seen == "", "a command sees no setting of Airflow"

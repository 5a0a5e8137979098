"""Measure how soon a real Airflow commits: PostgreSQL, API server, scheduler, DAG processor and triggerer.

    python benchmarks/airflow_figures.py [--runs 9] [--spark 3] [--kills 3] [--batches 100] [--submits 5]

Prints medians from the trigger, the arrival of a file or `kill -9` to the commit, and the duration of a task that finds
nothing to do. At the end one run drains many micro-batches of 10,000 rows, beside a `spark-submit` for each of them: as
many as `--submits` are measured, and the time is scaled to all. The time of a commit is that of its object. The states
must equal DuckDB's sums. No time makes the program fail. `make setup` installs PostgreSQL.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from events import SCHEMA, machine, show, write_batch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tidemill as tm
from tests.processes import living, parent, session_of
from tests.servers.airflow_servers import KILLS, AirflowServers, missing, wait_until
from tidemill.pipeline.load import load

ROWS = 10_000
PIPELINE = """
import os, time
from pathlib import Path
import tidemill as tm

HERE = Path(__file__).parent


def waiting(batch):
    (HERE / f"holding-{{os.getpid()}}").touch()
    while (HERE / "hold").exists():
        time.sleep(0.01)
    return batch


p = tm.Pipeline("{name}")
events = p.read(tm.Files(str(HERE / "in"), schema="{schema}", maxFilesPerTrigger=1))
if {held}:
    events = events.map_batches(waiting, "{schema}")
events.groupBy("key").agg(n=tm.count(), s=tm.sum("value"), name="agg").write(tm.Parquet(str(HERE / "out")))
"""
DAG = """
from datetime import timedelta
from tidemill.airflow import Watch, tidemill_dags
tidemill_dags(
    {reference!r}, root={root!r}, name={name!r}, engine={engine!r}, sweep=False, maintain=False, replay=False,
    correct=False, **dict({arguments})
)
"""
MANUAL = "schedule=None"
OFTEN = "schedule=None, dag_args={'default_args': {'retries': 1, 'retry_delay': timedelta(seconds=15)}}"
"""The retries of a DAG whose schedule is more often than every five minutes."""
WATCHED = "schedule='@yearly', watch=Watch(poll=1)"
PLACES = {
    "auto": ("auto", MANUAL),
    "local": ("local", MANUAL),
    "spark": ("spark", MANUAL),
    "watched": ("auto", WATCHED),
    "task": ("auto", OFTEN),
    "supervisor": ("auto", OFTEN),
    "scheduler": ("auto", OFTEN),
    "many": ("auto", MANUAL),
}
"""Of each pipeline its engine and the other arguments of its DAG."""
HELD = ("task", "supervisor", "scheduler")


class Place:
    """A pipeline in a folder of its own, and its repository."""

    def __init__(self, home: Path, name: str) -> None:
        self.name, self.folder, self.root = name, home / name, home / "root"
        self.events = self.folder / "in"
        self.events.mkdir(parents=True)
        self.files = 0
        file = self.folder / f"{name}.py"
        file.write_text(PIPELINE.format(name=name, schema=SCHEMA, held=name in HELD))
        self.reference = f"{file}:p"
        self.repository().init()

    def repository(self) -> tm.Repository:
        return tm.open(load(self.reference), str(self.root))

    def add(self) -> int:
        """Write a file, and return the version that will read it."""
        write_batch(self.events, self.files, ROWS)
        self.files += 1
        return self.files - 1

    def committed_at(self, version: int) -> float:
        """Return the time at which a version was committed, from its object."""
        (commit,) = [
            found
            for found in self.root.glob(f"{self.name}/branches/*/commits/*.json")
            if int(found.stem.rpartition("-")[2]) == version
        ]
        return commit.stat().st_ctime

    def check(self) -> None:
        """Check that the state equals a plain aggregate over all files."""
        import duckdb

        (expected,) = duckdb.sql(f"SELECT count(*), sum(value) FROM '{self.events}/0*.parquet'").fetchall()
        state = self.repository().state("agg")
        assert (sum(state["n"].to_pylist()), sum(state["s"].to_pylist())) == expected, f"wrong result of {self.name}"


class Bench:
    """The servers, and one method for each figure, which returns seconds."""

    def __init__(self, servers: AirflowServers, places: dict[str, Place]) -> None:
        self.servers, self.places = servers, places

    def ends(self, dag: str, run_id: str) -> None:
        wait_until(lambda: self.servers.run_state(dag, run_id) in ("success", "failed"), f"`{dag}` {run_id} ends")
        assert self.servers.run_state(dag, run_id) == "success", f"`{dag}` {run_id} failed"

    def trigger_to_commit(self, name: str, runs: int) -> list[float]:
        seconds = []
        for number in range(runs + 1):
            version = self.places[name].add()
            started = time.time()
            self.servers.trigger(name, f"run-{number}")
            self.ends(name, f"run-{number}")
            seconds.append(self.places[name].committed_at(version) - started)
        return seconds[1:]

    def idle_task(self, name: str, runs: int) -> list[float]:
        for number in range(runs):
            self.servers.trigger(name, f"idle-{number}")
            self.ends(name, f"idle-{number}")
        return [float(self.servers.task(name, f"idle-{number}")["duration"]) for number in range(runs)]

    def file_to_commit(self, runs: int) -> list[float]:
        place, seconds = self.places["watched"], []
        for number in range(runs + 1):
            started = time.time()
            version = place.add()
            wait_until(
                lambda: [one["state"] for one in self.servers.runs("watched")] == ["success"] * (number + 1),  # noqa: B023
                "the file starts a run",
            )
            seconds.append(place.committed_at(version) - started)
            time.sleep(number % 3 / 3)  # at different moments of the watcher's second
        return seconds[1:]

    def kill_to_commit(self, name: str, kill: Callable[[int], None], runs: int) -> list[float]:
        """`kill` gets the process id of a command that is in the middle of a batch."""
        place, seconds = self.places[name], []
        for number in range(runs):
            (place.folder / "hold").touch()
            for seen in place.folder.glob("holding-*"):
                seen.unlink()
            version = place.add()
            self.servers.trigger(name, f"run-{number}")
            wait_until(lambda: list(place.folder.glob("holding-*")), "a command is in the middle of a batch")
            (held,) = place.folder.glob("holding-*")
            command = session_of(int(held.name.partition("-")[2]))
            started = time.time()
            kill(command)
            wait_until(lambda: not living([command]), "the command is gone")  # noqa: B023
            (place.folder / "hold").unlink()
            self.ends(name, f"run-{number}")
            seconds.append(place.committed_at(version) - started)
        return seconds

    def replace_scheduler(self, _: int) -> None:
        self.servers.kill_between_transactions("scheduler")
        self.servers.start_one("scheduler")

    def drained(self, batches: int) -> list[float]:
        place = self.places["many"]
        for _ in range(batches):
            last = place.add()
        started = time.time()
        self.servers.trigger("many", "drain")
        self.ends("many", "drain")
        return [place.committed_at(last) - started]


def submitted(home: Path, submits: int) -> list[float]:
    """Return the seconds of each `spark-submit`, which processes one micro-batch, from its start to its commit."""
    import pyspark

    from tidemill import run_batch
    from tidemill.engines.java import find_java, home_for_spark

    java = find_java(os.environ, pyspark.__version__)
    env = {**os.environ, "JAVA_HOME": str(home_for_spark(java)), "PYSPARK_PYTHON": sys.executable}
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    place, seconds = Place(home, "submits"), []
    for _ in range(submits):
        version = place.add()
        started = time.time()
        job = [run_batch.__file__, place.reference, "--root", str(place.root), "--max-batches", "1"]
        subprocess.run([submit, "--master", "local[2]", *job], check=True, capture_output=True, env=env)
        seconds.append(place.committed_at(version) - started)
    place.check()
    return seconds


def measure(home: Path, given: argparse.Namespace) -> None:
    """Start the servers and print all figures."""
    (home / "dags").mkdir()
    places = {name: Place(home, name) for name in PLACES}
    for name, place in places.items():
        engine, arguments = PLACES[name]
        known = {"reference": place.reference, "root": str(place.root), "name": name}
        (home / "dags" / f"{name}_dag.py").write_text(DAG.format(engine=engine, arguments=arguments, **known))
    with AirflowServers(home, KILLS) as servers:
        servers.wait(len(PLACES))
        bench = Bench(servers, places)
        for engine in ("auto", "local"):
            show(f"{engine}: trigger to commit, {ROWS:,} rows", bench.trigger_to_commit(engine, given.runs))
        show("auto: task that finds nothing to do", bench.idle_task("auto", given.runs))
        show("auto: file to commit, watched every second", bench.file_to_commit(given.runs))
        if given.spark:
            show("spark: trigger to commit, cold", bench.trigger_to_commit("spark", given.spark))
        if given.kills:
            for name, kill in (
                ("task", lambda command: os.kill(parent(command), signal.SIGKILL)),
                ("supervisor", lambda command: os.kill(parent(parent(command)), signal.SIGKILL)),
                ("scheduler", bench.replace_scheduler),
            ):
                show(f"kill -9 of a {name} to the retry's commit", bench.kill_to_commit(name, kill, given.kills))
        if given.batches:
            drained = bench.drained(given.batches)
            show(f"one run drains {given.batches} batches", drained, ROWS * given.batches)
        for place in places.values():
            if place.files:
                place.check()
    if given.batches and given.submits:
        each = submitted(home, given.submits)
        show(f"spark-submit for one batch ({given.submits} measured)", each)
        ratio = statistics.median(each) * given.batches / drained[0]
        print(f"a spark-submit for each of {given.batches} batches would take {ratio:.0f} times as long as the one run")


def main() -> None:
    """Run the measurements that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9, help="runs of each kind")
    parser.add_argument("--spark", type=int, default=3, help="runs on cold Spark; 0 for none")
    parser.add_argument("--kills", type=int, default=3, help="killed tasks, supervisors and schedulers; 0 for none")
    parser.add_argument("--batches", type=int, default=100, help="micro-batches that wait for one run; 0 for none")
    parser.add_argument("--submits", type=int, default=5, help="spark-submits of one micro-batch; 0 for none")
    given = parser.parse_args()
    if found := missing():
        raise SystemExit(found)
    print(f"{machine()}, medians of {given.runs}")
    home = Path(tempfile.mkdtemp(prefix="tidemill-bench-"))
    try:
        measure(home, given)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()

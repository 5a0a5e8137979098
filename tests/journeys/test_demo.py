"""`tidemill demo` on the local engine and real flights: what it says is what a naive loop over its files finds."""

from __future__ import annotations

import csv
import filecmp
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pytest

import tidemill as tm
from tidemill.demo import flights

pytestmark = pytest.mark.servers("run the demo")

DAYS = 42
ROOT = Path(__file__).resolve().parents[2]


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "tidemill", "demo", "--days", str(DAYS), "--engine", "local", *options]


def interrupted(folder: Path, environment: dict[str, str]) -> str:
    """Interrupt the demo after its first batch, as by Ctrl-C, and return its stderr."""
    ran = subprocess.Popen(command(), env=environment, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert ran.stderr is not None
    said = []
    for line in ran.stderr:
        said.append(line)
        if line.startswith("version 0: "):
            ran.send_signal(signal.SIGINT)
    assert ran.wait() == 130
    return "".join(said)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the demo was interrupted, ran for one batch, went on to its end, and was called once more."""
    folder = tmp_path_factory.mktemp("demo")
    environment = {**os.environ, "TIDEMILL_DEMO": str(folder)}
    (folder / "interrupted.err").write_text(interrupted(folder, environment))
    for name, options in (("first", ["--max-batches", "1"]), ("second", []), ("third", [])):
        found = subprocess.run(
            command(*options), env=environment, cwd=folder, capture_output=True, text=True, check=True
        )
        (folder / f"{name}.out").write_text(found.stdout)
        (folder / f"{name}.err").write_text(found.stderr)
    return folder


@pytest.fixture
def repository(folder: Path) -> tm.Repository:
    return tm.open(flights.p, root=str(folder / "repository"))


def rows(folder: Path) -> list[list[dict[str, str]]]:
    """The flights by batch: seven files each, by name."""
    files = sorted((folder / "flights").iterdir())
    batches = [files[number : number + 7] for number in range(0, len(files), 7)]
    return [[row for file in batch for row in csv.DictReader(file.open())] for batch in batches]


def test_an_interrupted_demo_resumes_and_reports_it(folder):
    said = [(folder / f"{name}.err").read_text() for name in ("interrupted", "first", "second", "third")]
    assert "splitting flights into daily files: 42 files" in said[0]
    assert "starting at version 0: 42 files are waiting" in said[0]
    assert said[0].rstrip().splitlines()[-1].startswith("interrupted: committed batches are kept")
    assert "Traceback" not in said[0]
    next_version = int(re.findall(r"continuing at version (\d+): (\d+) files", said[1])[0][0])
    assert next_version >= 1
    assert f"continuing at version {next_version}: {42 - 7 * next_version} files are waiting" in said[1]
    assert f"continuing at version {next_version + 1}: {35 - 7 * next_version} files are waiting" in said[2]
    assert "already finished: version 5 has read every file" in said[3]
    assert "splitting" not in said[1] + said[2] + said[3]
    assert re.findall(r"^version (\d+): batch", said[1] + said[2], re.M) == list(map(str, range(next_version, 6)))


def test_every_call_prints_the_summary(folder):
    for name in ("first", "second", "third"):
        said = (folder / f"{name}.out").read_text()
        for part in ("The busiest of", "Silent aircraft: ", "at an old version and at the newest",
                     "Running totals of the carriers", "Folders\n", "Next steps\n"):  # fmt: skip
            assert part in said, (name, part)
    assert "Files are still waiting. Run the demo again" in (folder / "first.out").read_text()
    assert "Files are still waiting" not in (folder / "second.out").read_text()
    assert "rows/s" in (folder / "second.out").read_text()
    assert "Nothing left to do." in (folder / "third.out").read_text()


def test_carrier_totals_equal_a_query_over_the_files(folder, repository):
    expected = duckdb.sql(
        f"SELECT carrier, count(*), count(dep_delay), sum(distance), max(dep_delay) "
        f"FROM read_csv('{folder}/flights/*.csv') GROUP BY carrier"
    ).fetchall()
    totals = repository.outputs(sink="carriers").to_pylist()
    newest = {row["carrier"]: row for row in totals}
    assert {
        (row["carrier"], row["flights"], row["departed"], row["miles"], row["worst_delay"]) for row in newest.values()
    } == set(expected)
    assert sum(row["flights"] for row in newest.values()) == sum(map(len, rows(folder)))


def test_aircraft_and_alerts_equal_a_naive_loop(folder, repository):
    state: dict[str, tuple[int, int, datetime]] = {}
    alerts: Counter[tuple[str, int, datetime]] = Counter()
    watermark = newest = datetime(1970, 1, 1)
    late = 0
    for batch in rows(folder):
        for row in batch:
            if not row["dep_delay"] or not row["tailnum"]:
                continue
            scheduled = datetime.strptime(row["scheduled"], "%Y-%m-%dT%H:%M:%SZ")
            departure = scheduled + timedelta(minutes=int(row["dep_delay"]))
            newest = max(newest, departure)
            if departure <= watermark:
                late += 1
                continue
            count, minutes, seen = state.get(row["tailnum"], (0, 0, departure))
            state[row["tailnum"]] = (count + 1, minutes + int(row["air_time"] or 0), max(seen, departure))
        watermark = max(watermark, newest - timedelta(days=2))
        for tail in [tail for tail, (_, _, seen) in state.items() if seen + timedelta(days=30) < watermark]:
            count, _, seen = state.pop(tail)
            alerts[tail, count, seen] += 1
    found = repository.state("aircraft").to_pylist()
    assert {
        row["tailnum"]: (row["flights"], row["air_minutes"], row["last_seen"].replace(tzinfo=None)) for row in found
    } == state
    given = repository.outputs(sink="aircraft").to_pylist()
    assert Counter((r["tailnum"], r["flights"], r["last_seen"].replace(tzinfo=None)) for r in given) == alerts
    assert alerts
    assert sum(commit.counts.late_rows for commit in repository.commits()) == late


def test_batch_times_follow_the_files(repository):
    assert [commit.batch_time_ms for commit in repository.commits()] == [
        int(datetime.fromisoformat(f"2013-01-0{8}T00:00:00+00:00").timestamp() * 1000) + week * 7 * 86_400_000
        for week in range(6)
    ]


def test_published_folders_hold_the_committed_outputs(folder, repository):
    silent = duckdb.sql(f"SELECT tailnum, flights FROM '{folder}/silent/*.parquet'").fetchall()
    committed = [(row["tailnum"], row["flights"]) for row in repository.outputs(sink="aircraft").to_pylist()]
    assert sorted(silent) == sorted(committed)
    lines = [json.loads(line) for file in (folder / "carriers").glob("*.json") for line in file.open()]
    assert len(lines) == repository.outputs(sink="carriers").num_rows


def commands(folder: Path) -> list[str]:
    said = (folder / "third.out").read_text()
    return [line.strip() for line in said[said.index("Next steps") :].splitlines() if line.startswith("  ")]


def test_printed_commands_run_unchanged(folder):
    found = commands(folder)
    assert len(found) == 4
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in found:
        ran = subprocess.run(
            command, shell=True, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        assert ran.returncode == 0, (command, ran.stderr)
        assert ran.stdout.strip()


def test_duckdb_reads_the_same_state_from_the_files_alone(folder, repository):
    sql = (folder / "aircraft.sql").read_text().replace(" LIMIT 5", "")
    read = duckdb.connect()
    found = {row[0]: row[2:4] for row in read.sql(sql).fetchall()}
    state = repository.state("aircraft").to_pylist()
    assert found == {row["tailnum"]: (row["flights"], row["air_minutes"]) for row in state}


def test_the_example_is_the_demos_pipeline():
    assert filecmp.cmp(ROOT / "examples" / "flights.py", flights.__file__, shallow=False)

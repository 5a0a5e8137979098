"""Time one occasion as Airflow has it: a process, one new CSV file of 50,000 rows, `.agg`, the local engine.

    python benchmarks/occasion.py [--rounds 11] [--before CHECKOUT]

Ours is `tidemill run` in the child process that Airflow's tasks start (`airflow/calls/process.py`). The peer is the
script that people write instead, as a process: state in a DuckDB file, `ON CONFLICT`, changed rows to Parquet, one
transaction. Both have had one file before, so that each finds 50,000 rows of state. In each round, both read the same
new file, in turn; then their sums must be equal. `CHECKOUT` is a folder in which an earlier version was built.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from events import machine, show

from tidemill.airflow.calls.command import Command
from tidemill.airflow.calls.process import Child

ROWS, KEYS = 50_000, 100_000
PIPELINE = """
import tidemill as tm

p = tm.Pipeline("occasion")
rows = p.read(tm.Files({folder!r}, format="csv", header=True, schema="key string, ts timestamp, value double"))
rows.groupBy("key").agg(n=tm.count(), s=tm.sum("value"), name="t"){sink}
"""
SCRIPT = """
import sys
from pathlib import Path
import duckdb

folder, base = Path(sys.argv[1]), Path(sys.argv[2])
connection = duckdb.connect(str(base / "state.duckdb"))
connection.execute("CREATE TABLE IF NOT EXISTS state (key VARCHAR PRIMARY KEY, n BIGINT, s DOUBLE)")
connection.execute("CREATE TABLE IF NOT EXISTS done (file VARCHAR PRIMARY KEY)")
done = {name for (name,) in connection.execute("SELECT file FROM done").fetchall()}
columns = "{'key': 'VARCHAR', 'ts': 'TIMESTAMP', 'value': 'DOUBLE'}"
for file in sorted(folder.glob("*.csv")):
    if file.name in done:
        continue
    connection.begin()
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE batch AS SELECT key, count(*) AS n, sum(value) AS s "
        f"FROM read_csv('{file}', header=true, columns={columns}) GROUP BY key"
    )
    connection.execute(
        "INSERT INTO state SELECT * FROM batch "
        "ON CONFLICT (key) DO UPDATE SET n = state.n + excluded.n, s = state.s + excluded.s"
    )
    out = base / f"{file.stem}.parquet"
    connection.execute(f"COPY (SELECT state.* FROM state JOIN batch USING (key)) TO '{out}' (FORMAT parquet)")
    connection.execute("INSERT INTO done VALUES (?)", [file.name])
    connection.commit()
connection.close()
"""


def main() -> None:
    """Measure ours and the peer in turn, and print medians and the median of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--before", help="the checkout of an earlier version")
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    pythons = {"tidemill": sys.executable}
    if given.before:
        pythons["before"] = str(Path(given.before) / ".venv/bin/python")
    found: dict[str, list[float]] = {name: [] for name in [*pythons, "DuckDB script"]}
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        for number in range(given.rounds + 1):
            took = occasion(Path(base), number, pythons)
            for name, seconds in took.items() if number else ():  # the first makes the state
                found[name].append(seconds)
    print(f"{machine()}, medians of {given.rounds}")
    peer = found["DuckDB script"]
    for name, seconds in found.items():
        ratios = sorted(one / other for one, other in zip(seconds, peer, strict=True))
        middle = statistics.median(ratios)
        show(f"{name}: takes {middle:.2f} times as long as the script ({ratios[0]:.2f} to {ratios[-1]:.2f})", seconds)


def occasion(base: Path, number: int, pythons: dict[str, str]) -> dict[str, float]:
    """Give everyone the same new file, and return the seconds of each process."""
    content = rows_of(number)
    took = {}
    for name, python in pythons.items():
        took[name] = ours(base / name, number, content, python)
    took["DuckDB script"] = peers(base / "peer", number, content)
    check(base, list(pythons))
    return took


def rows_of(number: int) -> str:
    """Return a CSV file of 50,000 rows, seeded by its number."""
    chance = random.Random(number)
    lines = ["key,ts,value\n"]
    for row in range(ROWS):
        at = f"2024-01-{number % 28 + 1:02d} {row // 3600 % 24:02d}:{row // 60 % 60:02d}:{row % 60:02d}"
        lines.append(f"user-{chance.randrange(KEYS)},{at},{chance.randrange(1000)}.5\n")
    return "".join(lines)


def ours(base: Path, number: int, content: str, python: str) -> float:
    """Return the seconds of `tidemill run` as a child of a task."""
    folder, file, root = base / "in", base / "job.py", str(base / "root")
    if number == 0:
        folder.mkdir(parents=True)
        file.write_text(PIPELINE.format(folder=str(folder), sink=f".write(tm.Parquet({str(base / 'out')!r}))"))
        init = [python, "-m", "tidemill", "init", f"{file}:p", "--root", root]
        subprocess.run(init, check=True, capture_output=True)
    (folder / f"{number:03}.csv").write_text(content)
    command = Command("run", f"{file}:p", root, options={"engine": "local"})
    lines: list[str] = []
    started = time.perf_counter()
    outcome = Child(command, lambda event: None, lambda line, level: lines.append(line), python=python).run()
    took = time.perf_counter() - started
    assert outcome.status == 0 and outcome.versions == (number,), (outcome, lines)
    return took


def peers(base: Path, number: int, content: str) -> float:
    """Return the seconds of the script."""
    folder, file = base / "in", base / "script.py"
    if number == 0:
        folder.mkdir(parents=True)
        file.write_text(SCRIPT)
    (folder / f"{number:03}.csv").write_text(content)
    started = time.perf_counter()
    subprocess.run([sys.executable, str(file), str(folder), str(base)], check=True)
    return time.perf_counter() - started


def check(base: Path, names: list[str]) -> None:
    """Check that all have the same state."""
    import duckdb

    import tidemill as tm

    with duckdb.connect(str(base / "peer" / "state.duckdb"), read_only=True) as connection:
        (expected,) = connection.execute("SELECT count(*), sum(n)::BIGINT, sum(s) FROM state").fetchall()
    for name in names:
        state = tm.read(str(base / name / "root"), "occasion").state("t")
        found = state.num_rows, sum(state["n"].to_pylist()), sum(state["s"].to_pylist())
        assert found == expected, (name, found, expected)


if __name__ == "__main__":
    main()
